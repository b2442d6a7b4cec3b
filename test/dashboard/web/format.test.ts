import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { format, timesIn } from '../../../src/dashboard/web/format.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: SECOND, min: MINUTE, h: HOUR, d: DAY };

/** Converts a duration's text back to milliseconds. */
function readDuration(text: string): number {
  const parts = [...text.matchAll(/([\d.]+)\u00a0(ms|s|min|h|d)/g)];
  return parts.reduce((sum, [, number, unit]) => sum + Number(number) * (UNITS[unit ?? ''] ?? Number.NaN), 0);
}

const anyDuration = fc.oneof(
  fc.double({ min: 0, max: 2 * SECOND, noNaN: true }),
  fc.double({ min: 0, max: 2 * HOUR, noNaN: true }),
  fc.double({ min: 0, max: 4000 * DAY, noNaN: true }),
);

/** With the space that joins a number and its unit. */
const unbroken = (text: string) => text.replaceAll(' ', '\u00a0');

describe('a duration', () => {
  it.each([
    [0, '0 ms'],
    [0.04, '0.0 ms'],
    [0.25, '0.2 ms'],
    [4, '4 ms'],
    [9.96, '9.9 ms'],
    [12.7, '12 ms'],
    [999.9, '999 ms'],
    [1000, '1.0 s'],
    [1290, '1.2 s'],
    [9999, '9.9 s'],
    [10_000, '10 s'],
    [59_999, '59 s'],
    [MINUTE, '1 min'],
    [185 * SECOND, '3 min 5 s'],
    [HOUR - 1, '59 min 59 s'],
    [2 * HOUR + 10 * MINUTE, '2 h 10 min'],
    [DAY - 1, '23 h 59 min'],
    [400 * DAY + HOUR, '400 d 1 h'],
  ])('of %d ms reads %j', (ms, text) => {
    expect(format.duration(ms)).toBe(unbroken(text));
  });

  it.each([[-1], [-DAY]])('of %d ms, which only clocks that differ make, reads as none', (ms) => {
    expect(format.duration(ms)).toBe(unbroken('0 ms'));
  });

  it.each([[Number.NaN], [Number.POSITIVE_INFINITY], [Number.NEGATIVE_INFINITY]])('that is %d is a dash', (ms) => {
    expect(format.duration(ms)).toBe('–');
  });

  it('never reads longer than it was, nor much shorter', () => {
    fc.assert(
      fc.property(anyDuration, (ms) => {
        const read = readDuration(format.duration(ms));
        expect(read).toBeLessThanOrEqual(ms + 1e-6);
        expect(read).toBeGreaterThanOrEqual(ms - Math.max(0.1, ms * 0.1) - 1e-6);
      }),
    );
  });

  it('reads no shorter when it lasted longer', () => {
    fc.assert(
      fc.property(anyDuration, anyDuration, (a, b) => {
        const [short, long] = [Math.min(a, b), Math.max(a, b)];
        expect(readDuration(format.duration(short))).toBeLessThanOrEqual(readDuration(format.duration(long)));
      }),
    );
  });
});

describe('a time relative to now', () => {
  const now = Date.UTC(2026, 10, 22, 12);
  it.each([
    [0, 'just now'],
    [-999, 'just now'],
    [999, 'just now'],
    [-12 * SECOND, '12 s ago'],
    [3 * MINUTE, 'in 3 min'],
    [-MINUTE, '1 min ago'],
    [-(HOUR - 1), '59 min ago'],
    [-2 * DAY, '2 d ago'],
    [-3000 * DAY, '3000 d ago'],
  ])('%d ms away reads %j', (distance, text) => {
    expect(format.relativeTime(now + distance, now)).toBe(text);
  });

  it('that is no time is a dash', () => {
    expect(format.relativeTime(Number.NaN, now)).toBe('–');
  });
});

describe('a time of day', () => {
  const noon = new Date(2026, 10, 22, 12).getTime();
  it('has no date on the day itself', () => {
    expect(format.clockTime(noon, noon + HOUR)).toBe('12:00:00');
  });

  it('has the date on another day, also where less than a day is between them', () => {
    expect(format.clockTime(new Date(2026, 10, 21, 23, 59, 59).getTime(), noon)).toMatch(/21.*23:59:59$/);
  });

  it('has the year in another year', () => {
    expect(format.clockTime(new Date(2025, 10, 22, 12).getTime(), noon)).toMatch(/2025.*12:00:00$/);
  });

  it('counts the first hour of a day as 00', () => {
    expect(format.clockTime(new Date(2026, 10, 22, 0, 5).getTime(), noon)).toBe('00:05:00');
    expect(format.exactTime(new Date(2026, 10, 22, 0, 5).getTime())).toContain('00:05:00');
  });

  it.each([[Number.NaN], [8.64e15 + 1]])('that is %d is a dash', (ms) => {
    expect(format.clockTime(ms, noon)).toBe('–');
    expect(format.exactTime(ms)).toBe('–');
    expect(format.zonedTime(ms, 'UTC')).toBe('–');
  });
});

