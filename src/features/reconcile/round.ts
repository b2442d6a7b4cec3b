import { hash } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { isOfBody } from '../../expressions/context.ts';
import { compileEventId } from '../../expressions/delivery-expressions.ts';
import { ArrivingBody } from '../../expressions/trigger-body.ts';
import { maskerOf } from '../../manifest/mask.ts';
import { DAY_MS, HOUR_MS } from '../../model/clock.ts';
import type { Delivery } from '../../model/delivery.ts';
import { durationMs } from '../../model/duration.ts';
import type { TriggerName } from '../../model/trigger-name.ts';
import type { DeliveryNames, Store } from '../../store/store.ts';
import { CLEAN } from '../../webhooks/pipeline.ts';
import type { PreparedTrigger } from '../../webhooks/triggers.ts';
import { acceptFetched, type FetchedOutcome, type FetchedServices } from './accept-fetched.ts';
import { type AskFailure, type AskLog, LogError } from './ask-log.ts';
import {
  type Lost,
  oldestOf,
  reading,
  type SentWindow,
  type Source,
  type SourceAnswer,
  SourceError,
  type SourceItem,
  type SourcePage,
  type SourceRequest,
} from './source.ts';
import { type ReconcileState, type Undecided, widened } from './state.ts';
import {
  dueAgain,
  type Entry,
  givenUpBefore,
  isGone,
  recordOfGivenUp,
  untried,
  wasAsked,
  withoutUndecided,
  withUnasked,
  withUndecided,
} from './undecided.ts';

export interface RoundServices extends FetchedServices {
  readonly store: FetchedServices['store'] & Pick<Store, 'findDelivery'>;
  /** Accepts a fetched delivery. */
  readonly accept?: typeof acceptFetched | undefined;
  readonly ask: AskLog;
  /** Resolves after this many milliseconds; rejects when the signal aborts. */
  readonly pause?: ((ms: number, signal: AbortSignal) => Promise<void>) | undefined;
}

/** One look at a trigger's log. */
export interface Round {
  readonly name: TriggerName;
  readonly prepared: PreparedTrigger;
  readonly source: Source;
  readonly secrets: readonly string[];
  readonly state: ReconcileState;
  /** Ids that need no further look, as far as this process remembers. */
  readonly settled: Ids;
  /** Ids whose contents could not be fetched and that have no room in the state: asked for after all others. */
  readonly troubled: Ids;
  /** The revision that refused an id, as far as this process remembers. */
  readonly refused: { get(id: string): number | undefined; set(id: string, revision: number): unknown };
  readonly signal: AbortSignal;
  /** Whether the trigger still names this log; a former log no longer concerns it. */
  isCurrent(): boolean;
  /** Stores the state and extends the lease; false if another process has taken over. */
  note(state: ReconcileState): Promise<boolean>;
}

interface Ids {
  has(id: string): boolean;
  add(id: string): unknown;
}

interface RoundEnd {
  readonly state: ReconcileState;
  /** Everything found is settled. */
  readonly isDone: boolean;
}

const GRACE_MS = 30_000;
/** Each look reaches this far back before the end of the last one, to find late entries of the log. */
const OVERLAP_MS = HOUR_MS;
/** Limit of one look: 20 000 deliveries on pages of a hundred. */
const MOST_PAGES = 200;
/** Pause before each fetch: a publisher's limits are shared with others. */
const PACE_MS = 20;
const ASKED_AT_ONCE = 500;
/** After this many failed entries in a row, the log itself has failed; after fewer if it is away or refuses. */
const [MOST_FAILED, MOST_AWAY] = [20, 3];
const AWAY: ReadonlySet<string> = new Set<AskFailure>(['unavailable', 'refused', 'not_permitted']);
const MOST_REFUSED = 500;
const MOST_ID_CHARACTERS = 200;
/** Requests of publishers have less: our own server takes 16 KiB. */
const MOST_HEADER_CHARACTERS = 65_536;

/**
 * Lists what the publisher sent, asks the store which of it was never accepted, and accepts the rest, oldest first.
 * Each acceptance is durable before the next begins: however the look ends, the next one finds the rest by its names.
 */
