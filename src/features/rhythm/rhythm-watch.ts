import { setImmediate } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Catalog } from '../../flows/catalog.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS, type ServiceClock } from '../../model/clock.ts';
import { firstIdAt } from '../../model/delivery-ids.ts';
import { durationMs } from '../../model/duration.ts';
import type { Json } from '../../model/json.ts';
import { triggerMapKey } from '../../model/trigger-name.ts';
import type { Store } from '../../store/store.ts';
import { type Sweeper, watchEach } from '../../sweeper.ts';
import { isOpen, type PreparedTrigger, type TriggerTable } from '../../webhooks/triggers.ts';
import {
  findRefusalsBegan,
  isCountedRefusal,
  LEAST_REFUSALS,
  REFUSALS_LOOK_BACK_HOURS,
  type RefusalsBegan,
} from './refusals.ts';
import {
  findVolumeBreak,
  isSilent,
  KEPT_DAYS,
  learnRhythm,
  type Rhythm,
  type Span,
  type VolumeBreak,
} from './rhythm.ts';
import { type ArrivalHour, type Arrivals, rhythmStore } from './store.ts';

/** A finding about one trigger. */
export type RhythmFinding =
  | {
      readonly kind: 'trigger_silent';
      /** When the last delivery came; null if none ever did. */
      readonly lastAt: number | null;
      /** Start of the silence; counts only time in which the trigger was open and the service ran. */
      readonly from: number;
      /** The interval given by the manifest; null if the rhythm was learned. */
      readonly everyMs: number | null;
      /** Null if it concerns all deliveries. */
      readonly event: string | null;
    }
  | ({ readonly kind: 'refusals_began' } & RefusalsBegan)
  | ({ readonly kind: 'volume_broken' } & VolumeBreak);

interface WatchServices {
  readonly store: Pick<Store, 'of' | 'countDeliveries'>;
  readonly triggers: () => Pick<TriggerTable, 'list'>;
  readonly catalog: Pick<Catalog, 'find'>;
  readonly clock: ServiceClock;
  readonly logger: Logger;
}

/** State of one trigger, kept between looks. */
interface TriggerState {
  /** Time of the first look. */
  readonly since: number;
  /** When it took no deliveries on purpose; `to` is null while this lasts. */
  readonly closed: readonly { readonly from: number; readonly to: number | null }[];
  /** Last arrival of each kind of event. */
  readonly events: Readonly<Record<string, number>>;
  /** Since when all events have been counted. */
  readonly eventsSince: number;
}

/** Number of event kinds watched; if a sender names more, only the first ones are. */
const MOST_EVENTS = 32;
const MOST_CLOSED = 50;
/** 90 bytes each, about 45 MB in total. Beyond this, the oldest hours are deleted first. */
const MOST_ROWS = 500_000;
const ROWS_A_CHUNK = 200;
/** A longer restart may have cost deliveries. The ledger is stored once a minute. */
const DOWN_MS = 3 * MINUTE_MS;
/** Timestamps of another process may be slightly ahead of this clock. */
const AHEAD_MS = MINUTE_MS;
/** Shorter silences are never judged. */
const LEARNED_AFTER_MS = 10 * MINUTE_MS;

/** What this process has learned; after a restart, learned again from stored hours. */
interface Learned {
  readonly rhythms: Map<string, { readonly until: number; readonly rhythm: Rhythm | undefined }>;
  volume?: { readonly hour: number; readonly found: VolumeBreak | undefined };
}

/**
 * Looks at the arrivals of each trigger once a minute, afterwards: acceptance knows nothing of it. If several processes
 * share a store, only one of them counts.
 */
export function createRhythmWatch(services: WatchServices): Sweeper {
  const { store, triggers, clock, logger } = services;
  let learned = new Map<string, Learned>();
  return watchEach({
    list() {
      const all = triggers().list();
      learned = new Map(all.map((each) => [nameOf(each), learned.get(nameOf(each)) ?? { rhythms: new Map() }]));
      return all;
    },
    begin: async () => ({ downtimes: await noteDowntimes(services), refused: await refusedTriggers(services) }),
    async look(trigger, { downtimes, refused }) {
      const own = learned.get(nameOf(trigger));
      if (own === undefined) return;
      await lookAt(trigger, { downtimes, learned: own, hasRefusals: refused.has(nameOf(trigger)) }, services);
    },
    purge: async (hour) => {
      const purge = { beforeHour: hour - KEPT_DAYS * 24, maxRows: MOST_ROWS, limit: ROWS_A_CHUNK };
      return (await store.of(rhythmStore).purgeArrivalHours(purge)) === ROWS_A_CHUNK;
    },
    clock,
    failure: 'the rhythm of deliveries could not be looked at; trying again',
    logger,
  });
}

