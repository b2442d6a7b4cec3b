import { setImmediate } from 'node:timers/promises';
import type { Logger } from 'pino';
import { formatPath, type OpenPath } from '../../expressions/json-path.ts';
import { declaredBy, parseBody } from '../../expressions/trigger-body.ts';
import { type Clock, HOUR_MS, MINUTE_MS } from '../../model/clock.ts';
import { firstIdAt } from '../../model/delivery-ids.ts';
import { oncePer } from '../../model/once-per.ts';
import type { Store } from '../../store/store.ts';
import { type Sweeper, watchEach } from '../../sweeper.ts';
import type { PreparedTrigger, TriggerTable } from '../../webhooks/triggers.ts';
import { type FoundDrift, findDrift } from './path-drift.ts';
import type { CountedType, PathDrift, PathType } from './paths.ts';
import { pathsRead, typeAt } from './payload-paths.ts';
import { joined, keyReads, type PayloadRead, stepReads } from './payload-reads.ts';
import { type DeliverySample, driftStore, type PathCount, type PayloadWatch } from './store.ts';

/** The paths of its deliveries that a trigger's flow reads. */
interface TriggerReads {
  readonly reads: readonly PayloadRead[];
  /** Paths that define the event: judged over all deliveries, because a delivery without them has no event. */
  readonly eventPaths: ReadonlySet<string>;
}

export const readsOfTrigger = oncePer(
  ({ trigger, flow, searchKeys }: PreparedTrigger): TriggerReads => ({
    reads: joined([...keyReads(trigger), ...stepReads(flow)]),
    eventPaths: new Set(eventPathsOf(searchKeys?.event)),
  }),
);

function eventPathsOf(event: NonNullable<PreparedTrigger['searchKeys']>['event']): string[] {
  if (event === undefined) return [];
  if ('ast' in event) return pathsRead(event).reads.map(({ path }) => formatPath(path));
  if ('path' in event) return [formatPath(['body', ...event.path])];
  return event.headers.map((name) => formatPath(['headers', name.toLowerCase()]));
}

/** The type at each path of one delivery, without paths that it says nothing about. Undefined if it cannot be read. */
function typesIn(
  { headers, body, contentType }: Pick<DeliverySample, 'headers' | 'body' | 'contentType'>,
  paths: readonly { readonly text: string; readonly path: OpenPath }[],
): ReadonlyMap<string, PathType> | undefined {
  if (body === null) return undefined;
  const parsed = parseBody(body, declaredBy({ contentType, headers }), 'doubles');
  if ('error' in parsed) return undefined;
  const payload = { body: parsed.value, headers };
  const found = paths.flatMap(({ text, path }): [string, PathType][] => {
    const type = typeAt(payload, path);
    return type === undefined ? [] : [[text, type]];
  });
  return new Map(found);
}

