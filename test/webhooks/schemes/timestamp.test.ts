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

it('reads back what it writes, to the second or the millisecond', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1e11, max: 4e12 }), (ms) => {
      expect(timestampMs(timestampText(ms, 'milliseconds'), 'milliseconds')).toBe(ms);
      expect(timestampMs(timestampText(ms, 'seconds'), 'seconds')).toBe(ms - (ms % 1000));
      expect(timestampMs(timestampText(ms, 'detect'), 'detect')).toBe(ms - (ms % 1000));
    }),
  );
});
