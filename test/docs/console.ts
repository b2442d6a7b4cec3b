import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect } from 'vitest';
import { eventually } from '../e2e/service.ts';
import { ROOT } from './pages.ts';

export interface Command {
  readonly command: string;
  readonly output: string;
}

/** Commands with their output, from the page's blocks with this marker, in order. */
export function commandsOf(page: string, marker: string): Command[] {
  const blocks = readFileSync(join(ROOT, page), 'utf8').split(`<!-- ${marker} -->\n\`\`\`console\n`).slice(1);
  return blocks.flatMap((block) =>
    block
      .slice(0, block.indexOf('```'))
      .split(/^\$ /m)
      .filter((part) => part !== '')
      .map((part) => {
        const [command = '', ...output] = part.split('\n');
        return { command, output: output.join('\n') };
      }),
  );
}

const CLI = join(ROOT, 'dist/cli.js');
const ID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';

/** A command's output without its varying parts: ids, times, ports, and spaces at the ends of lines. */
export const shapeOf = (output: string): string =>
  output
    .replace(new RegExp(ID, 'g'), 'ID')
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replace(/127\.0\.0\.1:\d+/g, 'HOST')
    .replace(/ +$/gm, '')
    .trim();

interface Place {
  readonly folder: string;
  /** The address for commands that name one. */
  readonly host?: string;
}

/**
 * Runs a page's commands in order, and asserts that they print what the page shows. Lists are repeated until they do.
 * The id in a command is the one that was printed last.
 */
export async function follow(commands: readonly Command[], { folder, host = '' }: Place): Promise<void> {
  let id = '';
  for (const { command, output } of commands) {
    const here = command
      .replace('npx sluice', `"${process.execPath}" "${CLI}"`)
      .replace(/127\.0\.0\.1:\d+/, host)
      .replace(new RegExp(ID), () => id);
    const env = { PATH: process.env.PATH ?? '' };
    const execute = () =>
      text(spawn('sh', ['-c', here], { cwd: folder, env, stdio: ['ignore', 'pipe', 'inherit'] }).stdout);
    const isList = /^npx sluice (runs|deliveries)\b/.test(command);
    const printed = await eventually(execute, (said) => !isList || shapeOf(said) === shapeOf(output), {
      seconds: 60,
      because: 'each try starts a process, and runs of the page take seconds',
    });
    expect(shapeOf(printed), command).toBe(shapeOf(output));
    id = new RegExp(`(?:"runId":"|^)(${ID})`, 'm').exec(printed)?.[1] ?? id;
  }
}
