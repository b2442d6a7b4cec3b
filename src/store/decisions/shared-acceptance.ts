import type { DeliveryShare } from '../../model/delivery.ts';
import type { AcceptResult, SharedAcceptance, SharedFate, SharedResult } from '../store.ts';
import {
  type AcceptanceRows,
  askEvent,
  askNames,
  type Candidate,
  type FlowRows,
  type Known,
  keepNonce,
  mayStart,
  startRun,
} from './acceptance.ts';
import type { Ask, Decision } from './decision.ts';
import type { Port } from './port.ts';
import { fitsHeld, type Held, holdOf, insertHeld } from './release.ts';
import type { Bounds } from './removal.ts';

/** A delivery at one of the triggers that share it. */
export interface SharedCall<Call extends Candidate> {
  readonly call: Call;
  readonly start: SharedAcceptance['start'];
  /** An expression of the trigger failed. */
  readonly isUnevaluated: boolean;
  /** Of one whose run starts later. */
  readonly held?: Held | undefined;
}

interface Sharing<Call extends Candidate> {
  readonly port: Port;
  readonly flows: FlowRows;
  readonly bounds: Bounds;
  /** They are asked for after the flows are locked, as for a delivery that is held. */
  rowsOf(): Ask<AcceptanceRows<Call>>;
}

/**
 * Takes one delivery to several triggers, in the order of their flows' ids: for each what it would be alone, but that a nonce or
 * an idempotency key that one of them knows counts for all. Every trigger keeps the nonce, whatever becomes of it there:
 * whichever of them has the slug later, no repetition is new to it.
 */
export function* acceptShared<Call extends Candidate>(
  members: readonly SharedCall<Call>[],
  { port, flows, bounds, rowsOf }: Sharing<Call>,
): Decision<SharedResult | 'full'> {
  for (const { call, start } of members) {
    const isOutdated =
      start === 'later' ? (yield* holdOf(port, call)) !== 'held' : start === 'now' && !(yield* mayStart(flows, call));
    if (isOutdated) return { kind: 'outdated', flowId: call.flowId };
  }
  const rows = yield* rowsOf();
  const [first] = members;
  const repeated = first === undefined ? undefined : yield* findRepeated(rows, first.call);
  if (repeated !== undefined) return { kind: 'repeated', runId: repeated };

  const known: Known[] = [];
  const refusals = [];
  for (const { call } of members) {
    const asked = yield* askNames(rows, call);
    if (asked.kind === 'known') known.push(asked);
    else refusals.push(asked);
  }
  const refusal = refusals.find(({ kind }) => kind === 'replayed') ?? refusals[0];
  if (refusal !== undefined) return refusal.kind === 'replayed' ? withRun(refusals, refusal) : refusal;
  const isKeyed = known.some(({ ofKey }) => ofKey !== undefined);
  const isReplay = known.some((each) => each.isReplay);
  const fates: SharedFate[] = [];
  for (const [at, { call, start }] of members.entries()) {
    fates.push({ ...triggerOf(call), ...(yield* fateOf(rows, { call, start, isKeyed, ofKey: known[at]?.ofKey })) });
  }
  const ofKey = known.find((each) => each.ofKey !== undefined)?.ofKey ?? null;
  const lead = leadOf(fates, ofKey);
  const startsNone = lead.kind === 'filtered' || lead.kind === 'closed';
  if (startsNone && first?.call.redeliveredFrom !== null)
    return { kind: 'shared', fates, lead: lead.at, runId: lead.runId, isReplay };
  for (const { held } of members.filter((_, at) => fates[at]?.kind === 'held')) {
    if (held !== undefined && !(yield* fitsHeld(port, held, bounds))) return 'full';
  }
  for (const [at, { call, held }] of members.entries()) {
    const fate = fates[at];
    if (fate === undefined) continue;
    keepNonce(rows, call, { known: known[at]?.nonce, runId: fate.runId });
    const counts = call.verifiedBy !== null && fate.kind !== 'closed' && !isReplay && call.redeliveredFrom === null;
    if (counts) rows.countKeyUse(call);
    if (fate.kind !== 'accepted' && fate.kind !== 'held') continue;
    if (call.idempotencyKey !== null) rows.keepKey(call, call.runId);
    if (call.event !== undefined) rows.keepEvent(call, call.runId);
    if (fate.kind === 'accepted') fates[at] = { ...fate, ...(yield* startRun(rows, call)) };
    else if (held !== undefined) insertHeld(port, held, false);
  }
  const leading = members[lead.at];
  if (leading !== undefined) keepShared(rows, leading.call, { members, fates, lead, isReplay });
  return { kind: 'shared', fates, lead: lead.at, runId: lead.runId, isReplay };
}

