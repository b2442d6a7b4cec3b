import { setTimeout as wait } from 'node:timers/promises';
import { compileEventId } from '../expressions/delivery-expressions.ts';
import { ArrivingBody } from '../expressions/trigger-body.ts';
import { maskerOf } from '../manifest/mask.ts';
import { HOUR_MS } from '../model/clock.ts';
import type { Delivery } from '../model/delivery.ts';
import { durationMs } from '../model/duration.ts';
import type { DeliveryNames } from '../store/store.ts';
import { CLEAN } from '../webhooks/pipeline.ts';
import type { PreparedTrigger } from '../webhooks/triggers.ts';
import { acceptFetched, type FetchedOutcome, type FetchedServices, type TriggerName } from './accept-fetched.ts';
import { type AskLog, LogError } from './ask-log.ts';
import {
  type SentDelivery,
  type Source,
  type SourceAnswer,
  SourceError,
  type SourceItem,
  type SourceRequest,
} from './source.ts';
import { type ReconcileState, widened } from './state.ts';

export interface RoundServices extends FetchedServices {
  readonly ask: AskLog;
  /** Resolves after so many milliseconds; rejects when the signal aborts. */
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
  readonly settled: { has(id: string): boolean; add(id: string): unknown };
  readonly signal: AbortSignal;
  /** Stores the state and goes on asking; false where another process asks now. */
  note(state: ReconcileState): Promise<boolean>;
}

interface RoundEnd {
  readonly state: ReconcileState;
  /** All that was found is settled. */
  readonly isDone: boolean;
}

const GRACE_MS = 30_000;
/** So far each look goes back behind the last one: what a log tells late is found. */
const OVERLAP_MS = HOUR_MS;
/** Bounds of one look: 20 000 deliveries on pages of a hundred. */
const MOST_PAGES = 200;
/** Deliveries that one look fetches, and how many a second: a publisher's limits are for others too. */
const [MOST_FETCHED, PACE_MS] = [1000, 20];
const ASKED_AT_ONCE = 500;
/** Entries in a row whose contents cannot be had: then it is the log that cannot. */
const MOST_FAILED = 3;
const MOST_REFUSED = 500;

/**
 * Lists what the publisher sent, asks which of it was never accepted, and accepts that, oldest first. Each acceptance is durable
 * before the next one begins: whatever ends the look, the next one finds what is left by its names.
 */
export async function runRound(round: Round, services: RoundServices): Promise<RoundEnd> {
  const { clock } = services;
  try {
    const window = windowOf(round, clock.now());
    const { lost, isWhole } = await listLost(round, window, services);
    return await fetchAll(lost, { ...round, window, isWhole }, services);
  } catch (error) {
    const failure = failureOf(error, round);
    if (failure === undefined) throw error;
    const now = clock.now();
    const { failure: before } = round.state;
    const since = before?.kind === failure.kind ? before.since : now;
    const notBefore = failure.waitMs === undefined ? null : now + failure.waitMs;
    return { state: { ...round.state, failure: { ...failure.told, since }, notBefore }, isDone: true };
  }
}

/** Undefined for what is no fault of the log's. */
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

/** What is kept and told of an answer: a log may repeat what it was asked with. */
function masked(text: string, { secrets, source }: Pick<Round, 'secrets' | 'source'>): string {
  return String(maskerOf([...secrets, ...Object.values(signedIn.get(source)?.headers ?? {})])(text));
}

interface Window {
  /** What the log is asked for. */
  readonly since: number;
  readonly until: number;
  /** What was sent before is settled, but for what was refused. */
  readonly from: number;
}

function windowOf({ prepared, source, state }: Round, now: number): Window {
  const lookbackMs = durationMs(prepared.trigger.reconcile?.lookback ?? '') ?? 0;
  const until = now - (source.graceMs ?? GRACE_MS);
  // A clock that was set back must not keep it from looking.
  const settledTo = Math.min(state.settledTo ?? state.since, until);
  // Logs tell whole seconds.
  const from = Math.floor(Math.max(now - lookbackMs, state.since, settledTo - OVERLAP_MS) / 1000) * 1000;
  const refused = refusedOnes(prepared, state).map(({ sentAt }) => sentAt);
  // A window that ends before it begins is an error to a publisher: a look within the first moments asks for an empty one.
  return { from, since: Math.min(until, Math.max(now - lookbackMs, Math.min(from, ...refused))), until };
}

/** Refused under an earlier revision: this one may take them. */
function refusedOnes({ flow }: PreparedTrigger, { refused }: ReconcileState) {
  return refused.revision === flow.record.revision ? [] : refused.items;
}

