import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { commandLine } from '../../src/commands/program.ts';
import { readTime } from '../../src/commands/time.ts';

const NOW = Date.parse('2026-03-01T09:30:00Z');

describe('a time that a person gives', () => {
  let zone: string | undefined;
  beforeEach(() => {
    zone = process.env.TZ;
    process.env.TZ = 'Europe/Vienna';
  });
  afterEach(() => {
    if (zone === undefined) delete process.env.TZ;
    else process.env.TZ = zone;
  });

  it.each([
    ['02:00', '2026-03-01T01:00:00Z', 'the last time that it was 02:00 here, today'],
    ['2:00', '2026-03-01T01:00:00Z', 'the same without the zero'],
    ['10:30', '2026-03-01T09:30:00Z', 'now is the last time that it was now'],
    ['10:30:01', '2026-02-28T09:30:01Z', 'or yesterday, where it has not been yet today'],
    ['23:15', '2026-02-28T22:15:00Z', 'or yesterday'],
    ['30m', '2026-03-01T09:00:00Z', 'minutes ago'],
    ['2h', '2026-03-01T07:30:00Z', 'hours ago'],
    ['3d', '2026-02-26T09:30:00Z', 'days ago'],
    ['2026-03-01T12:00:00+02:00', '2026-03-01T10:00:00Z', 'ISO 8601'],
    ['2026-03-01', '2026-03-01T00:00:00Z', 'the midnight of a date, in UTC as the API has it'],
    ['1772357400000', '2026-03-01T09:30:00Z', 'milliseconds since 1970'],
  ])('%s is %s: %s', (text, expected) => {
    expect(readTime(text, NOW)).toBe(Date.parse(expected));
  });

  it('on the day after clocks were put forward, the same clock time is 23 hours earlier', () => {
    expect(readTime('12:00', Date.parse('2026-03-29T09:00:00Z'))).toBe(Date.parse('2026-03-28T11:00:00Z'));
  });

  it.each([
    '',
    '24:00',
    '02:60',
    '2',
    'h',
    '2w',
    '-2h',
    'yesterday',
    '2026-02-31',
    '2026-03-01T12:00',
    '2026-03-01T25:00Z',
    '2026-3-1',
    '20261130',
    '202611301200',
    '20261130120000',
    '1772357400',
  ])('"%s" is no time', (text) => {
    expect(readTime(text, NOW)).toBeUndefined();
  });
});

it('an option that is no time is refused by its name', () => {
  const command = commandLine().commands.find((each) => each.name() === 'activity');
  const refused = () =>
    command
      ?.exitOverride()
      .configureOutput({ writeErr: () => {} })
      .parseOptions(['--until', 'soon']);
  expect(refused).toThrow(/'--until <time>' argument 'soon' is invalid\. expected 02:00/);
});
