import type { DeliveryOutcome, DeliveryRecord, DeliveryShare } from '../../model/delivery.ts';
import { type FlowSwitches, whyClosed } from '../../model/planner.ts';
import type { AcceptResult, Candidate, Pins, SharedAcceptance } from '../store.ts';
import { countKeyUse } from './counts.ts';
import type { Ask, Decision } from './decision.ts';
import { findPlace } from './delivery-places.ts';
import { shareFlows } from './flows.ts';
import type { Bounds } from './kept-sizes.ts';
import { type PinRows, withPins } from './pins.ts';
import type { Held, Place, Places } from './placer.ts';
import { holding, joinPlace } from './placing.ts';
import type { Port } from './port.ts';

/** The first use of an idempotency key, or of a nonce that has not expired; without a run if it was filtered. */
export interface FirstUse<RunId = string> {
  readonly runId: RunId;
  readonly bodySha256: string;
}

/** The first use of a nonce, under its own name or another that also counts. */
export interface NonceUse extends FirstUse<string | null> {
  readonly isOwn: boolean;
}

/** How to store a delivery. */
interface RecordPlan {
  /** If this is not the candidate's run, that run has neither bytes nor search keys: the delivery stores them. */
  readonly runId: string | null;
  readonly isReplay: boolean;
  /** Undefined if the record already has the outcome. */
  readonly outcome: DeliveryOutcome | undefined;
  /** Set for a delivery to several triggers. */
  readonly shares?: readonly DeliveryShare[];
}

/**
 * The rows of acceptances in one transaction, under the candidate's trigger and its former keys.
 *
 * A name is a nonce, an idempotency key, an event or the repeated delivery. If a name is not found, no other
 * transaction finds or keeps it before the end of this one: of two replicas that ask at once, one waits for the other.
 */
export interface AcceptanceRows<Call extends Candidate> extends FlowRows, PinRows {
  /** Empty if no delivery of the transaction shares a run. */
  readonly places: readonly Places[];
  /** The run of an earlier redelivery of the same delivery; undefined if there was none. */
  findRedelivery(call: Call): Ask<string | null | undefined>;
  findNonce(call: Call): Ask<NonceUse | undefined>;
  findKey(call: Call): Ask<FirstUse | undefined>;
  /** The run of the first delivery of the event, unless that has expired. */
  findEvent(call: Call): Ask<string | undefined>;
  /** Answers the steps that wait for the delivery, and keeps it for later ones; yields how many it answered. Writes. */
  answer(call: Call): Ask<number>;
  keepRedelivery(call: Call, runId: string): void;
  keepNonce(call: Call, runId: string | null): void;
  keepKey(call: Call, runId: string): void;
  keepEvent(call: Call, runId: string): void;
  keepDelivery(call: Call, plan: RecordPlan): void;
  readonly count: Port['count'];
  /** A run that has to wait for its turn gets neither steps nor a deadline. */
  keepRun(call: Call, started: { readonly pins: Pins | undefined; readonly isWaiting: boolean }): void;
}

export interface FlowRows {
  /** A flow, which does not change until the transaction ends; undefined if it was never deployed. */
  shareFlow(flowId: string): Ask<(FlowSwitches & { readonly revision: number }) | undefined>;
}

export const sharingFlowRows = (port: Port): FlowRows => ({
  *shareFlow(flowId) {
    return (yield* shareFlows(port, [flowId])).get(flowId);
  },
});

/** A delivery at one of its triggers. */
export interface Member<Call extends Candidate> {
  readonly call: Call;
  readonly start: SharedAcceptance['start'];
  /** Set if its run starts later. */
  readonly held?: Held | undefined;
}

/** What a delivery led to at one trigger. */
export interface Outcome {
  readonly kind: 'accepted' | 'held' | 'answered' | 'coalesced' | 'duplicate' | 'filtered' | 'closed';
  readonly runId: string | null;
  /** How many steps it answered. */
  readonly answered?: number;
  /** Its run waits for its turn. */
  readonly isWaiting?: true;
  /** Set if it shares a run with others. */
  readonly place?: Place;
}

