import { hash } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { compileEventId } from '../expressions/delivery-expressions.ts';
import { ArrivingBody } from '../expressions/trigger-body.ts';
import { maskerOf } from '../manifest/mask.ts';
import { DAY_MS, HOUR_MS } from '../model/clock.ts';
import type { Delivery } from '../model/delivery.ts';
import { durationMs } from '../model/duration.ts';
import type { DeliveryNames } from '../store/store.ts';
import { CLEAN } from '../webhooks/pipeline.ts';
import type { PreparedTrigger } from '../webhooks/triggers.ts';
import { acceptFetched, type FetchedOutcome, type FetchedServices, type TriggerName } from './accept-fetched.ts';
import { type AskLog, LogError } from './ask-log.ts';
import { type Lost, oldestOf } from './lost.ts';
import {
  reading,
  type SentDelivery,
  type Source,
  type SourceAnswer,
  SourceError,
  type SourceItem,
  type SourcePage,
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
  readonly settled: Ids;
  /** Ids whose contents could not be had: they are asked for after all others. */
  readonly troubled: Ids;
  /** The revision under which an id was refused, as far as this process remembers. */
  readonly refused: { get(id: string): number | undefined; set(id: string, revision: number): unknown };
  readonly signal: AbortSignal;
  /** Whether the trigger still names this log: what another one holds is none of its business. */
  isCurrent(): boolean;
  /** Stores the state and goes on asking; false where another process asks now. */
  note(state: ReconcileState): Promise<boolean>;
}