export async function runRound(given: Round, services: RoundServices): Promise<RoundEnd> {
  const { clock } = services;
  let round = given;
  try {
    const isOld = isOlderThan(givenUpBefore(clock.now(), spansOf(round.prepared)));
    const over = round.state.undecided.filter(
      (each) => each.record !== null || isOld(each) || isGone(each, clock.now()),
    );
    round = { ...round, state: await giveUp(over, round, services) };
    const window = windowOf(round, clock.now());
    return await fetchAll(await listLost(round, window, services), { ...round, window }, services);
  } catch (error) {
    const failure = failureOf(error, round);
    if (failure === undefined) throw error;
    const notBefore = failure.waitMs === undefined ? null : clock.now() + failure.waitMs;
    const told = sinceFirst(failure.told, round.state, clock.now());
    return { state: { ...round.state, failure: told, notBefore }, isDone: true };
  }
}

const isOlderThan = (before: number) => (sent: { readonly sentAt: number }) => sent.sentAt < before;

type LookFailure = NonNullable<ReturnType<typeof failureOf>>;
type Failure = NonNullable<ReconcileState['failure']>;

/** Keeps the time since which it fails in this way. */
function sinceFirst(told: Omit<Failure, 'since'>, { failure }: ReconcileState, now: number): Failure {
  return { ...told, since: failure?.kind === told.kind ? failure.since : now };
}

/** Undefined if the log is not at fault. */
function failureOf(error: unknown, round: Round) {
  if (error instanceof LogError) {
    const { failure: kind, message, waitMs } = error;
    return { kind, told: { kind, message: masked(message, round) }, waitMs };
  }
  if (!(error instanceof SourceError)) return undefined;
  const { message, retryAfterMs: waitMs } = error;
  const kind = waitMs === undefined ? 'not_understood' : 'rate_limited';
  return { kind, told: { kind, message: masked(message, round) }, waitMs };
}

/** Masks text of an answer that is stored or shown: a log may repeat the secrets of the request. */
function masked(text: string, { secrets, source }: Pick<Round, 'secrets' | 'source'>): string {
  return String(maskerOf([...secrets, ...Object.values(signedIn.get(source)?.headers ?? {})])(text));
}

interface Window {
  /** The window that the log is asked for. */
  readonly since: number;
  readonly until: number;
  /** Earlier deliveries are settled, except refused ones. */
  readonly from: number;
}

/** How far back a trigger looks, and how long names are surely known: they count from arrival, by another clock. */
function spansOf({ eventIdentity, trigger }: PreparedTrigger): {
  readonly lookbackMs: number;
  readonly knownMs: number;
} {
  const knownMs = (eventIdentity?.days ?? 0) * DAY_MS - HOUR_MS;
  return { lookbackMs: Math.min(durationMs(trigger.reconcile?.lookback ?? '') ?? 0, knownMs), knownMs };
}

function windowOf({ prepared, source, state }: Round, now: number): Window {
  const { lookbackMs, knownMs } = spansOf(prepared);
  const until = now - (source.graceMs ?? GRACE_MS);
  // If the clock was set back, do not wait until it has caught up.
  const settledTo = Math.min(state.settledTo ?? state.since, until);
  const earliest = Math.max(now - lookbackMs, state.since, settledTo - OVERLAP_MS);
  // A listed delivery is not lost by age: it is fetched, or given up with a record.
  const left = Math.max(state.openFrom ?? Number.POSITIVE_INFINITY, now - knownMs, state.since);
  // Logs give whole seconds.
  const from = Math.floor(Math.min(earliest, left) / 1000) * 1000;
  const refused = refusedOnes(prepared, state).map(({ sentAt }) => sentAt);
  // Publishers reject windows that end before they begin; the first moments of a trigger give an empty window instead.
  return { from, since: Math.min(until, from, Math.max(now - lookbackMs, Math.min(from, ...refused))), until };
}

