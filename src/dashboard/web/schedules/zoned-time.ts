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
