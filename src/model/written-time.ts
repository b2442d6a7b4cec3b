/**
 * The milliseconds since the Unix epoch that digits say. Undefined if they can only mean something else: a date without
 * separators, such as 20261130 or 20261130120000, or seconds. As milliseconds, that would be a time without deliveries.
 */
export function millisecondsOf(digits: string): number | undefined {
  return isDate(digits) || /^[1-9]\d{9}$/.test(digits) ? undefined : Number(digits);
}

const DATE = /^((?:19|20|21)\d\d)(\d\d)(\d\d)(?:([01]\d|2[0-3])([0-5]\d)([0-5]\d)?)?$/;

function isDate(digits: string): boolean {
  const [whole, year, month, day] = DATE.exec(digits) ?? [];
  return whole !== undefined && isCalendarDay(`${year}-${month}-${day}`);
}

/** Whether a text such as `2026-02-28` is a day that exists: `Date` reads the 30th of February as the 2nd of March. */
export function isCalendarDay(day: string): boolean {
  return new Date(`${day}T00:00:00Z`).toJSON()?.startsWith(day) === true;
}