/** Deliveries refused under an earlier revision; this one may accept them. */
function refusedOnes({ flow }: PreparedTrigger, { refused }: ReconcileState) {
  return refused.revision === flow.record.revision ? [] : refused.items;
}

interface Listed extends Lost {
  /** Why the list is incomplete; undefined if it is complete. */
  readonly failure: LookFailure | undefined;
  /** This look fetches nothing from the list. */
  readonly isHeldBack: boolean;
}

async function listLost(round: Round, window: Window, services: RoundServices): Promise<Listed> {
  const { prepared, state, settled, troubled } = round;
  const again = new Set(refusedOnes(prepared, state).map(({ id }) => id));
  const known = new Set(again.size > 0 ? [] : state.refused.items.map(({ id }) => id));
  for (const { id } of state.undecided.filter(wasAsked)) known.add(id);
  const isRefused = (id: string) => known.has(id) || round.refused.get(id) === prepared.flow.record.revision;
  let lost: Lost = { items: [], leftFrom: Number.POSITIVE_INFINITY };
  let firstAt: number | undefined;
  const use = async (page: SourcePage) => {
    const asked = page.items.filter(({ id, sentAt }) => {
      const isAsked = again.has(id) || (sentAt >= window.from && sentAt <= window.until && !isRefused(id));
      return isAsked && !settled.has(id);
    });
    firstAt ??= page.items[0]?.sentAt;
    const isNewestFirst = (firstAt ?? 0) >= (page.items.at(-1)?.sentAt ?? 0);
    lost = oldestOf(lost, await withoutAccepted(asked, round, services), { isNewestFirst, troubled });
    return true;
  };
  let pages = 0;
  const counted = (page: SourcePage) => {
    pages += 1;
    return use(page);
  };
  try {
    const isWhole = await readPages(round, window, { services, use: counted });
    return { ...lost, failure: isWhole ? undefined : TOO_MANY, isHeldBack: false };
  } catch (error) {
    const failure = failureOf(error, round);
    if (pages === 0 || failure === undefined) throw error;
    // A page that fails again and again must not block the rest; after its first failure, keep the order of the rest.
    return { ...lost, failure, isHeldBack: state.failure === null || isOfAll(error) };
  }
}

/** Reads pages while `use` wants more; yields false if there were too many. */
async function readPages(
  round: Round,
  window: SentWindow,
  { services, use }: { readonly services: RoundServices; readonly use: (page: SourcePage) => Promise<boolean> },
): Promise<boolean> {
  const { source, state } = round;
  let next: SourceRequest | undefined = reading(() => source.list(window));
  for (let pages = 0; next !== undefined; pages += 1) {
    if (pages === MOST_PAGES) return false;
    next = await askWith(round, next, {
      services,
      use: async (answer) => {
        const page = withShortIds(reading(() => source.read(answer, window)));
        return (await use(page)) ? page.next : undefined;
      },
    });
    if (!round.isCurrent() || !(await round.note(state))) throw new LeaseLostError();
  }
  return true;
}

/** Hashes long ids, so that little is remembered for each item, whatever the log names it. */
function withShortIds({ items, ...page }: SourcePage): SourcePage {
  const short = (id: string) => (id.length <= MOST_ID_CHARACTERS ? id : hash('sha256', id));
  return { ...page, items: items.map((item) => ({ ...item, id: short(item.id) })) };
}

/** Another process asks now, so this process must not store its results. */
export class LeaseLostError extends Error {}

/** Headers from a source's sign-in, and until when they may be used. */
const signedIn = new WeakMap<Source, { readonly headers: SourceRequest['headers']; readonly until: number }>();