interface WatchServices {
  readonly store: Pick<Store, 'of'>;
  readonly triggers: () => Pick<TriggerTable, 'list'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Triggers with fewer deliveries a minute have all of them sampled; others, some of each event. */
const SAMPLES_A_PASS = 50;
/** The default limit of one delivery, which is parsed a second time here. */
const BYTES_A_PASS = 1024 * 1024;
/** Events that are distinguished; if a sender names more, only the first ones are watched. */
const MOST_EVENTS = 32;
/** Twice the week that a trigger with few deliveries needs. */
const KEPT_HOURS = 14 * 24;
/** 170 bytes each: some 40 MB in all. Above the limit, the oldest hours are deleted first. */
const MOST_ROWS = 200_000;
const ROWS_A_CHUNK = 200;
/** The clocks of other processes can be a little ahead of this one. */
const AHEAD_MS = MINUTE_MS;

/**
 * Samples accepted deliveries once a minute, afterwards: acceptance is not involved. If several processes share a
 * store, each pass is counted once.
 */
export function createPayloadWatch(services: WatchServices): Sweeper {
  const { store, triggers, clock, logger } = services;
  return watchEach({
    list: () => triggers().list(),
    begin: async () => {},
    look: (trigger) => lookAt(trigger, services),
    purge: async (hour) => {
      const purge = { beforeHour: hour - KEPT_HOURS, maxRows: MOST_ROWS, limit: ROWS_A_CHUNK };
      return (await store.of(driftStore).purgePathCounts(purge)) === ROWS_A_CHUNK;
    },
    clock,
    failure: 'deliveries could not be sampled; trying again',
    logger,
  });
}

async function lookAt(prepared: PreparedTrigger, { store, clock }: WatchServices): Promise<void> {
  const { flowId, triggerKey } = prepared.trigger;
  const own = { flowId, triggerKey };
  const { reads, eventPaths } = readsOfTrigger(prepared);
  const watch = await store.of(driftStore).readPayloadWatch(own);
  if (reads.length === 0 && watch.drifts.length === 0) return;
  const now = clock.now();
  // If the clock was set back, earlier deliveries count as seen only up to now.
  const after = watch.lastId < firstIdAt(now + AHEAD_MS) ? watch.lastId : firstIdAt(now);
  const query = { ...own, after, upTo: firstIdAt(now + AHEAD_MS), limit: SAMPLES_A_PASS, maxBytes: BYTES_A_PASS };
  const { samples, lastId } = await store.of(driftStore).sampleDeliveries(query);
  const seenTo = lastId === null || lastId < after ? after : lastId;
  if (samples.length === 0 && watch.drifts.length === 0 && seenTo === watch.lastId) return;
  const found: NewCount[] = [];
  for (const sample of samples.toReversed()) {
    // A large body takes milliseconds to parse; other work goes first.
    await setImmediate();
    found.push(...countsOf(sample, { reads, eventPaths }));
  }
  const commit = { ...own, version: watch.version, lastId: seenTo };
  const steady = steadyPaths.get(prepared);
  if (watch.drifts.length === 0 && found.every((each) => steady?.get(placeOf(each)) === each.type)) {
    await store.of(driftStore).commitPayloadWatch({ ...commit, drifts: [], counts: summed(found) });
    return;
  }
  const known = await store.of(driftStore).listPathCounts(own);
  const counts = ofKnownEvents(found, known);
  const rows = [...known, ...counts].filter(({ hour }) => hour <= Math.floor((now + AHEAD_MS) / HOUR_MS));
  const drifts = await driftsIn(rows, { reads, watch, firstOf: firstDifferent(prepared, { store, eventPaths }) });
  steadyPaths.set(prepared, typesOfSteady(rows));
  // Does nothing if another process counted them first.
  await store.of(driftStore).commitPayloadWatch({ ...commit, drifts, counts: summed(counts) });
}

/** Paths that always had one type: while that stays so, nothing drifts, and their counts need not be read. */
const steadyPaths = new WeakMap<PreparedTrigger, ReadonlyMap<string, CountedType | undefined>>();

function typesOfSteady(rows: readonly NewCount[]): ReadonlyMap<string, CountedType | undefined> {
  const types = new Map<string, CountedType | undefined>();
  for (const row of rows) {
    const place = placeOf(row);
    types.set(place, !types.has(place) || types.get(place) === row.type ? row.type : undefined);
  }
  return types;
}

function placeOf({ event, path }: Pick<NewCount, 'event' | 'path'>): string {
  return JSON.stringify([event, path]);
}

/** Without counts of events beyond the limit. */
function ofKnownEvents(counts: readonly NewCount[], known: readonly NewCount[]): NewCount[] {
  const events = new Set(known.flatMap(({ event }) => event ?? []));
  return counts.filter(({ event }) => {
    if (event === null) return true;
    if (events.size < MOST_EVENTS) events.add(event);
    return events.has(event);
  });
}

type NewCount = Omit<PathCount, 'triggerKey'>;

function countsOf(sample: DeliverySample, { reads, eventPaths }: TriggerReads): NewCount[] {
  const hour = Math.floor(sample.receivedAt / HOUR_MS);
  return [...(typesIn(sample, reads) ?? [])].map(([path, found]) => {
    const event = eventPaths.has(path) ? null : sample.event;
    const type = found === 'absent' && hasFailedBy(path, sample) ? 'failed' : found;
    return { event, path, hour, type, count: 1, firstId: sample.id, lastId: sample.id };
  });
}

/** Whether a delivery's run failed because the path, or a parent of it, was missing. */
function hasFailedBy(path: string, { failure }: DeliverySample): boolean {
  const [, missing] = /: there is no (.+?)(?: \(at character \d+\))?$/.exec(failure?.message ?? '') ?? [];
  if (missing === undefined) return false;
  // In the notation of `formatPath`; keys that it quotes stay as they are.
  const written = missing.replace(/\[["']([\w$-]+)["']\]/g, '.$1').replace(/^trigger\./, '');
  const within = (outer: string, inner: string) =>
    inner === outer || inner.startsWith(`${outer}.`) || inner.startsWith(`${outer}[`);
  if (!written.startsWith('loop.item')) return within(written, path);
  const item = path.lastIndexOf('[]');
  return item !== -1 && within(written.slice('loop.item'.length), path.slice(item + 2));
}

/** One count for each row of the store; given in order of arrival. */
function summed(counts: readonly NewCount[]): NewCount[] {
  const rows = new Map<string, NewCount>();
  for (const each of counts) {
    const key = JSON.stringify([each.event, each.path, each.hour, each.type]);
    const row = rows.get(key);
    rows.set(key, row === undefined ? each : { ...row, count: row.count + each.count, lastId: each.lastId });
  }
  return [...rows.values()];
}

interface Judged {
  readonly reads: readonly PayloadRead[];
  readonly watch: PayloadWatch;
  readonly firstOf: (drift: FoundDrift, at: { event: string | null; read: PayloadRead }) => Promise<DriftStart>;
}

type DriftStart = Pick<PathDrift, 'firstId' | 'firstAt'>;

/** Most drifts of one trigger; more have a common cause. */
const MOST_DRIFTS = 100;

async function driftsIn(rows: readonly NewCount[], { reads, watch, firstOf }: Judged): Promise<PathDrift[]> {
  const byPlace = new Map<string, NewCount[]>();
  for (const row of rows) {
    const place = placeOf(row);
    const own = byPlace.get(place);
    if (own === undefined) byPlace.set(place, [row]);
    else own.push(row);
  }
  const readsByText = new Map(reads.map((read) => [read.text, read]));
  const drifts: PathDrift[] = [];
  for (const own of byPlace.values()) {
    const [{ event, path } = { event: null, path: '' }] = own;
    const read = readsByText.get(path);
    const found = read && findDrift(own, read.use);
    if (read === undefined || found === undefined || drifts.length === MOST_DRIFTS) continue;
    const before = watch.drifts.find((each) => each.event === event && each.path === path && each.now === found.now);
    const { lastUsualId: _, ...drift } = found;
    const start = before ?? (await firstOf(found, { event, read }));
    drifts.push({ event, path, ...drift, firstId: start.firstId, firstAt: start.firstAt });
  }
  return drifts;
}

/** Halves the time between two deliveries until few enough are left to check all of them. */
const MOST_HALVES = 20;

/** Finds the first delivery that differs: if a trigger is busy, it can lie between two samples. */
function firstDifferent(
  { trigger }: PreparedTrigger,
  { store, eventPaths }: Pick<WatchServices, 'store'> & Pick<TriggerReads, 'eventPaths'>,
): Judged['firstOf'] {
  const { flowId, triggerKey } = trigger;
  return async ({ firstId, lastUsualId, now }, { event, read }) => {
    const look = async (after: string, upTo: string) => {
      const query = { flowId, triggerKey, after, upTo, limit: SAMPLES_A_PASS, maxBytes: BYTES_A_PASS };
      const { samples } = await store.of(driftStore).sampleDeliveries(query);
      const isOfEvent = (sample: DeliverySample) => eventPaths.has(read.text) || sample.event === event;
      const different = samples.filter((each) => isOfEvent(each) && typesIn(each, [read])?.get(read.text) === now);
      return { first: different.at(-1), isAll: samples.length < SAMPLES_A_PASS };
    };
    let start: DriftStart = { firstId, firstAt: timeOf(firstId) };
    let from = lastUsualId;
    for (let halves = 0; halves < MOST_HALVES; halves += 1) {
      const { first, isAll } = await look(from, start.firstId);
      if (first !== undefined) start = { firstId: first.id, firstAt: first.receivedAt };
      if (isAll) return start;
      const middle = firstIdAt((timeOf(from) + timeOf(start.firstId)) / 2);
      if (middle <= from) return start;
      const earlier = await look(from, middle);
      if (earlier.first === undefined) from = middle;
      else start = { firstId: earlier.first.id, firstAt: earlier.first.receivedAt };
    }
    return start;
  };
}

/** The time when an id was made, in milliseconds. */
export function timeOf(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}
