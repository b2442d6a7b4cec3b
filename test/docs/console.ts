import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './pages.ts';

export interface Command {
  readonly command: string;
  readonly output: string;
}

/** Commands of a page with what they print: of the blocks that say so, in order. */
export function commandsOf(page: string, marker: string): Command[] {
  const text = readFileSync(join(ROOT, page), 'utf8');
  const blocks = text.split(`<!-- ${marker} -->\n\`\`\`console\n`).slice(1);
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