const triggerOf = ({ flowId, triggerKey }: Candidate) => ({ flowId, triggerKey });

function* findRepeated<Call extends Candidate>(rows: AcceptanceRows<Call>, call: Call): Decision<string | undefined> {
  return call.redeliveredFrom === null ? undefined : yield* rows.findRedelivery(call);
}

/** A nonce that names a run at any of the triggers names it for the answer. */
function withRun(
  refusals: readonly { readonly kind: string; readonly runId: string | null }[],
  refusal: Extract<AcceptResult, { kind: 'replayed' }>,
): Extract<AcceptResult, { kind: 'replayed' }> {
  const named = refusals.find(({ kind, runId }) => kind === 'replayed' && runId !== null);
  return { ...refusal, runId: named?.runId ?? null };
}

/** What becomes of the delivery at one trigger. A key that another one knows makes it a repetition here too. */
function* fateOf<Call extends Candidate>(
  rows: AcceptanceRows<Call>,
  {
    call,
    start,
    isKeyed,
    ofKey,
  }: Pick<SharedCall<Call>, 'call' | 'start'> & { isKeyed: boolean; ofKey?: string | undefined },
): Decision<Pick<SharedFate, 'kind' | 'runId'>> {
  if (start === 'never') return { kind: 'closed', runId: null };
  if (isKeyed) return { kind: 'duplicate', runId: ofKey ?? null };
  const ofEvent = yield* askEvent(rows, call);
  if (ofEvent !== undefined) return { kind: 'duplicate', runId: ofEvent };
  if (call.isFiltered) return { kind: 'filtered', runId: null };
  return { kind: start === 'later' ? 'held' : 'accepted', runId: call.runId };
}

/** From what the record says of the delivery to what only others of its triggers say. */
const LEADING = ['accepted', 'held', 'duplicate', 'filtered', 'closed'] as const;

/** The fate that the record and the answer have: the first run that starts, else the first that will, else what it repeats. */
function leadOf(fates: readonly SharedFate[], ofKey: string | null): SharedFate & { readonly at: number } {
  const rank = ({ kind, runId }: SharedFate) =>
    LEADING.indexOf(kind) + (kind === 'duplicate' && runId === null ? 0.5 : 0);
  const [lead] = fates
    .map((fate, at) => ({ ...fate, at }))
    .sort((one, other) => rank(one) - rank(other) || one.at - other.at);
  if (lead === undefined) throw new Error('A shared delivery has no trigger.');
  // What only another trigger knows it by names the run all the same.
  return lead.kind === 'duplicate' && lead.runId === null ? { ...lead, runId: ofKey } : lead;
}

/** The record of a shared delivery is that of the trigger whose fate leads. */
function keepShared<Call extends Candidate>(
  rows: AcceptanceRows<Call>,
  call: Call,
  {
    members,
    fates,
    lead,
    isReplay,
  }: {
    readonly members: readonly SharedCall<Call>[];
    readonly fates: readonly SharedFate[];
    readonly lead: ReturnType<typeof leadOf>;
    readonly isReplay: boolean;
  },
): void {
  const shares = fates.map(({ kind, flowId, triggerKey, runId }, at): DeliveryShare => {
    const isOwn = kind === 'accepted' || kind === 'held';
    return {
      flowId,
      triggerKey,
      runId,
      outcome: isOwn ? (members[at]?.isUnevaluated === true ? 'unevaluated' : null) : kind,
    };
  });
  const own = shares[lead.at];
  const outcome =
    lead.kind === 'duplicate' ? 'duplicate' : lead.kind === 'accepted' || lead.kind === 'held' ? undefined : 'filtered';
  if (call.redeliveredFrom !== null && lead.runId !== null) rows.keepRedelivery(call, lead.runId);
  const others = shares.filter((_, at) => at !== lead.at);
  rows.keepDelivery(call, {
    runId: lead.runId,
    isReplay,
    outcome,
    shares: own === undefined ? others : [own, ...others],
  });
}
