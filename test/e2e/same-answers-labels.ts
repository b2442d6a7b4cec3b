import type { Service } from './service.ts';

/** Prefix of ids that a story chooses itself; both services know them by the same name. */
export const OWN_IDS = '0b7e2f44-6c1d-4f0e-9a51-';

/** One of the two services, with labels for the ids, times and texts that it made. */
export interface Side {
  service: Service;
  /** This service's id, time or text, by label. */
  readonly values: Map<string, string>;
  /** The label, by this service's id. */
  readonly labels: Map<string, string>;
}

export const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi;
export const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g;

/** Values that differ between any two services. */
const MASKS: readonly (readonly [what: RegExp, shown: string])[] = [
  [TIME, '~time~'],
  [
    /(durationMs|processingMs|slotWaitMs|p50DurationMs|p95DurationMs|replaySkewMs)(\\?":\s?)\d+(\.\d+)?/g,
    '$1$2"measured"',
  ],
  [/\d+(\.\d+)? s (behind|ahead)/g, 'measured $2'],
  // Permits of a rate limit grow with time, in these flows by less than one.
  [/(permitsLeft\\?":\s?\d+)\.\d+/g, '$1'],
  // Parts of evidence contain ids; the parts themselves are compared below.
  [/\\"bytes\\":\d+,\\"sha256\\":\\"[0-9a-f]{64}/g, 'digest'],
  [/"token":"[^"]*"/g, '"token":"made of ids"'],
  // A flow that starts runs again releases held deliveries while it answers.
  [/("isEnabled":true,[^{}[\]]*"drainingSince":null,"held":)\d+/g, '$1"let go"'],
  [/("draining":false,.*"held":)\d+/g, '$1"let go"'],
  // A learned key, which no manifest refers to, is noted within a minute.
  [/("reference":null,"since"):(null|"~time~")/g, '$1:"noted or not"'],
  // A trigger's last delivery is read once a minute.
  [/"lastDeliveryAt":"~time~",/g, ''],
  // If the same request is sent several times at once, the services may refuse different copies.
  [/"reqId":"[^"]*"/g, '"reqId":"one of them"'],
  [/"stack":"(\\.|[^"\\])*"/g, '"stack":"of the store"'],
];

/** Replaces ids by labels. New ids get labels in `draft`; without a draft, all new ids get the same label. */
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

/** Metrics that count events, not durations. */
const COUNTED = [
  /^webhook_(received|rejected)_total.*$/gm,
  /^webhook_(body_bytes|processing_ms)_count.*$/gm,
  /^sluice_(runs_started|runs_completed|steps_completed|outgoing_requests)_total.*$/gm,
  /^sluice_(deliveries_held|ready|steps_in_flight|run_duration_ms_count).*$/gm,
];

/** Metrics come in order of first occurrence, and events of a run within one millisecond have no order. */
function withoutTies(text: string): string {
  if (text.startsWith('# HELP ')) return lines(COUNTED.flatMap((name) => text.match(name) ?? []));
  if (!text.startsWith('[{"sequence":')) return text;
  return lines((JSON.parse(text) as object[]).map((event) => JSON.stringify({ ...event, sequence: 'any' })));
}

const lines = (unsorted: readonly string[]) => unsorted.toSorted().join('\n');

/** Each side has its own database. */
const MADE = /(made a new, empty database:) .+?(?= \(SLUICE_DATABASE_URL\))/;

/** The log lines of a service, sorted and without varying parts. */
export function logOf(side: Side): string[] {
  const written = side.service.output().split('\n');
  const known = written.map((line) => {
    const { time, pid, hostname, ...logged } = Object(jsonOf(line) ?? { line }) as Record<string, unknown>;
    return labelled(JSON.stringify(logged), side).replace(MADE, '$1 ~database~');
  });
  return known.sort();
}

const LABEL = /~(id|ID|time|text)(\d+)(?::(\d+):(\d+))?(?:\+(\d+))?~/g;

/** A request with this side's own values in place of labels. */
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
