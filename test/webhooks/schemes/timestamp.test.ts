import fc from 'fast-check';
import { expect, it } from 'vitest';
import { timestampMs, timestampText } from '../../../src/webhooks/schemes/timestamp.ts';

it.each([
  ['1700000000', 'seconds', 1_700_000_000_000],
  ['1700000000123', 'milliseconds', 1_700_000_000_123],
  ['1700000000', 'milliseconds', 1_700_000_000],
  ['1700000000', 'detect', 1_700_000_000_000],
  ['1700000000123', 'detect', 1_700_000_000_123],
  ['0', 'seconds', 0],
  ['2026-10-09T08:53:20Z', 'rfc3339', Date.UTC(2026, 9, 9, 8, 53, 20)],
  ['2026-10-09T08:53:20.6Z', 'rfc3339', Date.UTC(2026, 9, 9, 8, 53, 20, 600)],
  ['2026-10-09T08:53:20.634Z', 'rfc3339', Date.UTC(2026, 9, 9, 8, 53, 20, 634)],
  ['2026-10-09T08:53:20.634999999Z', 'rfc3339', Date.UTC(2026, 9, 9, 8, 53, 20, 634)],
] as const)('reads %s in %s', (text, unit, ms) => {
  expect(timestampMs(text, unit)).toBe(ms);
});

it.each([
  '',
  'abc',
  '-1',
  '+1',
  '1.5',
  '1e9',
  '0x10',
  ' 1',
  '1 ',
  '1\n',
  '١٢٣',
  'Infinity',
  'NaN',
  '12345678901234567',
])('takes %j for no number', (text) => {
  expect(timestampMs(text, 'seconds')).toBeNaN();
  expect(timestampMs(text, 'detect')).toBeNaN();
});

it.each([
  '1700000000',
  '2026-10-09',
  '2026-10-09 08:53:20Z',
  '2026-10-09T08:53:20',
  '2026-10-09T08:53:20+00:00',
  '2026-10-09T08:53:20.Z',
  '2026-10-09T08:53:20.1234567890Z',
  '02026-10-09T08:53:20Z',
  '2026-02-30T08:53:20Z',
  '2026-13-01T08:53:20Z',
  '2026-10-09T25:53:20Z',
  '2026-10-09t08:53:20z',
  ' 2026-10-09T08:53:20Z',
  '2026-10-09T08:53:20Z\n',
])('takes %j for no RFC 3339 time in UTC', (text) => {
  expect(timestampMs(text, 'rfc3339')).toBeNaN();
});

it('reads back what it writes, to the second or the millisecond', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1e11, max: 4e12 }), (ms) => {
      expect(timestampMs(timestampText(ms, 'milliseconds'), 'milliseconds')).toBe(ms);
      expect(timestampMs(timestampText(ms, 'rfc3339'), 'rfc3339')).toBe(ms);
      expect(timestampMs(timestampText(ms, 'seconds'), 'seconds')).toBe(ms - (ms % 1000));
      expect(timestampMs(timestampText(ms, 'detect'), 'detect')).toBe(ms - (ms % 1000));
    }),
  );
});
