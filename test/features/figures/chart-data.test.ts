import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  askedOf,
  axisTexts,
  axisWidth,
  bucketName,
  type ChartSeries,
  COUNT_STEPS,
  countText,
  fromFirst,
  reasonCounts,
  sinceFirst,
  stack,
  stepOf,
  total,
  windowOf,
  windowOfSpan,
} from '../../../src/features/figures/chart-data.ts';

const HOUR = 3_600_000;
const series = (...rows: number[][]): ChartSeries[] =>
  rows.map((values, index) => ({ name: String(index), colour: 'good', values }));

describe('the axis of counts', () => {
  it('has a step for any count, and reads a million and more in short', () => {
    expect(COUNT_STEPS.slice(0, 7)).toEqual([1, 2, 5, 10, 20, 50, 100]);
    expect(COUNT_STEPS).toEqual(expect.arrayContaining([1e6, 5e6, 2e9, 1e12]));
    expect([0, 150_000, 1_500_000, 2e9, 1e12].map(countText)).toEqual(['0', '150,000', '1.5M', '2B', '1T']);
  });

  it('is wide enough for its longest text', () => {
    expect([null, ['0', '50'], ['0', '150,000']].map(axisWidth)).toEqual([40, 40, 59]);
    expect(axisWidth(['100,000', null])).toBe(axisWidth(['100,000']));
  });
});

describe('a window', () => {
  const now = Date.parse('2026-03-01T12:40:00Z');
  const { window } = windowOf('24h');

  it('begins with the first event of a service that is younger, in bars that fit', () => {
    const since = (firstAt: string | null) => sinceFirst(window, firstAt, now);
    expect(since('2026-03-01T12:00:00Z')).toMatchObject({
      bucket: 'minute',
      back: { since: '2026-03-01T12:00:00.000Z', until: '' },
    });
    expect(since('2026-02-28T20:00:00Z')).toMatchObject({ bucket: 'hour', isFromFirst: true });
    expect(since('2026-02-28T12:00:00Z')).toBe(window);
    expect(since(null)).toBe(window);
  });

  it('from the first event on shows nothing before, but 15 bars at least', () => {
    const bars = [...Array.from({ length: 30 }, () => 0), 1, ...Array.from({ length: 19 }, () => 0)];
    const shown = (given: object, totals: number[]) =>
      fromFirst(
        { ...window, ...given },
        totals.map((total) => ({ total })),
      ).length;
    expect(shown({ isFromFirst: true }, bars)).toBe(20);
    expect(shown({ isFromFirst: true }, bars.slice(0, 33))).toBe(15);
    expect(shown({ isFromFirst: true }, [0, 0])).toBe(2);
    expect(shown({}, bars)).toBe(50);
  });
});