/** What a delivery led to at all of its triggers, in their order. */
interface Claimed {
  readonly kind: 'claimed';
  readonly outcomes: readonly Outcome[];
  readonly isReplay: boolean;
  /** The run of an idempotency key that one of the triggers knows. */
  readonly ofKey: string | undefined;
  /** False for a redelivery that is filtered or closed everywhere: nothing is stored. */
  readonly isKept: boolean;
}

type Refusal = Extract<AcceptResult, { kind: 'replayed' | 'conflict' }>;
type Repetition = { readonly kind: 'repeated'; readonly runId: string | null };

/** The limit of held deliveries, used only for a delivery that is to be held. */
export interface HeldLimit {
  readonly port: Port;
  readonly bounds: Bounds;
}

/** Turns a delivery into a run, or yields why not. */
export function* accept<Call extends Candidate>(rows: AcceptanceRows<Call>, call: Call): Decision<AcceptResult> {
  if (!(yield* mayStart(rows, call))) return { kind: 'outdated' };
  const result = yield* claim(rows, [{ call, start: 'now' }]);
  if (result === 'full') throw new Error('A delivery was held that starts its run now.');
  if (result.kind !== 'claimed') return alone(result);
  const { outcome, isReplay } = keepAlone(rows, call, result);
  if (outcome.kind === 'filtered') return { kind: 'filtered', isReplay };
  if (outcome.kind === 'answered') return { kind: 'answered', runId: null, answered: outcome.answered ?? 0, isReplay };
  const { isWaiting, place } = outcome;
  if (outcome.kind === 'duplicate') return { kind: 'duplicate', runId: outcome.runId, isReplay };
  const runId = outcome.runId ?? call.runId;
  if (outcome.kind !== 'coalesced') return { kind: 'accepted', runId, isReplay, ...(isWaiting && { isWaiting }) };
  return { kind: 'coalesced', runId, isReplay, startsNow: place?.startsNow === true };
}

/**
 * Whether a run is of the newest revision of its flow and the flow starts runs now: both may have changed since the run
 * was planned, in this process or in another. A flow never deployed cannot differ; an answer to steps starts no run.
 */
export function* mayStart(
  rows: FlowRows,
  { flowId, revision, signal }: Pick<Candidate, 'flowId' | 'revision'> & Partial<Pick<Candidate, 'signal'>>,
): Decision<boolean> {
  const flow = yield* rows.shareFlow(flowId);
  return flow === undefined || (flow.revision === revision && (signal !== undefined || whyClosed(flow) === undefined));
}

export const alone = (result: Refusal | Repetition): Refusal | Extract<AcceptResult, { kind: 'duplicate' }> =>
  result.kind === 'repeated' ? { kind: 'duplicate', runId: result.runId, isReplay: false } : result;

/** Stores the record of a delivery to one trigger, with the outcome there. */
export function keepAlone<Call extends Candidate>(
  rows: AcceptanceRows<Call>,
  call: Call,
  { outcomes: [outcome], isReplay, isKept }: Claimed,
): { readonly outcome: Outcome; readonly isReplay: boolean } {
  if (outcome === undefined) throw new Error('A delivery has no trigger.');
  const { kind, runId } = outcome;
  if (isKept) keepRecord(rows, call, { runId, isReplay, outcome: recordedOutcome(kind, call) });
  return { outcome, isReplay };
}

/** Undefined if the delivery's own run starts, now or later. */
export function recordedOutcome(kind: Outcome['kind'], { signal }: Candidate): DeliveryOutcome | undefined {
  if (kind === 'answered' && signal?.key !== undefined) return kind;
  if (kind === 'duplicate' || kind === 'coalesced') return kind;
  return kind === 'filtered' || kind === 'closed' ? 'filtered' : undefined;
}

export function keepRecord<Call extends Candidate>(rows: AcceptanceRows<Call>, call: Call, plan: RecordPlan): void {
  // If it answers steps, it is kept, like its event, with the run that it did not start.
  const runId = call.signal === undefined ? plan.runId : call.runId;
  if (call.redeliveredFrom !== null && runId !== null) rows.keepRedelivery(call, runId);
  if (call.record !== undefined) rows.keepDelivery(call, plan);
}

