import { expect, it } from 'vitest';
import { table } from '../../src/commands/table.ts';

it('columns are as wide as their longest cell, and no line ends with spaces', () => {
  expect(
    table(
      ['ID', 'NAME'],
      [
        ['1', 'push'],
        ['1000', ''],
      ],
    ),
  ).toBe('ID    NAME\n1     push\n1000\n');
});

it('the last cell is cut where a line is longer than the terminal, but not to nothing', () => {
  const rows = [['1', 'the key of the trigger does not match the signature']];
  expect(table(['ID', 'WHY'], rows, 30)).toBe('ID  WHY\n1   the key of the trigger do…\n');
  expect(table(['ID', 'WHY'], rows, 5)).toBe('ID  WHY\n1   the key of the trig…\n');
});

it('a text from outside starts no line and steers no terminal', () => {
  expect(table(['WHY'], [['a\nb\u001b[2J']])).toBe('WHY\na\\u000ab\\u001b[2J\n');
});