const nameOf = ({ trigger }: PreparedTrigger) => triggerMapKey(trigger);

/** The ledger stops while no process has the store, so the clock gets ahead of it by the length of the downtime. */
async function noteDowntimes({ store, clock }: WatchServices): Promise<Span[]> {
  const now = clock.now();
  const offsetMs = now - clock.ledger();
  const known = await store.of(rhythmStore).listDowntimes();
  const aheadMs = offsetMs - (known.at(-1)?.offsetMs ?? offsetMs);
  const note = (startedAt: number) =>
    store.of(rhythmStore).noteDowntime({ startedAt, endedAt: now, offsetMs, keptSince: now - KEPT_DAYS * DAY_MS });
  const spans = known.map(({ startedAt, endedAt }) => ({ from: startedAt, to: endedAt }));
  // A clock that was set back says nothing about downtimes, so start again from its new offset.
  if (known.length === 0 || aheadMs < -DOWN_MS) await note(now);
  if (aheadMs <= DOWN_MS) return spans;
  await note(now - aheadMs);
  return [...spans, { from: now - aheadMs, to: now }];
}

/** Triggers with enough recent refusals to be examined. */
async function refusedTriggers({ store, clock }: WatchServices): Promise<ReadonlySet<string>> {
  const since = clock.now() - DAY_MS;
  const counts = new Map<string, number>();
  for (const { flowId, triggerKey, reason, rejected, count } of await store.countDeliveries({
    since,
    recentSince: since,
  })) {
    if (!rejected || !isCountedRefusal(reason)) continue;
    const name = triggerMapKey({ flowId, triggerKey });
    counts.set(name, (counts.get(name) ?? 0) + count);
  }
  return new Set([...counts].flatMap(([name, count]) => (count >= LEAST_REFUSALS ? [name] : [])));
}

interface Look {
  readonly downtimes: readonly Span[];
  readonly learned: Learned;
  readonly hasRefusals: boolean;
}

async function lookAt(prepared: PreparedTrigger, look: Look, services: WatchServices): Promise<void> {
  const { store, clock } = services;
  const { flowId, triggerKey } = prepared.trigger;
  const own = { flowId, triggerKey };
  await setImmediate();
  const stored = await store.of(rhythmStore).readRhythm(own);
  const now = clock.now();
  const isFirst = stored.version === 0;
  const { state: before, lastAt: lastBefore } = readState(stored.state, now);
  // If the clock was set back, count as if only deliveries up to now had been seen.
  const after = stored.lastId < firstIdAt(now + AHEAD_MS) ? stored.lastId : firstIdAt(now);
  const byEvent = prepared.searchKeys?.event !== undefined && !isFirst;
  const arrivals = await store
    .of(rhythmStore)
    .countArrivals({ ...own, after, upTo: firstIdAt(now + AHEAD_MS), byEvent });
  const all = arrivals.hours.filter(({ event }) => event === null);
  const lastAt = [...all.map((each) => each.lastAt), ...(lastBefore === null ? [] : [lastBefore])].reduce<
    number | null
  >((latest, at) => (latest === null || at > latest ? at : latest), null);
  const flow = services.catalog.find(flowId);
  const isWatched = flow !== undefined && isOpen(prepared, flow.record) && prepared.mode !== 'Off';
  const state = nextState(before, { now, isOpen: isWatched, arrivals });
  const unwatched = unwatchedOf(state, look.downtimes);
  // Arrivals before the first look are not counted by hour.
  const hours = isFirst ? [] : withGaps(arrivals.hours, { before, state, lastBefore, unwatched });
  const judge = { prepared, now, state, lastAt, unwatched, newHours: hours };
  const found = isWatched ? await findingsOf(judge, look, services) : [];
  const seenTo = arrivals.lastId === null || arrivals.lastId < after ? after : arrivals.lastId;
  const written = { ...state, lastAt, found } as unknown as Json;
  const isSame =
    hours.length === 0 && seenTo === stored.lastId && JSON.stringify(written) === JSON.stringify(stored.state);
  if (isSame && !isFirst) return;
  // If another process was first, it has counted them, and this does nothing.
  await store.of(rhythmStore).commitRhythm({
    ...own,
    version: stored.version,
    lastId: seenTo,
    state: written,
    lastAt,
    found: found as unknown as Json[],
    hours,
  });
}