describe('stacked bars', () => {
  it('stand on those before them; the last, the highest, comes first', () => {
    expect(stack([0, HOUR], series([1, 2], [3, 0]))).toEqual([
      [1800, 5400],
      [4, 2],
      [1, 2],
    ]);
  });

  it('never sink below the bar that they stand on, and the highest is the sum of all', () => {
    const rows = fc.array(fc.array(fc.nat(1e6), { minLength: 3, maxLength: 3 }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(rows, (values) => {
        const [, ...drawn] = stack([0, HOUR, 2 * HOUR], series(...values));
        for (const index of [0, 1, 2]) {
          const heights = drawn.map((row) => row[index] ?? 0);
          expect(heights).toEqual([...heights].sort((a, b) => b - a));
          expect(heights[0]).toBe(total(values.map((row) => row[index] ?? 0)));
        }
      }),
    );
  });

  it.each([
    ['no bucket', [], []],
    ['one bucket', [HOUR], [HOUR / 1000]],
  ])('of %s need no distance between bars', (_, times, middles) => {
    expect(stack(times, series(times.map(() => 1)))[0]).toEqual(middles);
    expect(stepOf(times)).toBe(0);
  });
});

describe('the name of a bar', () => {
  // Days are counted in UTC: west of Greenwich, their start is still on the previous local day.
  it.each([['America/New_York'], ['Europe/Berlin'], ['Pacific/Kiritimati'], ['UTC']])(
    'of a day is that day, seen from %s',
    (timeZone) => {
      expect(bucketName(Date.UTC(2026, 10, 22), { isByDay: true, timeZone })).toMatch(/22/);
      expect(axisTexts([Date.UTC(2026, 10, 22) / 1000], { isByDay: true, timeZone })[0]).toMatch(/22/);
    },
  );

  it.each([
    ['America/New_York', Date.UTC(2026, 10, 22, 2), /21.*21:00$/],
    ['Europe/Berlin', Date.UTC(2026, 10, 22, 23), /23.*00:00$/],
    // The hour that summer time skips.
    ['Europe/Berlin', Date.UTC(2026, 2, 29, 1), /29.*03:00$/],
  ])('of an hour is the hour of the clock in %s', (timeZone, ms, text) => {
    expect(bucketName(ms, { isByDay: false, timeZone })).toMatch(text);
  });

  it('along the axis of several days of hours is the day of the reader', () => {
    const clock = { isByDay: false, timeZone: 'America/New_York' };
    expect(axisTexts([Date.UTC(2026, 10, 22, 2) / 1000], clock, true)[0]).toMatch(/21/);
  });

  it('is not repeated along the axis', () => {
    const seconds = [0, HOUR, 30 * HOUR].map((ms) => (Date.UTC(2026, 10, 22) + ms) / 1000);
    const [first, second, third] = axisTexts(seconds, { isByDay: true });
    expect(first).toMatch(/22/);
    expect(second).toBe('');
    expect(third).toMatch(/23/);
  });
});

describe('the window of the charts', () => {
  it.each([
    [null, { bucket: 'hour', hours: 24 }],
    ['1h', { bucket: 'minute', minutes: 60 }],
    ['24h', { bucket: 'hour', hours: 24 }],
    ['7d', { bucket: 'hour', hours: 168 }],
    ['30d', { bucket: 'day', days: 30 }],
    ['90d', { bucket: 'hour', hours: 24 }],
    ['', { bucket: 'hour', hours: 24 }],
  ])('%j asks the API for %j', (value, asked) => {
    expect(askedOf(windowOf(value).window, true)).toEqual(asked);
  });

  it('of days asks for hours where the API takes no days', () => {
    expect(askedOf(windowOf('30d').window, false)).toEqual({ bucket: 'day', hours: 720 });
  });
});

describe('the chart of a span of time', () => {
  const now = Date.UTC(2026, 10, 22, 12);
  const asked = (since: string, until: string) => askedOf(windowOfSpan({ since, until }, now), true);
  it.each([
    ['no span', '', '', { bucket: 'hour', hours: 24 }],
    ['one that cannot be read', 'later', 'soon', { bucket: 'hour', hours: 24 }],
    ['an hour in minutes', '2026-11-22T03:00:00Z', '2026-11-22T04:00:00Z', { bucket: 'minute' }],
    ['one until now without an end', '2026-11-22T11:00:00Z', '', { bucket: 'minute', until: '' }],
    ['a day in hours', '2026-11-20T03:00:00Z', '2026-11-21T03:00:00Z', { bucket: 'hour' }],
    ['the day before its end where that is all', '', '1795348800000', { since: '2026-11-21T12:00:00.000Z' }],
    ['three months in days', '2026-08-20T03:00:00Z', '', { bucket: 'day' }],
    ['all time as far as the API goes', '0', '', { bucket: 'day', since: '2024-02-28T12:00:00.000Z' }],
    [
      'a minute with what is around it',
      '2026-11-22T03:10:00Z',
      '2026-11-22T03:11:00Z',
      { bucket: 'minute', since: '2026-11-22T03:03:00.000Z', until: '2026-11-22T03:18:00.000Z' },
    ],
  ])('shows %s', (_name, since, until, expected) => {
    expect(asked(since, until)).toMatchObject(expected);
  });

  it('never asks for more than the API counts at once', () => {
    const most = { minute: 360, hour: 1000, day: 1000 } as const;
    const sizes = { minute: 60_000, hour: HOUR, day: 24 * HOUR } as const;
    fc.assert(
      fc.property(fc.nat(now), fc.nat(now), (one, other) => {
        const [since, until] = [String(Math.min(one, other)), String(Math.max(one, other))];
        const { bucket, back } = windowOfSpan({ since, until }, now);
        if (!('since' in back)) throw new Error('it has both ends');
        const size = sizes[bucket];
        const [first, last] = [Date.parse(back.since), Date.parse(back.until)];
        const buckets = Math.ceil(last / size) - Math.floor(first / size);
        expect(buckets).toBeGreaterThan(0);
        expect(buckets).toBeLessThanOrEqual(most[bucket]);
      }),
    );
  });
});

describe('why deliveries failed', () => {
  it('begins with the most frequent reason and leaves out what did not happen', () => {
    expect(reasonCounts({ ip_denied: 2, signature_mismatch: 40, rate_limited: 0, invalid_json: undefined })).toEqual([
      { reason: 'signature_mismatch', number: 40, percent: 100 },
      { reason: 'ip_denied', number: 2, percent: 5 },
    ]);
    expect(reasonCounts({})).toEqual([]);
  });
});
