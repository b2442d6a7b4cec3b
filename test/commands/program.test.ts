import { describe, expect, it } from 'vitest';
import { HELP } from '../../src/commands/part.ts';
import { commandLine } from '../../src/commands/program.ts';

describe('sluice --help', () => {
  const program = commandLine();
  const headings: readonly string[] = Object.values(HELP);

  it('begins with the commands of daily use, ten at most', () => {
    const daily = program.commands.filter((command) => command.helpGroup() === HELP.daily);
    expect(daily.length).toBeLessThanOrEqual(10);
    const [first] =
      program
        .helpInformation()
        .match(/^[A-Z].*:$/gm)
        ?.filter((line) => headings.includes(line)) ?? [];
    expect(first).toBe(HELP.daily);
  });

  it.each(program.commands.map((command) => [command.name(), command] as const))(
    'has a heading for %s',
    (_, command) => {
      expect(headings).toContain(command.helpGroup());
    },
  );
});