describe('a time in a zone', () => {
  it.each([
    [Date.UTC(2026, 10, 22, 1), 'Europe/Berlin', 'Sun, 22 Nov 2026, 02:00:00'],
    [Date.UTC(2026, 10, 22, 1), 'UTC', 'Sun, 22 Nov 2026, 01:00:00'],
    [Date.UTC(2026, 10, 22, 1), 'No/Such', 'Sun, 22 Nov 2026, 01:00:00'],
    [Date.UTC(2026, 2, 29, 0, 59, 59), 'Europe/Berlin', 'Sun, 29 Mar 2026, 01:59:59'],
    [Date.UTC(2026, 2, 29, 1), 'Europe/Berlin', 'Sun, 29 Mar 2026, 03:00:00'],
    [Date.UTC(2026, 9, 25, 0, 30), 'Europe/Berlin', 'Sun, 25 Oct 2026, 02:30:00'],
    [Date.UTC(2026, 9, 25, 1, 30), 'Europe/Berlin', 'Sun, 25 Oct 2026, 02:30:00'],
    [Date.UTC(2026, 0, 1), 'Pacific/Kiritimati', 'Thu, 1 Jan 2026, 14:00:00'],
    [Date.UTC(2026, 0, 1), 'America/New_York', 'Wed, 31 Dec 2025, 19:00:00'],
  ])('%d in %s reads %j', (ms, timeZone, text) => {
    expect(format.zonedTime(ms, timeZone)).toBe(text);
  });
});

describe('a size', () => {
  it.each([
    [0, '0 B'],
    [1023, '1023 B'],
    [1024, '1.0 KiB'],
    [1_048_575, '1023.9 KiB'],
    [1_048_576, '1.0 MiB'],
    [5 * 1_073_741_824, '5.0 GiB'],
    [Number.NaN, '–'],
  ])('of %d bytes reads %j', (size, text) => {
    expect(format.bytes(size)).toBe(unbroken(text));
  });

  it('reads no smaller when there is more of it', () => {
    const read = (text: string) => {
      const [number, unit = 'B'] = text.split('\u00a0');
      return Number(number) * 1024 ** ['B', 'KiB', 'MiB', 'GiB'].indexOf(unit);
    };
    fc.assert(
      fc.property(fc.nat({ max: 2 ** 31 - 1 }), fc.nat({ max: 2 ** 31 - 1 }), (a, b) => {
        expect(read(format.bytes(Math.min(a, b)))).toBeLessThanOrEqual(read(format.bytes(Math.max(a, b))));
      }),
    );
  });
});

describe('words for the reader', () => {
  it.each([
    [0, '0 deliveries'],
    [1, '1 delivery'],
    [1_234_567, '1,234,567 deliveries'],
  ])('count %d deliveries as %j', (number, text) => {
    expect(format.counted(number, 'delivery', 'deliveries')).toBe(text);
  });

  it.each([
    [0, '0 %'],
    [0.001, '1 %'],
    [0.5, '50 %'],
    [0.999, '99 %'],
    [1, '100 %'],
  ])('show the share %d as %j: only all is 100 %%', (share, text) => {
    expect(format.percent(share)).toBe(unbroken(text));
  });

  it('shorten an id to its end, and keep a short one whole', () => {
    expect(format.shortId('0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10')).toBe('8d1c2a10');
    expect(format.shortId('abc')).toBe('abc');
  });
});

describe('a time in a field', () => {
  it('is read back as the same minute by the clock of the reader', () => {
    fc.assert(
      fc.property(
        fc.date({ min: new Date('1980-01-01'), max: new Date('9999-01-01'), noInvalidDate: true }),
        (date) => {
          const text = format.inputTime(date.getTime());
          expect(text).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d$/);
          const difference = date.getTime() - Date.parse(text);
          // An hour that a clock shows twice is read as its first.
          expect(difference % (HOUR / 2)).toBeLessThan(MINUTE);
          expect(Math.abs(difference)).toBeLessThan(HOUR + MINUTE);
        },
      ),
    );
  });

  it('is empty where there is none', () => {
    expect(format.inputTime(Number.NaN)).toBe('');
  });
});

describe('a message with times in it', () => {
  it.each([
    ['nothing here', [{ text: 'nothing here' }]],
    [
      'since 2026-11-22T01:00:00Z at most',
      [{ text: 'since ' }, { text: '2026-11-22T01:00:00Z', ms: Date.UTC(2026, 10, 22, 1) }, { text: ' at most' }],
    ],
    ['2026-11-22T01:00:00.5Z', [{ text: '2026-11-22T01:00:00.5Z', ms: Date.UTC(2026, 10, 22, 1) + 500 }]],
    // It has the form of a time but is not one.
    ['2026-13-45T01:00:00Z', [{ text: '2026-13-45T01:00:00Z' }]],
    ['', []],
  ])('%j is split around them', (message, parts) => {
    expect(timesIn(message)).toEqual(parts);
  });

  it('loses no letter', () => {
    const message = fc.array(fc.oneof(fc.string(), fc.constant('2026-11-22T01:00:00Z')));
    fc.assert(
      fc.property(message, (parts) => {
        expect(
          timesIn(parts.join(''))
            .map(({ text }) => text)
            .join(''),
        ).toBe(parts.join(''));
      }),
    );
  });
});
