import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';
import { endsWithFile } from '../e2e/children.ts';
import { temporaryFolder } from '../temporary.ts';

const CLI = resolve(import.meta.dirname, '../../dist/cli.js');

const start = (args: readonly string[], stdout: 'pipe' | number = 'pipe') =>
  endsWithFile(
    spawn(process.execPath, [CLI, ...args], {
      cwd: temporaryFolder('output'),
      env: {},
      stdio: ['ignore', stdout, 'pipe'],
    }),
  );

it.each([[['schemes', '--json']], [['schema']]])(
  '%j ends quietly when its reader leaves, as if SIGPIPE had ended it',
  async (args) => {
    const child = start(args);
    child.stdout?.destroy();
    const [stderr, [code]] = await Promise.all([text(child.stderr as NodeJS.ReadableStream), once(child, 'exit')]);
    expect({ code, stderr }).toEqual({ code: 141, stderr: '' });
  },
);

it('a command reports in one line that its output cannot be written, and ends with 2', async () => {
  const full = openSync('/dev/full', 'w');
  const child = start(['schemes', '--json'], full);
  closeSync(full);
  const [stderr, [code]] = await Promise.all([text(child.stderr as NodeJS.ReadableStream), once(child, 'exit')]);
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(/^standard output: ENOSPC.*\n$/) });
});

it('a command whose messages nobody reads still ends with its own code', async () => {
  const child = start(['deploy']);
  child.stderr?.destroy();
  child.stdout?.resume();
  expect((await once(child, 'exit'))[0]).toBe(2);
});
