import type { Change } from './alert-plan.ts';
import type { AlertFacts } from './message.ts';

export function factsOf({ status, kind, severity, flow, trigger, since, key }: Change): AlertFacts {
  return { status, kind, severity, flow, trigger, since: new Date(since).toISOString(), dedupKey: key };
}

/** All of it in one line, for people: times are of the zone of the service. Ids and codes are in the link. */
export function lineOf({ status, severity, text, flow, trigger, since }: Change, now: number): string {
  const flowName = flow === null ? [] : [trigger === null ? flow.name : `${flow.name}/${trigger}`];
  const place = [...flowName, `since ${new Date(since).toISOString()}`].join(', ');
  return inLocalTime(`${status} ${severity}: ${text} (${place})`, now);
}

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', timeZoneName: 'short' });
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });

/** The day is told where it is not today. */
function inLocalTime(text: string, now: number): string {
  return text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d(?::[\d.]+)?Z/g, (time) => {
    const at = Date.parse(time);
    return day.format(at) === day.format(now) ? clock.format(at) : `${day.format(at)}, ${clock.format(at)}`;
  });
}
