import { expect, it } from 'vitest';
import { commandLine } from '../../src/commands/program.ts';
import { PAGES } from './pages.ts';

const program = commandLine();
const COMMANDS = new Map(
  program.commands.map((command) => [
    command.name(),
    [program, command, ...command.commands].flatMap(({ options }) => options).flatMap(({ long }) => long ?? []),
  ]),
);

/** Commands and options in a text that Sluice does not have. */
function unknownIn(text: string): string[] {
  const named = text.matchAll(/(?:npx |`)sluice ([a-z]+(?:-[a-z]+)*)\b([^`\n]*)/g);
  return [...named].flatMap(([, command = '', rest = '']) => {
    const known = COMMANDS.get(command);
    if (known === undefined) return [command];
    const options = rest.match(/(?<=\s|\[)--[a-z-]+/g) ?? [];
    return options.filter((option) => option !== '--help' && !known.includes(option));
  });
}

it.each(PAGES)('$name names commands and options that the command line has', ({ text }) => {
  expect(unknownIn(text)).toEqual([]);
});

it('finds commands and options that there are not', () => {
  expect(unknownIn('Use `npx sluice nothing`, `npx sluice send x --frobnicate` and `sluice check --json`.')).toEqual([
    'nothing',
    '--frobnicate',
  ]);
});