function readState(stored: Json, now: number): { readonly state: TriggerState; readonly lastAt: number | null } {
  if (stored === null) return { state: { since: now, closed: [], events: {}, eventsSince: now }, lastAt: null };
  const { since, closed, events, eventsSince, lastAt } = stored as unknown as TriggerState & { lastAt: number | null };
  return { state: { since, closed, events, eventsSince }, lastAt };
}

interface Seen {
  readonly now: number;
  readonly isOpen: boolean;
  readonly arrivals: Arrivals;
}

function nextState(
  { since, closed, events, eventsSince }: TriggerState,
  { now, isOpen, arrivals }: Seen,
): TriggerState {
  const wasClosed = closed.at(-1)?.to === null;
  const spans =
    isOpen && wasClosed
      ? closed.map((span) => (span.to === null ? { ...span, to: now } : span))
      : !isOpen && !wasClosed
        ? [...closed, { from: now, to: null }]
        : closed;
  const oldest = now - KEPT_DAYS * DAY_MS;
  const known = new Map(Object.entries(events).filter(([, at]) => at >= oldest));
  for (const { event, lastAt } of arrivals.hours) {
    if (event === null || (!known.has(event) && known.size >= MOST_EVENTS)) continue;
    known.set(event, Math.max(lastAt, known.get(event) ?? 0));
  }
  return {
    since,
    closed: spans.filter(({ to }) => to === null || to >= oldest).slice(-MOST_CLOSED),
    events: Object.fromEntries(known),
    eventsSince: arrivals.isWhole ? eventsSince : now,
  };
}

function unwatchedOf({ closed }: TriggerState, downtimes: readonly Span[]): Span[] {
  const own = closed.map(({ from, to }) => ({ from, to: to ?? Number.POSITIVE_INFINITY }));
  return [...downtimes, ...own].sort((one, other) => one.from - other.from);
}

/** An own property, because senders can give an event any name. */
function lastOf({ events }: TriggerState, event: string): number | null {
  return Object.hasOwn(events, event) ? (events[event] ?? null) : null;
}

/** Hours of known events; gaps include the time since deliveries counted earlier in the same hour. */
function withGaps(
  hours: readonly ArrivalHour[],
  {
    before,
    state,
    lastBefore,
    unwatched,
  }: { before: TriggerState; state: TriggerState; lastBefore: number | null; unwatched: readonly Span[] },
): ArrivalHour[] {
  return hours.flatMap((hour) => {
    if (hour.event !== null && lastOf(state, hour.event) === null) return [];
    const last = hour.event === null ? lastBefore : lastOf(before, hour.event);
    if (last === null || Math.floor(last / HOUR_MS) !== hour.hour) return [hour];
    const wasUnwatched = unwatched.some(({ from, to }) => from < hour.firstAt && to > last);
    const gapMs = wasUnwatched ? 0 : hour.firstAt - last;
    return [{ ...hour, longestGapMs: Math.max(hour.longestGapMs, gapMs) }];
  });
}

interface Judged {
  readonly prepared: PreparedTrigger;
  readonly now: number;
  readonly state: TriggerState;
  readonly lastAt: number | null;
  readonly unwatched: readonly Span[];
  /** Hours that are not stored yet. */
  readonly newHours: readonly ArrivalHour[];
}

/** Hours of a trigger by event ('' for all), read only when a silence or an hour must be judged. */
type Histories = () => Promise<ReadonlyMap<string, readonly ArrivalHour[]>>;

async function findingsOf(judged: Judged, look: Look, services: WatchServices): Promise<RhythmFinding[]> {
  const { prepared, now } = judged;
  let read: ReturnType<Histories> | undefined;
  const histories: Histories = () => {
    read ??= historiesOf(judged, services);
    return read;
  };
  const refusals = await refusalsOf(judged, look, services);
  const every = expectedEvery(prepared);
  if (every === 'off') return refusals;
  const silence = await silenceOf(judged, { every, histories, learned: look.learned });
  if (silence !== undefined) return [silence, ...refusals];
  const events = await silentEvents(judged, { histories, learned: look.learned });
  const hour = Math.floor(now / HOUR_MS);
  if (look.learned.volume?.hour !== hour) look.learned.volume = { hour, found: await volumeOf(judged, histories) };
  const { found } = look.learned.volume;
  return [...events, ...(found === undefined ? [] : [{ kind: 'volume_broken' as const, ...found }]), ...refusals];
}

