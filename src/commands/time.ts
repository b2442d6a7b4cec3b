import { type Command, InvalidArgumentError } from 'commander';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../model/clock.ts';
import { millisecondsOf } from '../model/written-time.ts';

/** The options of `withSpan`, in milliseconds since the Unix epoch. */
export interface SpanOptions {
  readonly since?: number;
  readonly until?: number;
}

/** Adds the options for the time span of a command. */
export function withSpan(command: Command): Command {
  return command
    .option('--since <time>', 'at or after this time: 02:00, 30m, 2h, 3d, ISO 8601, or a date (midnight in UTC)', time)
    .option('--until <time>', 'before this time', time)
    .hook('preAction', (_, acting) => {
      const { since, until } = acting.opts<SpanOptions>();
      // The service would name fields of its own.
      if (since !== undefined && until !== undefined && since > until)
        acting.error('error: --since must not be after --until');
    });
}

/** Parses an option that is a time. */
export function time(text: string): number {
  const read = readTime(text, Date.now());
  if (read !== undefined) return read;
  throw new InvalidArgumentError(
    'expected 02:00 (the last time that it was), 30m, 2h or 3d (ago), 2026-03-01, 2026-03-01T12:00:00Z, or milliseconds since 1970',
  );
}

/** A time in the form for request bodies. */
export function isoTimeOf(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString();
}

const UNIT_MS: Readonly<Record<string, number>> = { m: MINUTE_MS, h: HOUR_MS, d: DAY_MS };

/**
 * The time that a person means, in milliseconds since the Unix epoch; a time of day is its last occurrence that is not
 * after `now`, in the time zone of the process. Undefined for other text.
 */
export function readTime(text: string, now: number): number | undefined {
  if (/^\d{8,15}$/.test(text)) return millisecondsOf(text);
  const [, count, unit] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  if (count !== undefined && unit !== undefined) return now - Number(count) * (UNIT_MS[unit] ?? 0);
  const [, hours, minutes, seconds = '0'] = /^([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?$/.exec(text) ?? [];
  if (hours !== undefined) return lastTimeOf([Number(hours), Number(minutes), Number(seconds)], now);
  return readDate(text);
}

/** Not simply 24 hours earlier: clocks are put forward and back. */
function lastTimeOf([hours, minutes, seconds]: readonly [number, number, number], now: number): number {
  const at = new Date(now);
  at.setHours(hours, minutes, seconds, 0);
  if (at.getTime() <= now) return at.getTime();
  const yesterday = new Date(now);
  yesterday.setDate(yesterday.getDate() - 1);
  return yesterday.setHours(hours, minutes, seconds, 0);
}

/** As in the API: a date alone is its midnight in UTC, and a time has an offset. */
function readDate(text: string): number | undefined {
  const [, day] = /^(\d{4}-\d\d-\d\d)(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d))?$/i.exec(text) ?? [];
  // The 31st of February would be read as the 3rd of March.
  if (day === undefined || new Date(`${day}T00:00Z`).toJSON()?.startsWith(day) !== true) return undefined;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : at;
}
