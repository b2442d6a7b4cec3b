const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** Shown in place of a missing value. */
const NOTHING = '–';
/** The largest valid time: ECMA-262, "Time Values and Time Range". */
const LAST_TIME_MS = 8.64e15;

// hourCycle and not hour12: without it, some languages count the first hour of a day as 24.
const TIME_OF_DAY = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' } as const;
const exact = new Intl.DateTimeFormat(undefined, {
  ...TIME_OF_DAY,
  year: 'numeric',
  month: 'short',
  day: 'numeric',
  fractionalSecondDigits: 3,
  timeZoneName: 'short',
});
const zoneName = new Intl.DateTimeFormat(undefined, { timeZoneName: 'short' });
const clock = new Intl.DateTimeFormat(undefined, TIME_OF_DAY);
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });
const dayAndYear = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', year: 'numeric' });
const numbers = new Intl.NumberFormat('en');

/** Formats for times, sizes, numbers and ids. */
export const format = {
  relativeTime,
  exactTime,
  clockTime,
  zonedTime,
  duration: (ms: number) => unbroken(duration(ms)),
  bytes: (count: number) => unbroken(bytes(count)),
  count,
  counted,
  percent: (share: number) => unbroken(percent(share)),
  shortId,
  inputTime,
  zone,
};

/** Keeps a number and its unit on one line. */
const unbroken = (text: string) => text.replaceAll(' ', '\u00a0');

/** "12 s ago", "in 3 min", "2 d ago". */
function relativeTime(ms: number, now: number): string {
  const distance = Math.abs(now - ms);
  if (!Number.isFinite(distance)) return NOTHING;
  if (distance < SECOND_MS) return 'just now';
  const text = coarse(distance);
  return ms <= now ? `${text} ago` : `in ${text}`;
}

function exactTime(ms: number): string {
  return isTime(ms) ? exact.format(ms) : NOTHING;
}

/** "14:55:23", with the date if it differs from that of `now`, and with the year if that differs. */
function clockTime(ms: number, now: number): string {
  if (!isTime(ms)) return NOTHING;
  const [then, today] = [new Date(ms), new Date(now)];
  if (then.toDateString() === today.toDateString()) return clock.format(ms);
  const date = then.getFullYear() === today.getFullYear() ? day : dayAndYear;
  return `${date.format(ms)} ${clock.format(ms)}`;
}

/** The name of the reader's time zone, such as "CET" or "GMT+1". */
function zone(ms: number): string {
  return zoneName.formatToParts(ms).find(({ type }) => type === 'timeZoneName')?.value ?? '';
}

const zonedFormats = new Map<string, Intl.DateTimeFormat>();

/** A time in a zone: "Sun, 22 Nov 2026, 02:00:00". A zone that the browser lacks is shown as UTC. */
function zonedTime(ms: number, timeZone: string): string {
  if (!isTime(ms)) return NOTHING;
  const zoned = zonedFormats.get(timeZone) ?? makeFormat(timeZone);
  zonedFormats.set(timeZone, zoned);
  return zoned.format(ms);
}

function makeFormat(timeZone: string): Intl.DateTimeFormat {
  const options: Intl.DateTimeFormatOptions = {
    ...TIME_OF_DAY,
    weekday: 'short',
    day: 'numeric',
    month: 'short',
    year: 'numeric',
  };
  try {
    return new Intl.DateTimeFormat('en-GB', { ...options, timeZone });
  } catch {
    return new Intl.DateTimeFormat('en-GB', { ...options, timeZone: 'UTC' });
  }
}

const isTime = (ms: number) => Math.abs(ms) <= LAST_TIME_MS;

/** "4 ms", "1.2 s", "3 min 5 s", "2 h 10 min". Rounds down, so that no step of time is shown before it has passed. */
function duration(ms: number): string {
  if (!Number.isFinite(ms)) return NOTHING;
  // The clocks of two machines differ: an end before the beginning means no time.
  if (ms <= 0) return '0 ms';
  if (ms < 10 && !Number.isInteger(ms)) return `${(Math.floor(ms * 10) / 10).toFixed(1)} ms`;
  if (ms < SECOND_MS) return `${Math.floor(ms)} ms`;
  if (ms < 10 * SECOND_MS) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  if (ms < MINUTE_MS) return `${Math.floor(ms / SECOND_MS)} s`;
  if (ms < HOUR_MS) return pair(ms, [MINUTE_MS, 'min'], [SECOND_MS, 's']);
  if (ms < DAY_MS) return pair(ms, [HOUR_MS, 'h'], [MINUTE_MS, 'min']);
  return pair(ms, [DAY_MS, 'd'], [HOUR_MS, 'h']);
}

/** "120 B", "1.5 KiB". Rounds down, so that a value never reaches 1024 of its unit. */
function bytes(count: number): string {
  if (!Number.isFinite(count)) return NOTHING;
  if (count < 1024) return `${count} B`;
  const [size, unit] = [...BINARY_UNITS].reverse().find(([least]) => count >= least) ?? BINARY_UNITS[0];
  return `${(Math.floor((count / size) * 10) / 10).toFixed(1)} ${unit}`;
}

const BINARY_UNITS = [
  [1024, 'KiB'],
  [1024 ** 2, 'MiB'],
  [1024 ** 3, 'GiB'],
] as const;

function count(value: number): string {
  return numbers.format(value);
}

/** "1 delivery", "3 deliveries". */
function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** A share as "97 %". Only all is 100 %, and only nothing is 0 %. */
function percent(share: number): string {
  if (share <= 0) return '0 %';
  if (share >= 1) return '100 %';
  return `${Math.min(99, Math.max(1, Math.round(share * 100)))} %`;
}

/** A time in the form for input fields, by the reader's clock: "2026-11-22T02:05". Empty if there is none. */
function inputTime(ms: number): string {
  if (!isTime(ms)) return '';
  const time = new Date(ms);
  const parts = [time.getMonth() + 1, time.getDate(), time.getHours(), time.getMinutes()];
  const [month, day, hours, minutes] = parts.map((part) => String(part).padStart(2, '0'));
  return `${String(time.getFullYear()).padStart(4, '0')}-${month}-${day}T${hours}:${minutes}`;
}

/** Ids begin with a time, which people cannot use; their ends differ. */
function shortId(id: string): string {
  return id.slice(-8);
}

function coarse(ms: number): string {
  if (ms < MINUTE_MS) return `${Math.floor(ms / SECOND_MS)} s`;
  if (ms < HOUR_MS) return `${Math.floor(ms / MINUTE_MS)} min`;
  if (ms < DAY_MS) return `${Math.floor(ms / HOUR_MS)} h`;
  return `${Math.floor(ms / DAY_MS)} d`;
}

type Unit = readonly [size: number, name: string];

function pair(ms: number, [large, largeName]: Unit, [small, smallName]: Unit): string {
  const whole = Math.floor(ms / large);
  const rest = Math.floor((ms % large) / small);
  return rest === 0 ? `${whole} ${largeName}` : `${whole} ${largeName} ${rest} ${smallName}`;
}

/** A message split around the times in it, which the API gives in UTC. */
export function timesIn(message: string): { readonly text: string; readonly ms?: number }[] {
  return message.split(/(\d{4}-\d\d-\d\dT[\d:.]+Z)/).flatMap((text, index) => {
    if (text === '') return [];
    const ms = index % 2 === 1 ? Date.parse(text) : Number.NaN;
    return [Number.isNaN(ms) ? { text } : { text, ms }];
  });
}
