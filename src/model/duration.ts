import { DAY_MS, HOUR_MS, MINUTE_MS } from './clock.ts';

const DURATION = /^P(?=[\dT])(?:(\d+)W|(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?)$/;

/** Milliseconds of an ISO 8601 duration in weeks, days, hours, minutes and seconds; undefined for other text. */
export function durationMs(text: string): number | undefined {
  const match = DURATION.exec(text.toUpperCase());
  if (match === null) return undefined;
  const [weeks = 0, days = 0, hours = 0, minutes = 0, seconds = 0] = match.slice(1).map((part) => Number(part ?? 0));
  return (weeks * 7 + days) * DAY_MS + hours * HOUR_MS + minutes * MINUTE_MS + seconds * 1000;
}
