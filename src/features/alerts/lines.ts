import type { Change } from './alert-plan.ts';
import type { AlertFacts } from './message.ts';

export function factsOf({ status, kind, severity, flow, trigger, since, key }: Change): AlertFacts {
  return { status, kind, severity, flow, trigger, since: new Date(since).toISOString(), dedupKey: key };
}

/** All of it in one line, for people. */
export function lineOf({ status, severity, text, ...change }: Change): string {
  return `${status} ${severity}: ${text} (${placeOf(change)})`;
}

function placeOf({ flow, trigger, since, key }: Omit<Change, 'status' | 'severity' | 'text'>): string {
  const flowName = flow === null ? [] : [trigger === null ? flow.name : `${flow.name}/${trigger}`];
  return [...flowName, `since ${new Date(since).toISOString().slice(0, 16)}Z`, key].join(', ');
}