async function askWith<Result>(
  round: Round,
  request: SourceRequest,
  { services, use }: { readonly services: RoundServices; readonly use: (answer: SourceAnswer) => Promise<Result> },
): Promise<Result> {
  const { source, name, secrets, signal } = round;
  const { ask, clock } = services;
  const asking = { caller: `reconcile ${name.flowId}/${name.triggerKey}`, secrets, signal };
  if (source.signIn === undefined) return ask(request, asking, use);
  let known = signedIn.get(source);
  if (known === undefined || known.until <= clock.monotonic()) {
    const { signIn } = source;
    const { headers, lifeMs } = await ask(signIn.request(), asking, (answer) => signIn.read(answer));
    known = { headers, until: clock.monotonic() + lifeMs };
    signedIn.set(source, known);
  }
  const given = Object.values(known.headers);
  try {
    return await ask(
      { ...request, headers: { ...request.headers, ...known.headers } },
      { ...asking, secrets: [...secrets, ...given] },
      use,
    );
  } catch (error) {
    // The token may have been revoked early: the next look signs in again.
    if (error instanceof LogError && error.failure === 'refused') signedIn.delete(source);
    throw error;
  }
}

/** Items that no accepted delivery has a name of. */
async function withoutAccepted(
  items: readonly SourceItem[],
  { name, prepared }: Round,
  { store, clock }: RoundServices,
): Promise<SourceItem[]> {
  const nameOf = prepareNames(prepared);
  const lost: SourceItem[] = [];
  for (let at = 0; at < items.length; at += ASKED_AT_ONCE) {
    const some = items.slice(at, at + ASKED_AT_ONCE);
    const accepted = await store.areAccepted({ ...name, at: Math.floor(clock.ledger()), names: some.map(nameOf) });
    lost.push(...some.filter((_, place) => accepted[place] !== true));
  }
  return lost;
}

/** The names of an item, as far as its page has them; others are checked once its contents are fetched. */
function prepareNames(prepared: PreparedTrigger): (item: SourceItem) => DeliveryNames {
  const { eventIdentity, judgeByExpressions, nameDelivery, trigger } = prepared;
  const compiled = eventIdentity === undefined ? '' : compileEventId(eventIdentity.expression);
  const readsBody = typeof compiled === 'string' || [...compiled.expression.roots].some(isOfBody);
  const nonceHeader = trigger.inputs.webhookNonceHeader?.trim().toLowerCase();
  return (item) => {
    try {
      return reading(() => namesOf(item));
    } catch {
      // Fetching its contents will report the reason; other items are not affected.
      return {};
    }
  };

  function namesOf({ headers, content, sentAt }: SourceItem): DeliveryNames {
    const body = Buffer.from(content === undefined ? '' : JSON.stringify(content));
    const arriving = new ArrivingBody(body, { contentType: 'application/json' });
    const isReadable = !readsBody || content !== undefined;
    const expressions = isReadable
      ? judgeByExpressions?.(headers, arriving, { verifiedHeaders: undefined, isTrusted: true })
      : undefined;
    if (nonceHeader === undefined || !Object.hasOwn(headers, nonceHeader)) return { eventId: expressions?.eventId };
    const delivery: Delivery = {
      ...{ id: '', receivedAt: sentAt, method: 'POST', path: '/', requestUrl: '', headers, body, clientIp: '' },
    };
    return { eventId: expressions?.eventId, nonce: nameDelivery(delivery, CLEAN.evidence) };
  }
}

/** Progress of a look. */
interface Progress {
  state: ReconcileState;
  /** When the first delivery left for the next look was sent. */
  openFrom: number;
  hasMoved: boolean;
  /** Why the last contents could not be fetched, and how many failed in a row. */
  failed: LookFailure | undefined;
  inARow: number;
  /** How many in a row failed because the log was away or refused the token. */
  awayInARow: number;
  /** How long the publisher asked to wait. */
  waitMs: number | undefined;
  isBroken: boolean;
}

