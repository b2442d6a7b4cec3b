const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

const exact = new Intl.DateTimeFormat(undefined, {
  ...{ year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit' },
  fractionalSecondDigits: 3,
  hour12: false,
  timeZoneName: 'short',
});
const clock = new Intl.DateTimeFormat(undefined, {
  ...{ hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false },
});
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });
const numbers = new Intl.NumberFormat('en');

/** "12 s ago", "in 3 min", "2 d ago". */
export function relativeTime(ms: number, now: number): string {
  const distance = Math.abs(now - ms);
  if (distance < SECOND_MS) return 'just now';
  const text = coarse(distance);
  return ms <= now ? `${text} ago` : `in ${text}`;
}

export function exactTime(ms: number): string {
  return exact.format(ms);
}

/** "14:55:23", with the day before it where that is not the one of `now`. */
export function clockTime(ms: number, now: number): string {
  const isToday = new Date(ms).toDateString() === new Date(now).toDateString();
  return isToday ? clock.format(ms) : `${day.format(ms)} ${clock.format(ms)}`;
}

/** "4 ms", "1.2 s", "3 min 5 s", "2 h 10 min". */
export function duration(ms: number): string {
  if (ms < 10 && !Number.isInteger(ms)) return `${ms.toFixed(1)} ms`;
  if (ms < SECOND_MS) return `${Math.round(ms)} ms`;
  if (ms < 10 * SECOND_MS) return `${(ms / SECOND_MS).toFixed(1)} s`;
  if (ms < MINUTE_MS) return `${Math.round(ms / SECOND_MS)} s`;
  if (ms < HOUR_MS) return pair(ms, [MINUTE_MS, 'min'], [SECOND_MS, 's']);
  if (ms < DAY_MS) return pair(ms, [HOUR_MS, 'h'], [MINUTE_MS, 'min']);
  return pair(ms, [DAY_MS, 'd'], [HOUR_MS, 'h']);
}

export function bytes(count: number): string {
  if (count < 1024) return `${count} B`;
  if (count < 1_048_576) return `${(count / 1024).toFixed(1)} KiB`;
  return `${(count / 1_048_576).toFixed(1)} MiB`;
}

export function count(value: number): string {
  return numbers.format(value);
}

/** "1 delivery", "3 deliveries". */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** The beginning of an id that is made from time says nothing; its end tells two apart. */
export function shortId(id: string): string {
  return id.slice(-8);
}

/** `signature_mismatch` as "signature mismatch". */
export function words(name: string): string {
  return name.replaceAll('_', ' ');
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

const formats = new Map<string, Intl.DateTimeFormat>();

/** A time as clocks of a zone show it: "Sun 22 Nov 2026, 02:00:00". A zone that the browser lacks is read as UTC. */
export function zonedTime(ms: number, timeZone: string): string {
  const known = formats.get(timeZone) ?? makeFormat(timeZone);
  formats.set(timeZone, known);
  return known.format(ms);
}

function makeFormat(timeZone: string): Intl.DateTimeFormat {
  const options: Intl.DateTimeFormatOptions = {
    ...{ weekday: 'short', day: 'numeric', month: 'short', year: 'numeric' },
    ...{ hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' },
  };
  try {
    return new Intl.DateTimeFormat('en-GB', { ...options, timeZone });
  } catch {
    return new Intl.DateTimeFormat('en-GB', { ...options, timeZone: 'UTC' });
  }
}