/** What was sent and is not known, the oldest first: no more of it than one look fetches, and the first of the rest. */
async function listLost(
  round: Round,
  window: Window,
  services: RoundServices,
): Promise<{ readonly lost: readonly SourceItem[]; readonly isWhole: boolean }> {
  const { source, prepared, state, settled } = round;
  const again = new Set(refusedOnes(prepared, state).map(({ id }) => id));
  const refused = new Set(again.size > 0 ? [] : state.refused.items.map(({ id }) => id));
  let lost: readonly SourceItem[] = [];
  let firstAt: number | undefined;
  let next: SourceRequest | undefined = source.list(window);
  let pages = 0;
  for (; next !== undefined && pages < MOST_PAGES; pages += 1) {
    const page = source.read(await askWith(round, next, services), window);
    const asked = page.items.filter(({ id, sentAt }) => {
      const isAsked = again.has(id) || (sentAt >= window.from && sentAt <= window.until && !refused.has(id));
      return isAsked && !settled.has(id);
    });
    firstAt ??= page.items[0]?.sentAt;
    const isNewestFirst = (firstAt ?? 0) >= (page.items.at(-1)?.sentAt ?? 0);
    lost = oldestOf(lost, await withoutAccepted(asked, round, services), isNewestFirst);
    next = page.next;
    if (!(await round.note(state))) throw new LeaseLostError();
  }
  return { lost, isWhole: next === undefined };
}

/** Pages may hold contents: those of a long outage must not fill the memory. */
function oldestOf(
  known: readonly SourceItem[],
  listed: readonly SourceItem[],
  isNewestFirst: boolean,
): readonly SourceItem[] {
  // Many are sent within the second that a log tells: then its own order counts.
  const all = isNewestFirst ? [...listed.toReversed(), ...known] : [...known, ...listed];
  const byId = new Map<string, SourceItem>();
  for (const item of all.sort((one, other) => one.sentAt - other.sentAt)) {
    if (!byId.has(item.id)) byId.set(item.id, item);
  }
  return [...byId.values()].slice(0, MOST_FETCHED + 1);
}

/** Another process asks now: what this one found is its business no more. */
export class LeaseLostError extends Error {}

/** Headers that a source's sign-in gave, for as long as they may be used. */
const signedIn = new WeakMap<Source, { readonly headers: SourceRequest['headers']; readonly until: number }>();

async function askWith(round: Round, request: SourceRequest, services: RoundServices): Promise<SourceAnswer> {
  const { source, name, secrets, signal } = round;
  const { ask, clock } = services;
  const asking = { caller: `reconcile ${name.flowId}/${name.triggerKey}`, secrets, signal };
  if (source.signIn === undefined) return ask(request, asking);
  let known = signedIn.get(source);
  if (known === undefined || known.until <= clock.monotonic()) {
    const { headers, lifeMs } = source.signIn.read(await ask(source.signIn.request(), asking));
    known = { headers, until: clock.monotonic() + lifeMs };
    signedIn.set(source, known);
  }
  const given = Object.values(known.headers);
  try {
    return await ask(
      { ...request, headers: { ...request.headers, ...known.headers } },
      { ...asking, secrets: [...secrets, ...given] },
    );
  } catch (error) {
    // It may have been withdrawn before its time: the next look signs in anew.
    if (error instanceof LogError && error.failure === 'refused') signedIn.delete(source);
    throw error;
  }
}

/** What no accepted delivery has the name of. */
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

/** The names of an item as far as they can be read from its page: the rest is asked once its contents are there. */
function prepareNames(prepared: PreparedTrigger): (item: SourceItem) => DeliveryNames {
  const { eventIdentity, judgeByExpressions, nameDelivery, trigger } = prepared;
  const compiled = eventIdentity === undefined ? '' : compileEventId(eventIdentity.expression);
  const readsBody = typeof compiled === 'string' || compiled.expression.roots.has('body');
  const nonceHeader = trigger.inputs.webhookNonceHeader?.trim().toLowerCase();
  return ({ headers, content, sentAt }) => {
    const body = Buffer.from(content === undefined ? '' : JSON.stringify(content));
    const arriving = new ArrivingBody(body, 'application/json');
    const isReadable = !readsBody || content !== undefined;
    const said = isReadable
      ? judgeByExpressions?.(headers, arriving, { verifiedHeaders: undefined, isVerified: true })
      : undefined;
    if (nonceHeader === undefined || !Object.hasOwn(headers, nonceHeader)) return { eventId: said?.eventId };
    const delivery: Delivery = {
      ...{ id: '', receivedAt: sentAt, method: 'POST', path: '/', requestUrl: '', headers, body, clientIp: '' },
    };
    return { eventId: said?.eventId, nonce: nameDelivery(delivery, CLEAN.evidence) };
  };
}