/** What the manifest says about silences: an interval, `off`, or nothing, so that it is learned. */
function expectedEvery({ trigger }: PreparedTrigger): number | 'off' | undefined {
  const written = trigger.inputs.webhookExpectEvery;
  if (written === undefined) return undefined;
  return written.toLowerCase() === 'off' ? 'off' : durationMs(written);
}

async function historiesOf({ prepared: { trigger }, newHours }: Judged, { store }: WatchServices) {
  const { flowId, triggerKey } = trigger;
  const histories = new Map<string, ArrivalHour[]>();
  for (const hour of await store.of(rhythmStore).listArrivalHours({ flowId, triggerKey })) {
    const key = keyOf(hour.event);
    histories.set(key, [...(histories.get(key) ?? []), hour]);
  }
  // For an hour that is already stored, the new part does not change what is usual.
  for (const hour of newHours) {
    const own = histories.get(keyOf(hour.event)) ?? [];
    if (!own.some((each) => each.hour === hour.hour)) histories.set(keyOf(hour.event), [...own, hour]);
  }
  return histories;
}

const keyOf = (event: string | null) => (event === null ? '' : `=${event}`);

/** Start of the silence: the last delivery, or when the trigger was last open and watched again. */
function silentFrom({ unwatched, state, now }: Judged, lastAt: number | null): number {
  const ends = unwatched.filter(({ from }) => from <= now).map(({ to }) => Math.min(to, now));
  return Math.max(lastAt ?? state.since, ...ends);
}

interface Judging {
  readonly histories: Histories;
  readonly learned: Learned;
}

async function silenceOf(
  judged: Judged,
  { every, ...judging }: Judging & { readonly every: number | undefined },
): Promise<RhythmFinding | undefined> {
  const { lastAt, now, state } = judged;
  const from = silentFrom(judged, lastAt);
  const silence = { kind: 'trigger_silent', lastAt, from, everyMs: every ?? null, event: null } as const;
  if (every !== undefined) return now - from > every ? silence : undefined;
  if (lastAt === null || !(await isUnusual(judged, { ...judging, event: null, lastAt, since: state.since, from })))
    return undefined;
  return silence;
}

/** Kinds of events that are missing while others arrive. */
async function silentEvents(judged: Judged, judging: Judging): Promise<RhythmFinding[]> {
  const { state } = judged;
  const silent: RhythmFinding[] = [];
  for (const [event, lastAt] of Object.entries(state.events)) {
    const from = Math.max(silentFrom(judged, lastAt), state.eventsSince);
    const since = Math.max(state.since, state.eventsSince);
    if (await isUnusual(judged, { ...judging, event, lastAt, since, from }))
      silent.push({ kind: 'trigger_silent', lastAt, from, everyMs: null, event });
  }
  return silent;
}

interface Series extends Judging {
  readonly event: string | null;
  readonly lastAt: number;
  readonly since: number;
  readonly from: number;
}

async function isUnusual(
  { now, unwatched }: Judged,
  { event, lastAt, since, from, histories, learned }: Series,
): Promise<boolean> {
  if (now - from < LEARNED_AFTER_MS) return false;
  const key = keyOf(event);
  let known = learned.rhythms.get(key);
  if (known?.until !== lastAt) {
    const hours = (await histories()).get(key) ?? [];
    known = { until: lastAt, rhythm: learnRhythm({ hours, since, unwatched }, lastAt) };
    learned.rhythms.set(key, known);
    await setImmediate();
  }
  return known.rhythm !== undefined && isSilent(known.rhythm, { from, to: now });
}

/** Learns only from hours before those that are judged. */
async function volumeOf({ now, state, unwatched }: Judged, histories: Histories): Promise<VolumeBreak | undefined> {
  const hours = (await histories()).get('') ?? [];
  const history = { hours, since: state.since, unwatched };
  const rhythm = learnRhythm(history, (Math.floor(now / HOUR_MS) - 3) * HOUR_MS);
  return rhythm && findVolumeBreak(rhythm, history, now);
}

async function refusalsOf({ prepared, now }: Judged, look: Look, { store }: WatchServices): Promise<RhythmFinding[]> {
  if (!look.hasRefusals) return [];
  const { flowId, triggerKey } = prepared.trigger;
  const hour = Math.floor(now / HOUR_MS);
  const query = { flowId, triggerKey, fromHour: hour - REFUSALS_LOOK_BACK_HOURS, toHour: hour };
  const began = findRefusalsBegan(await store.of(rhythmStore).listRefusalHours(query), now);
  return began === undefined ? [] : [{ kind: 'refusals_began', ...began }];
}