async function fetchAll(
  { items, leftFrom, failure, isHeldBack }: Listed,
  { window, ...round }: Round & { readonly window: Window },
  services: RoundServices,
): Promise<RoundEnd> {
  const { clock } = services;
  const { prepared, state: before } = round;
  const isOld = isOlderThan(givenUpBefore(clock.now(), spansOf(prepared)));
  const begun: ReconcileState = {
    ...before,
    notBefore: null,
    settledTo: settledBefore(round),
    refused: { revision: prepared.flow.record.revision, items: keptRefused(round) },
  };
  const toEntry = entriesOf(round);
  const old = items.filter(isOld).map((item) => untried(toEntry(item), 'it was not asked for in time', clock.now()));
  const progress: Progress = {
    state: old.length === 0 ? begun : await giveUp(old, { ...round, state: begun }, services),
    ...{ openFrom: leftFrom, hasMoved: old.length > 0, failed: undefined, inARow: 0, awayInARow: 0 },
    ...{ waitMs: failure?.waitMs, isBroken: isHeldBack },
  };
  const young = items.filter((item) => !isOld(item));
  const left = isHeldBack ? young : await fetchEach(young, progress, { round, services });
  progress.openFrom = left.reduce((first, { sentAt }) => Math.min(first, sentAt), progress.openFrom);
  progress.state = withUnasked(progress.state, left.map(toEntry), clock.now());
  const { isBroken, failed } = progress;
  const told = (failed !== undefined && isBroken ? failed : failure)?.told;
  if (!isBroken) await askAgain(progress, { round, services });
  const { state, hasMoved, waitMs } = progress;
  // Deliveries that were not listed this time may still be in the log.
  const unlistedFrom = failure === undefined ? null : before.openFrom;
  const openFrom = Math.min(progress.openFrom, unlistedFrom ?? Number.POSITIVE_INFINITY);
  // Pages that were not read may contain older deliveries than those listed.
  const settledTo = failure === undefined ? Math.min(window.until, openFrom - 1) : state.settledTo;
  return {
    state: {
      ...state,
      settledTo,
      openFrom: openFrom === Number.POSITIVE_INFINITY ? null : openFrom,
      failure: told === undefined ? null : sinceFirst(told, before, clock.now()),
      notBefore: waitMs === undefined ? null : clock.now() + waitMs,
    },
    // After a failure, trying again at once would fail, too: the rest waits for the next look.
    isDone: leftFrom === Number.POSITIVE_INFINITY || isBroken || !hasMoved,
  };
}

interface Fetching {
  readonly round: Round;
  readonly services: RoundServices;
}

/** Yields the items that it did not reach. */
async function fetchEach(
  items: readonly SourceItem[],
  progress: Progress,
  fetching: Fetching,
): Promise<readonly SourceItem[]> {
  const { round, services } = fetching;
  const { pause = sleep } = services;
  for (const [place, item] of items.entries()) {
    await pause(PACE_MS, round.signal);
    if (!round.isCurrent()) throw new LeaseLostError();
    const outcome = await fetchOne(item, round, services).catch((error: unknown) => ({
      kind: 'failed' as const,
      error,
    }));
    if (outcome.kind === 'failed') await noteFailed(item, outcome.error, { progress, ...fetching });
    else await noteDecided(item, outcome, { progress, ...fetching });
    if (progress.isBroken) return items.slice(place + 1);
  }
  return [];
}

/** A delivery is only settled by its contents, so it is asked for again, after all others. */
async function noteFailed(
  item: SourceItem,
  error: unknown,
  { progress, round, services: { clock } }: Fetching & { readonly progress: Progress },
): Promise<void> {
  const failure = failureOf(error, round);
  if (failure === undefined) throw error;
  progress.failed = failure;
  progress.waitMs = failure.waitMs ?? progress.waitMs;
  progress.inARow += 1;
  progress.awayInARow = AWAY.has(failure.kind) ? progress.awayInARow + 1 : 0;
  progress.isBroken = isOfAll(error) || progress.awayInARow >= MOST_AWAY || progress.inARow >= MOST_FAILED;
  const state = withUndecided(progress.state, {
    ...entriesOf(round)(item),
    ...{ why: failure.told.message, now: clock.now(), everyMs: everyMs(round.prepared) },
  });
  if (state === undefined) {
    progress.openFrom = Math.min(progress.openFrom, item.sentAt);
    round.troubled.add(item.id);
  }
  progress.state = state ?? progress.state;
  if (!(await round.note(progress.state))) throw new LeaseLostError();
}