async function fetchAll(
  lost: readonly SourceItem[],
  { window, isWhole, ...round }: Round & { readonly window: Window; readonly isWhole: boolean },
  services: RoundServices,
): Promise<RoundEnd> {
  const { pause = sleep, clock } = services;
  const { prepared, settled, signal } = round;
  const { revision } = prepared.flow.record;
  let state: ReconcileState = { ...round.state, notBefore: null, refused: { revision, items: keptRefused(round) } };
  let openFrom = Number.POSITIVE_INFINITY;
  let failed: { readonly error: unknown; readonly inARow: number } | undefined;
  for (const item of lost.slice(0, MOST_FETCHED)) {
    const { id, sentAt } = item;
    await pause(PACE_MS, signal);
    const outcome = await fetchOne(item, round, services).catch((error: unknown) => ({
      kind: 'failed' as const,
      error,
    }));
    if (outcome.kind === 'failed') {
      if (failureOf(outcome.error, round) === undefined) throw outcome.error;
      failed = { error: outcome.error, inARow: (failed?.inARow ?? 0) + 1 };
      openFrom = Math.min(openFrom, sentAt);
      if (failed.inARow === MOST_FAILED || isOfAll(outcome.error)) break;
      continue;
    }
    failed = failed && { ...failed, inARow: 0 };
    if (outcome.kind === 'not now') openFrom = Math.min(openFrom, sentAt);
    if (outcome.kind === 'settled') settled.add(id);
    if (outcome.kind === 'accepted' || outcome.kind === 'refused') {
      const found = { sentAt, at: clock.now(), cause: causeOf(item, round) };
      const refusedFor = outcome.kind === 'refused' ? outcome.reason : undefined;
      state = { ...state, gap: widened(state.gap, { ...found, refusedFor }) };
      if (refusedFor !== undefined) {
        const items = [...state.refused.items, { id, sentAt }].slice(-MOST_REFUSED);
        state = { ...state, refused: { revision, items } };
      } else settled.add(id);
      if (!(await round.note(state))) throw new LeaseLostError();
    }
  }
  const left = lost[MOST_FETCHED];
  if (left !== undefined) openFrom = Math.min(openFrom, left.sentAt);
  if (failed !== undefined) {
    const { told, waitMs } = failureOf(failed.error, round) ?? { told: undefined, waitMs: undefined };
    const since = round.state.failure?.kind === told?.kind ? round.state.failure?.since : undefined;
    state = {
      ...state,
      failure: told === undefined ? null : { ...told, since: since ?? clock.now() },
      notBefore: waitMs === undefined ? null : clock.now() + waitMs,
    };
  } else {
    state = { ...state, failure: isWhole ? null : tooMany(round.state, clock.now()) };
  }
  const settledTo = Math.min(window.until, openFrom - 1);
  return { state: { ...state, settledTo }, isDone: left === undefined };
}

/** Of a publisher that says it was answered, or says nothing: somebody else may have been. */
const NOT_SEEN = 'never arrived here';
const CAUSE_CHARACTERS = 80;

function causeOf({ failure = NOT_SEEN }: SourceItem, round: Round): string {
  return masked(failure, round).slice(0, CAUSE_CHARACTERS);
}

function tooMany({ failure }: ReconcileState, now: number): ReconcileState['failure'] {
  const kind = 'not_understood';
  const message = `has more than ${MOST_PAGES} pages for this time; shorten lookback, or look more often`;
  return { kind, message, since: failure?.kind === kind ? failure.since : now };
}

/** Those of before stay refused until another revision tries them. */
function keptRefused({ prepared, state: { refused } }: Round): ReconcileState['refused']['items'] {
  return refused.revision === prepared.flow.record.revision ? refused.items : [];
}

/** It would be the same for every other entry. */
function isOfAll(error: unknown): boolean {
  if (error instanceof SourceError) return error.retryAfterMs !== undefined;
  return error instanceof LogError && !['not_found', 'not_understood', 'unavailable'].includes(error.failure);
}

/** What became of one entry; where it is refused, why. */
type EntryOutcome =
  | Exclude<FetchedOutcome, { kind: 'refused' }>
  | { readonly kind: 'refused'; readonly reason: string };

async function fetchOne(item: SourceItem, round: Round, services: RoundServices): Promise<EntryOutcome> {
  const { source, name } = round;
  let detail: SourceAnswer | undefined;
  try {
    detail = item.detail && (await askWith(round, item.detail, services));
  } catch (error) {
    if (error instanceof LogError && error.failure === 'not_found') return FORGOTTEN;
    throw error;
  }
  let sent: SentDelivery;
  try {
    sent = source.sent(item, detail);
  } catch (error) {
    // It will be no other one at the next look.
    if (error instanceof SourceError && error.retryAfterMs === undefined)
      return { kind: 'refused', reason: masked(error.message, round) };
    throw error;
  }
  return acceptFetched(name, sent, services);
}

const FORGOTTEN = { kind: 'refused', reason: 'the log no longer has it' } as const;

const sleep = async (ms: number, signal: AbortSignal) => {
  await wait(ms, undefined, { signal });
};