interface Ids {
  has(id: string): boolean;
  add(id: string): unknown;
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
/** Between two that are fetched: a publisher's limits are for others too. */
const PACE_MS = 20;
const ASKED_AT_ONCE = 500;
/** Entries in a row whose contents cannot be had: then it is the log that cannot. */
const MOST_FAILED = 3;
const MOST_REFUSED = 500;
const MOST_ID_CHARACTERS = 200;
/** A publisher's request has less: our own server takes 16 KiB. */
const MOST_HEADER_CHARACTERS = 65_536;

/**
 * Lists what the publisher sent, asks which of it was never accepted, and accepts that, oldest first. Each acceptance is durable
 * before the next one begins: whatever ends the look, the next one finds what is left by its names.
 */
export async function runRound(round: Round, services: RoundServices): Promise<RoundEnd> {
  const { clock } = services;
  try {
    const window = windowOf(round, clock.now());
    return await fetchAll(await listLost(round, window, services), { ...round, window }, services);
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
  const knownMs = (prepared.eventIdentity?.days ?? 0) * DAY_MS - HOUR_MS;
  // What was sent earlier may no longer be known: its name was kept from its arrival on, and by another clock.
  const lookbackMs = Math.min(durationMs(prepared.trigger.reconcile?.lookback ?? '') ?? 0, knownMs);
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

async function listLost(
  round: Round,
  window: Window,
  services: RoundServices,
): Promise<Lost & { readonly isWhole: boolean }> {
  const { source, prepared, state, settled, troubled } = round;
  const again = new Set(refusedOnes(prepared, state).map(({ id }) => id));
  const known = new Set(again.size > 0 ? [] : state.refused.items.map(({ id }) => id));
  const isRefused = (id: string) => known.has(id) || round.refused.get(id) === prepared.flow.record.revision;
  let lost: Lost = { items: [], leftFrom: Number.POSITIVE_INFINITY };
  let firstAt: number | undefined;
  let next: SourceRequest | undefined = reading(() => source.list(window));
  let pages = 0;
  for (; next !== undefined && pages < MOST_PAGES; pages += 1) {
    const use = async (answer: SourceAnswer) => {
      const page = withShortIds(reading(() => source.read(answer, window)));
      const asked = page.items.filter(({ id, sentAt }) => {
        const isAsked = again.has(id) || (sentAt >= window.from && sentAt <= window.until && !isRefused(id));
        return isAsked && !settled.has(id);
      });
      firstAt ??= page.items[0]?.sentAt;
      const isNewestFirst = (firstAt ?? 0) >= (page.items.at(-1)?.sentAt ?? 0);
      lost = oldestOf(lost, await withoutAccepted(asked, round, services), { isNewestFirst, troubled });
      return page.next;
    };
    next = await askWith(round, next, { services, use });
    if (!round.isCurrent() || !(await round.note(state))) throw new LeaseLostError();
  }
  return { ...lost, isWhole: next === undefined };
}

/** What is remembered of each item is short, whatever a log names it. */
function withShortIds({ items, ...page }: SourcePage): SourcePage {
  const short = (id: string) => (id.length <= MOST_ID_CHARACTERS ? id : hash('sha256', id));
  return { ...page, items: items.map((item) => ({ ...item, id: short(item.id) })) };
}

/** Another process asks now: what this one found is its business no more. */
export class LeaseLostError extends Error {}

/** Headers that a source's sign-in gave, for as long as they may be used. */
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
  return (item) => {
    try {
      return reading(() => namesOf(item));
    } catch {
      // Its contents say why when it is fetched, and the others go on.
      return {};
    }
  };

  function namesOf({ headers, content, sentAt }: SourceItem): DeliveryNames {
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
  }
}

async function fetchAll(
  { items: lost, leftFrom, isWhole }: Awaited<ReturnType<typeof listLost>>,
  { window, ...round }: Round & { readonly window: Window },
  services: RoundServices,
): Promise<RoundEnd> {
  const { pause = sleep, clock } = services;
  const { prepared, settled, troubled, signal } = round;
  const { revision } = prepared.flow.record;
  let state: ReconcileState = {
    ...round.state,
    notBefore: null,
    settledTo: settledBefore(round),
    refused: { revision, items: keptRefused(round) },
  };
  let openFrom = leftFrom;
  let [isBroken, hasMoved] = [false, false];
  let failed: { readonly error: unknown; readonly inARow: number } | undefined;
  for (const item of lost) {
    const { id, sentAt } = item;
    await pause(PACE_MS, signal);
    if (!round.isCurrent()) throw new LeaseLostError();
    const outcome = await fetchOne(item, round, services).catch((error: unknown) => ({
      kind: 'failed' as const,
      error,
    }));
    if (outcome.kind === 'failed') {
      if (failureOf(outcome.error, round) === undefined) throw outcome.error;
      failed = { error: outcome.error, inARow: (failed?.inARow ?? 0) + 1 };
      openFrom = Math.min(openFrom, sentAt);
      isBroken = failed.inARow === MOST_FAILED || isOfAll(outcome.error);
      if (isBroken) break;
      troubled.add(id);
      continue;
    }
    if (outcome.kind !== 'not now') hasMoved = true;
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
        round.refused.set(id, revision);
      } else settled.add(id);
      if (!(await round.note(state))) throw new LeaseLostError();
    }
  }
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
  // What was on the pages that are left may be older than all that was listed.
  const settledTo = isWhole ? Math.min(window.until, openFrom - 1) : state.settledTo;
  // What cannot be had now cannot be had a moment later: the rest waits for the next look.
  return { state: { ...state, settledTo }, isDone: leftFrom === Number.POSITIVE_INFINITY || isBroken || !hasMoved };
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

/** Until all is tried that an earlier revision refused: a look that ends before finds the rest in its window. */
function settledBefore({ prepared, state }: Round): number | null {
  const refusedAt = refusedOnes(prepared, state).map(({ sentAt }) => sentAt - 1);
  return state.settledTo === null ? null : Math.min(state.settledTo, ...refusedAt);
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
  if (item.detail === undefined) return acceptEntry(item, undefined, { round, services });
  try {
    const use = (detail: SourceAnswer) => acceptEntry(item, detail, { round, services });
    return await askWith(round, item.detail, { services, use });
  } catch (error) {
    if (!(error instanceof LogError)) throw error;
    if (error.failure === 'not_found') return FORGOTTEN;
    if (error.failure === 'not_understood')
      return { kind: 'refused', reason: masked(`the log ${error.message}`, round) };
    throw error;
  }
}

async function acceptEntry(
  item: SourceItem,
  detail: SourceAnswer | undefined,
  { round, services }: { readonly round: Round; readonly services: RoundServices },
): Promise<EntryOutcome> {
  const { source, name } = round;
  let sent: SentDelivery;
  try {
    sent = reading(() => source.sent(item, detail));
  } catch (error) {
    // It will be no other one at the next look.
    if (error instanceof SourceError && error.retryAfterMs === undefined)
      return { kind: 'refused', reason: masked(error.message, round) };
    throw error;
  }
  const size = Object.entries(sent.headers).reduce((sum, [header, value]) => sum + header.length + value.length, 0);
  if (size > MOST_HEADER_CHARACTERS) return OVERLONG;
  return acceptFetched(name, sent, services);
}

const OVERLONG = { kind: 'refused', reason: `it has more than ${MOST_HEADER_CHARACTERS} bytes of headers` } as const;
const FORGOTTEN = { kind: 'refused', reason: 'the log no longer has it' } as const;

const sleep = async (ms: number, signal: AbortSignal) => {
  await wait(ms, undefined, { signal });
};