async function noteDecided(
  item: SourceItem,
  outcome: FetchedOutcome,
  { progress, round, services: { clock } }: Fetching & { readonly progress: Progress },
): Promise<void> {
  const { id, sentAt } = item;
  Object.assign(progress, { inARow: 0, awayInARow: 0 });
  if (outcome.kind === 'not now') {
    if (!progress.state.undecided.some((each) => each.id === id && wasAsked(each)))
      progress.openFrom = Math.min(progress.openFrom, sentAt);
    return;
  }
  progress.hasMoved = true;
  const before = progress.state;
  progress.state = withoutUndecided(before, id);
  if (outcome.kind !== 'refused') round.settled.add(id);
  if (outcome.kind === 'settled' && progress.state === before) return;
  if (outcome.kind !== 'settled') {
    const found = { sentAt, at: clock.now(), cause: causeOf(item, round) };
    const refusedFor = outcome.kind === 'refused' ? outcome.reason : undefined;
    const gap = widened(progress.state.gap, { ...found, became: outcome.kind, refusedFor });
    progress.state = { ...progress.state, gap };
  }
  if (outcome.kind === 'refused') {
    const { revision, items } = progress.state.refused;
    const refused = { revision, items: [...items, { id, sentAt }].slice(-MOST_REFUSED) };
    progress.state = { ...progress.state, refused };
    round.refused.set(id, revision);
  }
  if (!(await round.note(progress.state))) throw new LeaseLostError();
}

/** Asks again for some deliveries whose contents could not be fetched, after all new ones. */
async function askAgain(progress: Progress, fetching: Fetching): Promise<void> {
  const { round, services } = fetching;
  const { clock } = services;
  const due = dueAgain(progress.state, clock.now());
  if (due.length === 0) return;
  // These failed before, so many failures in a row say nothing about the log.
  Object.assign(progress, { inARow: Number.NEGATIVE_INFINITY, awayInARow: 0 });
  const ids = new Set(due.map(({ id }) => id));
  const listed = new Map<string, SourceItem>();
  let lost: Lost = { items: [], leftFrom: Number.POSITIVE_INFINITY };
  const use = async ({ items }: SourcePage) => {
    const asked = items.filter(({ id }) => ids.has(id) && !listed.has(id));
    for (const item of asked) listed.set(item.id, { id: item.id, sentAt: item.sentAt, headers: {} });
    const missed = await withoutAccepted(asked, round, services);
    for (const { id } of asked.filter((item) => !missed.includes(item))) {
      progress.state = withoutUndecided(progress.state, id);
    }
    lost = oldestOf(lost, missed, { isNewestFirst: false, troubled: { has: () => false } });
    return listed.size < ids.size;
  };
  let [why, unlisted]: [string, 'missing' | 'no list' | undefined] = ['the log does not list it', 'missing'];
  try {
    const times = due.map(({ sentAt }) => sentAt);
    const window = { since: Math.floor(Math.min(...times) / 1000) * 1000, until: Math.max(...times) + 1000 };
    const isWhole = await readPages({ ...round, state: progress.state }, window, { services, use });
    if (!isWhole) [why, unlisted] = [`it is on none of the first ${MOST_PAGES} pages of the log`, undefined];
  } catch (error) {
    const failure = failureOf(error, round);
    if (failure === undefined) throw error;
    progress.waitMs = failure.waitMs ?? progress.waitMs;
    [why, unlisted] = [`the log ${failure.told.message}`, 'no list'];
  }
  for (const each of due.filter(({ id }) => !listed.has(id))) {
    const failed = { ...each, why, unlisted, now: clock.now(), everyMs: everyMs(round.prepared) };
    progress.state = withUndecided(progress.state, failed) ?? progress.state;
  }
  if (!(await round.note(progress.state))) throw new LeaseLostError();
  await fetchEach(lost.items, progress, fetching);
}

