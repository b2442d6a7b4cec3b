import type { SignedTimestamp } from '../gate.ts';
import type { TimestampSource } from './spec.ts';

const DIGITS = /^\d{1,16}$/;

// Below it lie seconds up to the year 5138, from it on milliseconds since 1973.
const FIRST_MILLISECONDS = 1e11;

// In UTC alone, so that the text has one beginning and one end whatever stands beside it.
const RFC_3339 = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(\.\d{1,9})?Z$/;

/**
 * Milliseconds since the Unix epoch, or NaN for anything but plain digits, or an RFC 3339 time in UTC. Signs, fractions and spaces are refused too:
 * where the timestamp stands beside other signed text, a character that may belong to either would let a signature be
 * read in two ways.
 */
export function timestampMs(text: string, unit: TimestampSource['unit']): number {
  if (unit === 'rfc3339') return rfc3339Ms(text);
  if (!DIGITS.test(text)) return Number.NaN;
  const value = Number(text);
  if (unit === 'milliseconds' || (unit === 'detect' && value >= FIRST_MILLISECONDS)) return value;
  return value * 1000;
}

export function readTimestamp(text: string, source: TimestampSource): SignedTimestamp {
  const length = source.length ?? (source.in === 'body' ? source.field.length : undefined);
  const ms = length === undefined || text.length === length ? timestampMs(text, source.unit) : Number.NaN;
  return { text, ms };
}

/** Digits beyond the milliseconds are cut; a day that the calendar does not have is none. */
function rfc3339Ms(text: string): number {
  const [, seconds, fraction = ''] = RFC_3339.exec(text) ?? [];
  if (seconds === undefined) return Number.NaN;
  const ms = Date.parse(`${seconds}Z`);
  if (!Number.isFinite(ms) || !new Date(ms).toISOString().startsWith(seconds)) return Number.NaN;
  return ms + Number(fraction.slice(1, 4).padEnd(3, '0'));
}

/** How a publisher would write the instant. */
export function timestampText(ms: number, unit: TimestampSource['unit']): string {
  if (unit === 'rfc3339') return new Date(ms).toISOString();
  return String(unit === 'milliseconds' ? Math.trunc(ms) : Math.trunc(ms / 1000));
}
