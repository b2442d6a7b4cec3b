import type { Service } from './service.ts';

/** Ids that a story writes itself begin so; both services know them by the same name. */
export const OWN_IDS = '0b7e2f44-6c1d-4f0e-9a51-';

/** One of the two services, and what stands for what it made for itself. */
export interface Side {
  service: Service;
  /** The own id, time or text of each label. */
  readonly values: Map<string, string>;
  /** The label of each own id. */
  readonly labels: Map<string, string>;
}

export const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi;
export const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g;

/** What differs between any two services, however alike they are. */
const MASKS: readonly (readonly [what: RegExp, shown: string])[] = [
  [TIME, '~time~'],
  [
    /(durationMs|processingMs|slotWaitMs|p50DurationMs|p95DurationMs|replaySkewMs)(\\?":\s?)\d+(\.\d+)?/g,
    '$1$2"measured"',
  ],
  [/\d+(\.\d+)? s (behind|ahead)/g, 'measured $2'],
  // Permits of a rate limit grow with the time, in these flows by less than one.
  [/(permitsLeft\\?":\s?\d+)\.\d+/g, '$1'],
  // Parts of evidence have ids in them; the parts themselves follow.
  [/\\"bytes\\":\d+,\\"sha256\\":\\"[0-9a-f]{64}/g, 'digest'],
  [/"token":"[^"]*"/g, '"token":"made of ids"'],
  // A flow that starts runs again lets go what it holds while it answers.
  [/("isEnabled":true,[^{}[\]]*"drainingSince":null,"held":)\d+/g, '$1"let go"'],
  [/("draining":false,.*"held":)\d+/g, '$1"let go"'],
  // A learned key, which no manifest refers to, is noted within a minute.
  [/("reference":null,"since"):(null|"~time~")/g, '$1:"noted or not"'],
  // What came to a trigger is looked at once a minute.
  [/"lastDeliveryAt":"~time~",/g, ''],
  // Of the same request, sent several times at once, another may be the one that is refused.
  [/"reqId":"[^"]*"/g, '"reqId":"one of them"'],
  [/"stack":"(\\.|[^"\\])*"/g, '"stack":"of the store"'],
];

/** A text with labels; ids that were not seen before get theirs in the draft. Without a draft they are all alike. */
export function labelled(text: string, side: Side, draft?: Map<string, string>): string {
  const named = text.replaceAll(side.service.url, 'http://service').replace(UUID, (found) => {
    const id = found.toLowerCase();
    if (id.startsWith(OWN_IDS)) return found;
    const known = side.labels.get(id) ?? draft?.get(id);
    if (known === undefined && draft === undefined) return '~id~';
    const label = known ?? `~id${side.labels.size + (draft?.size ?? 0) + 1}~`;
    if (known === undefined) draft?.set(id, label);
    return found === id ? label : label.toUpperCase();
  });
  return withoutTies(MASKS.reduce((masked, [what, shown]) => masked.replace(what, shown), named));
}

/** Lines of the metrics that say how often something happened, and not how long it took. */
const COUNTED = [
  /^webhook_(received|rejected)_total.*$/gm,
  /^webhook_(body_bytes|processing_ms)_count.*$/gm,
  /^sluice_(runs_started|runs_completed|steps_completed|outgoing_requests)_total.*$/gm,
  /^sluice_(deliveries_held|ready|steps_in_flight|run_duration_ms_count).*$/gm,
];

/** Metrics come in the order in which something first happened, and so do events of a run within one millisecond. */
function withoutTies(text: string): string {
  if (text.startsWith('# HELP ')) return lines(COUNTED.flatMap((name) => text.match(name) ?? []));
  if (!text.startsWith('[{"sequence":')) return text;
  return lines((JSON.parse(text) as object[]).map((event) => JSON.stringify({ ...event, sequence: 'any' })));
}

const lines = (unsorted: readonly string[]) => unsorted.toSorted().join('\n');

/** Each side has a database of its own. */
const MADE = /(made a new, empty database:) .+?(?= \(SLUICE_DATABASE_URL\))/;

/** The lines of a service's log, sorted and without what differs from line to line. */
export function logOf(side: Side): string[] {
  const written = side.service.output().split('\n');
  const known = written.map((line) => {
    const { time, pid, hostname, ...logged } = Object(jsonOf(line) ?? { line }) as Record<string, unknown>;
    return labelled(JSON.stringify(logged), side).replace(MADE, '$1 ~database~');
  });
  return known.sort();
}

const LABEL = /~(id|ID|time|text)(\d+)(?::(\d+):(\d+))?(?:\+(\d+))?~/g;

/** A request as one side knows its parts. */
export function filledIn(text: string, { values }: Side): string {
  return text.replace(LABEL, (found, kind: string, number: string, from?: string, to?: string, later?: string) => {
    const value = values.get(`~${kind.toLowerCase()}${number}~`);
    if (value === undefined) return found;
    if (later !== undefined) return new Date(Date.parse(value) + Number(later)).toISOString();
    const own = kind === 'ID' ? value.toUpperCase() : value;
    return from === undefined ? own : own.slice(Number(from), Number(to));
  });
}

export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