/**
 * The order of decisions: the first that applies gives the answer. All names are looked up before any is kept, so that
 * a refused delivery leaves nothing behind, and every row names the same run as the answer. A nonce or an idempotency
 * key that one of several triggers knows counts for all. Every trigger keeps the nonce, whatever the outcome there:
 * whichever of them has the address later, it knows every repetition.
 */
export function* claim<Call extends Candidate>(
  rows: AcceptanceRows<Call>,
  members: readonly Member<Call>[],
  limit?: HeldLimit,
): Decision<Claimed | Refusal | Repetition | 'full'> {
  const redelivered = members.find(({ call }) => call.redeliveredFrom !== null)?.call;
  const repeated = redelivered && (yield* rows.findRedelivery(redelivered));
  if (repeated !== undefined) {
    const startsNone = members.every(({ call }) => call.signal !== undefined);
    return { kind: 'repeated', runId: startsNone ? null : repeated };
  }

  const checks: NameCheck[] = [];
  const refusals: Refusal[] = [];
  for (const { call } of members) {
    const check = yield* askNames(rows, call);
    if (check.kind === 'checked') checks.push(check);
    else refusals.push(check);
  }
  const refusal = refusals.find(({ kind }) => kind === 'replayed') ?? refusals[0];
  // If the nonce has a run at any of the triggers, the answer names that run.
  if (refusal?.kind === 'replayed') return refusals.find(isReplayWithRun) ?? refusal;
  if (refusal !== undefined) return refusal;

  const isReplay = checks.some((check) => check.isReplay);
  const ofKey = checks.find((check) => check.ofKey !== undefined)?.ofKey;
  const outcomes: Outcome[] = [];
  for (const [at, member] of members.entries()) {
    outcomes.push(yield* decideOutcome(rows, member, { isKeyed: ofKey !== undefined, ofKey: checks[at]?.ofKey }));
  }
  const isKept = redelivered === undefined || outcomes.some(({ kind }) => kind !== 'filtered' && kind !== 'closed');
  if (!isKept) return { kind: 'claimed', outcomes, isReplay, ofKey, isKept };
  for (const [at, { held }] of members.entries()) {
    if (held === undefined || limit === undefined || !startsLater(outcomes[at])) continue;
    if (!(yield* holding.fits(limit.port, held, limit.bounds))) return 'full';
  }
  for (const [at, member] of members.entries()) {
    const outcome = outcomes[at];
    if (outcome === undefined) continue;
    outcomes[at] = yield* keep(rows, member, { outcome, nonce: checks[at]?.nonce, isReplay, limit });
  }
  return { kind: 'claimed', outcomes, isReplay, ofKey, isKept };
}

const isReplayWithRun = ({ kind, runId }: Refusal) => kind === 'replayed' && runId !== null;

const startsLater = (outcome: Outcome | undefined) => outcome?.kind === 'held' || outcome?.kind === 'coalesced';

/** Facts about a delivery's names: the first use of its nonce, and the run of its key. */
interface NameCheck {
  readonly kind: 'checked';
  readonly nonce: NonceUse | undefined;
  /** The nonce is known, but that does not refuse the delivery. */
  readonly isReplay: boolean;
  readonly ofKey: string | undefined;
}

/** Looks up nonce and idempotency key; yields a refusal, or the facts about them. */
function* askNames<Call extends Candidate>(rows: AcceptanceRows<Call>, call: Call): Decision<NameCheck | Refusal> {
  const { redeliveredFrom, nonce, idempotencyKey } = call;
  const found = nonce?.isAsked === true ? yield* rows.findNonce(call) : undefined;
  // A redelivery by a person may start the run that a filter prevented.
  const isKnown = found !== undefined && (found.runId !== null || redeliveredFrom === null);
  if (isKnown && nonce?.isEnforced === true) {
    return { kind: 'replayed', runId: found.runId, hasSameBody: found.bodySha256 === nonce.bodySha256 };
  }
  const first = idempotencyKey === null ? undefined : yield* rows.findKey(call);
  if (first !== undefined && first.bodySha256 !== call.bodySha256) return { kind: 'conflict', runId: first.runId };
  return { kind: 'checked', nonce: isKnown ? found : undefined, isReplay: isKnown, ofKey: first?.runId };
}