/** Gives deliveries up, each with one record even after a crash: the state has the id of the record first. */
async function giveUp(over: readonly Undecided[], round: Round, services: RoundServices): Promise<ReconcileState> {
  let { state } = round;
  if (over.length === 0) return state;
  const { store, clock, newId } = services;
  const { name, prepared } = round;
  const noted = async () => {
    if (!(await round.note(state))) throw new LeaseLostError();
  };
  const names = over.map((each) => each.names);
  const accepted = await store.areAccepted({ ...name, at: Math.floor(clock.ledger()), names });
  const lost = over.filter((each, place) => accepted[place] !== true || each.record !== null);
  const marked = lost.map((each) => ({ ...each, record: each.record ?? { id: newId(), at: clock.now() } }));
  const ids = new Set(over.map(({ id }) => id));
  // The log may still list it.
  for (const { id } of over.filter(isOlderThan(givenUpBefore(clock.now(), spansOf(prepared))))) round.settled.add(id);
  const others = state.undecided.filter(({ id }) => !ids.has(id));
  state = { ...state, undecided: [...others, ...marked] };
  await noted();
  for (const each of marked) {
    const known = await store.findDelivery(each.record.id);
    if (known === undefined)
      await store.recordDelivery(recordOfGivenUp({ ...each, id: masked(each.id, round) }, prepared, clock));
    const found = { sentAt: each.sentAt, at: clock.now(), cause: each.cause, became: 'givenUp' as const };
    state = { ...withoutUndecided(state, each.id), gap: widened(state.gap, found) };
    await noted();
  }
  return state;
}

function entriesOf(round: Round): (item: SourceItem) => Entry {
  const namesOf = prepareNames(round.prepared);
  return (item) => ({ id: item.id, sentAt: item.sentAt, cause: causeOf(item, round), names: namesOf(item) });
}

/** The cause if the publisher says it was answered, or says nothing: the answer may have come from somebody else. */
const NOT_SEEN = 'never arrived here';
const CAUSE_CHARACTERS = 80;

function causeOf({ failure = NOT_SEEN }: SourceItem, round: Round): string {
  return masked(failure, round).slice(0, CAUSE_CHARACTERS);
}

const TOO_MANY: LookFailure = {
  kind: 'not_understood',
  told: {
    kind: 'not_understood',
    message: `has more than ${MOST_PAGES} pages for this time; shorten lookback, or look more often`,
  },
  waitMs: undefined,
};

/** Ends before anything refused by an earlier revision, so that the next look finds it if this one aborts. */
function settledBefore({ prepared, state }: Round): number | null {
  const refusedAt = refusedOnes(prepared, state).map(({ sentAt }) => sentAt - 1);
  return state.settledTo === null ? null : Math.min(state.settledTo, ...refusedAt);
}

/** Deliveries refused by this revision stay refused until another revision tries them. */
function keptRefused({ prepared, state: { refused } }: Round): ReconcileState['refused']['items'] {
  return refused.revision === prepared.flow.record.revision ? refused.items : [];
}

/** The error would be the same for every other entry. */
function isOfAll(error: unknown): boolean {
  if (error instanceof SourceError) return error.retryAfterMs !== undefined;
  return error instanceof LogError && error.failure === 'rate_limited';
}

async function fetchOne(item: SourceItem, round: Round, services: RoundServices): Promise<FetchedOutcome> {
  if (item.detail === undefined) return acceptEntry(item, undefined, { round, services });
  const use = (detail: SourceAnswer) => acceptEntry(item, detail, { round, services });
  return askWith(round, item.detail, { services, use });
}

async function acceptEntry(
  item: SourceItem,
  detail: SourceAnswer | undefined,
  { round, services }: Fetching,
): Promise<FetchedOutcome> {
  const { source, name } = round;
  const sent = reading(() => source.sent(item, detail));
  const size = Object.entries(sent.headers).reduce((sum, [header, value]) => sum + header.length + value.length, 0);
  if (size > MOST_HEADER_CHARACTERS) {
    throw new SourceError(`told more than ${MOST_HEADER_CHARACTERS} bytes of headers`);
  }
  return (services.accept ?? acceptFetched)(name, sent, services);
}

export function everyMs({ trigger }: PreparedTrigger): number {
  return durationMs(trigger.reconcile?.every ?? '') ?? HOUR_MS;
}

const sleep = async (ms: number, signal: AbortSignal) => {
  await wait(ms, undefined, { signal });
};
