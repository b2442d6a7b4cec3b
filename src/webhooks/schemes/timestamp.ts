import type { SignedTimestamp } from '../gate.ts';
import type { TimestampSource } from './spec.ts';

const DIGITS = /^\d{1,16}$/;

// Below it lie seconds up to the year 5138, from it on milliseconds since 1973.
const FIRST_MILLISECONDS = 1e11;

/**
 * Milliseconds since the Unix epoch, or NaN for anything but plain digits. Signs, fractions and spaces are refused too:
 * where the timestamp stands beside other signed text, a character that may belong to either would let a signature be
 * read in two ways.
 */
export function timestampMs(text: string, unit: TimestampSource['unit']): number {
  if (!DIGITS.test(text)) return Number.NaN;
  const value = Number(text);
  if (unit === 'milliseconds' || (unit === 'detect' && value >= FIRST_MILLISECONDS)) return value;
  return value * 1000;
}

export function readTimestamp(text: string, source: TimestampSource): SignedTimestamp {
  const length = source.in === 'body' ? source.field.length : undefined;
  const ms = length === undefined || text.length === length ? timestampMs(text, source.unit) : Number.NaN;
  return { text, ms };
}

/** How a publisher would write the instant. */
export function timestampText(ms: number, unit: TimestampSource['unit']): string {
  return String(unit === 'milliseconds' ? Math.trunc(ms) : Math.trunc(ms / 1000));
}