/** Decides the outcome at one trigger. A key that another trigger knows makes the delivery a repetition here too. */
function* decideOutcome<Call extends Candidate>(
  rows: AcceptanceRows<Call>,
  { call, start }: Member<Call>,
  { isKeyed, ofKey }: { readonly isKeyed: boolean; readonly ofKey: string | undefined },
): Decision<Outcome> {
  if (start === 'never') return { kind: 'closed', runId: null };
  if (isKeyed) return { kind: 'duplicate', runId: ofKey ?? null };
  const ofEvent = call.event === undefined ? undefined : yield* rows.findEvent(call);
  // The event of a delivery that answered steps names a run that never started.
  if (ofEvent !== undefined) return { kind: 'duplicate', runId: call.signal === undefined ? ofEvent : null };
  if (call.isFiltered) return { kind: 'filtered', runId: null };
  if (call.signal !== undefined) return { kind: 'answered', runId: null };
  const kind = start === 'later' ? 'held' : 'accepted';
  if (call.joining === undefined || call.redeliveredFrom !== null) return { kind, runId: call.runId };
  const place = findPlace(rows.places, call, start === 'later');
  if (place === undefined) return { kind, runId: call.runId };
  return { kind: place.runId === call.runId ? kind : 'coalesced', runId: place.runId, place };
}

interface Keeping {
  readonly outcome: Outcome;
  readonly nonce: NonceUse | undefined;
  readonly isReplay: boolean;
  readonly limit: HeldLimit | undefined;
}

/** Stores the names of a delivery at one trigger, its place and its run. */
function* keep<Call extends Candidate>(
  rows: AcceptanceRows<Call>,
  { call, held }: Member<Call>,
  { outcome, nonce, isReplay, limit }: Keeping,
): Decision<Outcome> {
  const { kind, runId, place } = outcome;
  if (call.nonce !== undefined && nonce?.isOwn !== true) rows.keepNonce(call, runId);
  if (kind !== 'closed' && !isReplay && call.redeliveredFrom === null) countUse(rows, call);
  if (kind === 'answered') {
    if (call.event !== undefined) rows.keepEvent(call, call.runId);
    return { ...outcome, answered: yield* rows.answer(call) };
  }
  if (runId === null || kind === 'duplicate') return outcome;
  if (call.idempotencyKey !== null) rows.keepKey(call, runId);
  if (call.event !== undefined) rows.keepEvent(call, runId);
  place?.keep();
  if (held !== undefined && limit !== undefined) {
    holding.keep(limit.port, { ...held, run: { ...held.run, id: runId } }, kind === 'coalesced');
  }
  return kind === 'accepted' ? { ...outcome, ...(yield* startRun(rows, call)) } : outcome;
}

/** Counts the delivery for the key that verified it. */
function countUse({ count }: Pick<AcceptanceRows<Candidate>, 'count'>, call: Candidate): void {
  const { flowId, triggerKey, verifiedBy: keyName, record } = call;
  if (keyName === null || record === undefined) return;
  countKeyUse(count, { flowId, triggerKey, keyName, at: record.receivedAt, id: record.id });
}

/** Stores the run of a delivery; `isWaiting` if it waits for its turn. */
function* startRun<Call extends Candidate>(
  rows: AcceptanceRows<Call>,
  call: Call,
): Decision<{ readonly isWaiting?: true }> {
  const { pins } = yield* withPins(rows, call);
  const isWaiting = (yield* joinPlace(rows, { ...call, id: call.runId })) === true;
  rows.keepRun(call, { pins, isWaiting });
  return isWaiting ? { isWaiting } : {};
}

/** Changes to the record of a delivery that is a replay, if replays are not enforced. */
export function asReplay({
  reason,
  violations,
}: Pick<DeliveryRecord, 'reason' | 'violations'>): Pick<DeliveryRecord, 'rejected' | 'reason' | 'violations'> {
  return { rejected: true, reason: reason ?? 'nonce_replayed', violations: [...violations, 'nonce_replayed'] };
}
