import { type Group, joinGroup, openGroup } from '../../model/coalescing.ts';
import type { DeliveryOutcome, DeliveryRecord, DeliveryShare } from '../../model/delivery.ts';
import { readGateResults } from '../new-rows.ts';
import type { AcceptResult, EventClaim, HoldResult, NewRun, NonceClaim, Pins } from '../store.ts';
import type { Coalescing } from './coalescing.ts';
import type { Ask, Decision } from './decision.ts';
import { shareFlows } from './flows.ts';
import { listTriggerKeys } from './nonce-names.ts';
import { joinOrder } from './order.ts';
import type { OrderRows } from './order-rows.ts';
import { type Port, sql } from './port.ts';
import { fitsHeld, type Held, holdOf, insertHeld } from './release.ts';
import type { Bounds } from './removal.ts';
import { type PinRows, whyClosed, withPins } from './sub-runs.ts';
import type { Verbs } from './verb.ts';

/** What decides an acceptance. A backend's calls have the rows to store besides. */
export interface Candidate extends Pick<NewRun, 'subFlows' | 'pins' | 'order' | 'sourceRunId'> {
  /** The run that starts if nothing else answers. */
  readonly runId: string;
  readonly flowId: string;
  readonly triggerKey: string;
  readonly revision: number;
  readonly hasDelivery: boolean;
  readonly redeliveredFrom: string | null;
  readonly nonce: NonceClaim | undefined;
  readonly idempotencyKey: string | null;
  /** Hex SHA-256 of the body; read only where there is an idempotency key. */
  readonly bodySha256: string;
  readonly event: EventClaim | undefined;
  readonly verifiedBy: string | null;
  readonly isFiltered: boolean;
  /** Undefined where it shares a run with no other. */
  readonly coalescing: Coalescing | undefined;
}

/** The first use of an idempotency key, or of a nonce that has not expired: without a run where that was filtered. */
export interface FirstUse<RunId = string> {
  readonly runId: RunId;
  readonly bodySha256: string;
}

/** The first use of a nonce under its own name, or under another that counts as well. */
export interface NonceUse extends FirstUse<string | null> {
  readonly isOwn: boolean;
}

/** How a delivery is kept. */
interface Kept {
  /** Another run than the candidate's, or none, has neither its bytes nor its search keys: they are stored with the delivery. */
  readonly runId: string | null;
  readonly isReplay: boolean;
  /** Undefined where it is as its record says. */
  readonly outcome: DeliveryOutcome | undefined;
  /** Of a delivery to several triggers. */
  readonly shares?: readonly DeliveryShare[];
}

/**
 * The rows of acceptances in one transaction, under the candidate's trigger and its former keys.
 *
 * A name is a nonce, an idempotency key, an event or the delivery that is repeated. What is not found under a name no other
 * transaction finds or keeps before the end of this one: of two replicas that ask at once, one waits for the other.
 */
export interface AcceptanceRows<Call extends Candidate> extends FlowRows, PinRows, OrderRows {
  /** The run that an earlier redelivery of the same delivery belongs to. */
  findRedelivery(call: Call): Ask<string | undefined>;
  findNonce(call: Call): Ask<NonceUse | undefined>;
  findKey(call: Call): Ask<FirstUse | undefined>;
  /** The run of the first delivery of its event, unless that has expired. */
  findEvent(call: Call): Ask<string | undefined>;
  /** The run that waits for more deliveries of its key. */
  findGroup(call: Call): Ask<Group | undefined>;
  keepRedelivery(call: Call, runId: string): void;
  keepNonce(call: Call, runId: string | null): void;
  keepKey(call: Call, runId: string): void;
  keepEvent(call: Call, runId: string): void;
  keepGroup(call: Call, group: Group): void;
  keepDelivery(call: Call, kept: Kept): void;
  /** Counts the delivery for the key that verified it. */
  countKeyUse(call: Call): void;
  /** A run that has to wait for its turn has neither steps nor a deadline. */
  keepRun(call: Call, started: { readonly pins: Pins | undefined; readonly isWaiting: boolean }): void;
}

export interface FlowRows {
  /** A flow, which stays as it is until the transaction ends; undefined where it was never deployed. */
  shareFlow(flowId: string): Ask<{ readonly revision: number; readonly isOpen: boolean } | undefined>;
}

export const sharingFlowRows = (port: Port): FlowRows => ({
  *shareFlow(flowId) {
    const flow = (yield* shareFlows(port, [flowId])).get(flowId);
    return flow && { revision: flow.revision, isOpen: whyClosed(flow) === undefined };
  },
});

/** Turns a delivery into a run, or says why not. */
export function* accept<Call extends Candidate>(rows: AcceptanceRows<Call>, call: Call): Decision<AcceptResult> {
  if (!(yield* mayStart(rows, call))) return { kind: 'outdated' };
  const result = yield* claim(rows, call, false);
  if (result.kind !== 'accepted') return result;
  return { ...result, ...(yield* startRun(rows, call)) };
}

/** Stores the run of a delivery; `isWaiting` where it waits for its turn. */
export function* startRun<Call extends Candidate>(
  rows: AcceptanceRows<Call>,
  call: Call,
): Decision<{ readonly isWaiting?: true }> {
  const { pins } = yield* withPins(rows, call);
  const isWaiting = yield* joinOrder(rows, { ...call, id: call.runId });
  rows.keepRun(call, { pins, isWaiting });
  return isWaiting ? { isWaiting } : {};
}

/**
 * Whether a run is of the newest revision of its flow and the flow starts runs now: both may have changed since the run
 * was planned, in this process or in another. A flow that was never deployed cannot differ.
 */
export function* mayStart(
  rows: FlowRows,
  { flowId, revision }: Pick<Candidate, 'flowId' | 'revision'>,
): Decision<boolean> {
  const flow = yield* rows.shareFlow(flowId);
  return flow === undefined || (flow.revision === revision && flow.isOpen);
}

interface Holding<Call extends Candidate> {
  readonly held: Held;
  readonly bounds: Bounds;
  /** They are asked for after the flow is locked: names are claimed in this order everywhere. */
  rowsOf(): Ask<AcceptanceRows<Call>>;
}

/** Keeps a delivery until its flow starts runs; 'full' where no more may be kept. */
export function* hold<Call extends Candidate>(
  port: Port,
  call: Call,
  { held, bounds, rowsOf }: Holding<Call>,
): Decision<HoldResult | 'full'> {
  const kind = yield* holdOf(port, call);
  if (kind !== 'held') return { kind };
  const rows = yield* rowsOf();
  if (!(yield* fitsHeld(port, held, bounds))) return 'full';
  const result = yield* claim(rows, call, true);
  if (result.kind !== 'accepted' && result.kind !== 'coalesced') return result;
  const { runId, isReplay } = result;
  insertHeld(port, { ...held, run: { ...held.run, id: runId } }, result.kind === 'coalesced');
  return { kind, runId, isReplay };
}

/**
 * The order of decisions: the first that applies answers. All names are asked for before any is kept, so that what
 * refuses a delivery leaves nothing behind, and every row names the run that the answer names.
 */
function* claim<Call extends Candidate>(
  rows: AcceptanceRows<Call>,
  call: Call,
  isHeld: boolean,
): Decision<Exclude<AcceptResult, { kind: 'outdated' }>> {
  const { redeliveredFrom, idempotencyKey, event, verifiedBy, coalescing } = call;

  const repeated = redeliveredFrom === null ? undefined : yield* rows.findRedelivery(call);
  if (repeated !== undefined) return { kind: 'duplicate', runId: repeated, isReplay: false };

  const asked = yield* askNames(rows, call);
  if (asked.kind !== 'known') return asked;
  const { nonce: known, isReplay } = asked;
  const firstRunId = asked.ofKey ?? (yield* askEvent(rows, call));

  const isFiltered = firstRunId === undefined && call.isFiltered;
  if (isFiltered && redeliveredFrom !== null) return { kind: 'filtered', isReplay };

  const mayJoin = firstRunId === undefined && !isFiltered && redeliveredFrom === null;
  const own = { runId: call.runId, revision: call.revision, isHeld };
  const open = mayJoin && coalescing !== undefined ? yield* rows.findGroup(call) : undefined;
  const joined = open && coalescing && joinGroup(open, coalescing, own);

  const runId = firstRunId ?? joined?.runId ?? call.runId;
  const keptRunId = isFiltered ? null : runId;
  const outcome = firstRunId !== undefined ? 'duplicate' : isFiltered ? 'filtered' : joined && 'coalesced';
  if (redeliveredFrom !== null) rows.keepRedelivery(call, runId);
  keepNonce(rows, call, { known, runId: keptRunId });
  if (call.hasDelivery) rows.keepDelivery(call, { runId: keptRunId, isReplay, outcome });
  if (verifiedBy !== null && call.hasDelivery && !isReplay && redeliveredFrom === null) rows.countKeyUse(call);
  if (isFiltered) return { kind: 'filtered', isReplay };
  if (firstRunId !== undefined) return { kind: 'duplicate', runId, isReplay };
  if (idempotencyKey !== null) rows.keepKey(call, runId);
  if (event !== undefined) rows.keepEvent(call, runId);
  if (!mayJoin || coalescing === undefined) return { kind: 'accepted', runId, isReplay };
  const { at } = coalescing;
  const group = joined ?? openGroup(coalescing, own);
  if (joined !== undefined || group.dueAt > at) rows.keepGroup(call, group);
  if (joined === undefined) return { kind: 'accepted', runId, isReplay };
  return { kind: 'coalesced', runId, isReplay, startsNow: group.dueAt <= at };
}

/** What is known of a delivery's names: the first use of its nonce, and the run of its key. */
export interface Known {
  readonly kind: 'known';
  readonly nonce: NonceUse | undefined;
  /** The nonce is known, and that refuses nothing. */
  readonly isReplay: boolean;
  readonly ofKey: string | undefined;
}

/** Asks for nonce and idempotency key: what refuses a delivery, or what is known of them. */
export function* askNames<Call extends Candidate>(
  rows: AcceptanceRows<Call>,
  call: Call,
): Decision<Known | Extract<AcceptResult, { kind: 'replayed' | 'conflict' }>> {
  const { redeliveredFrom, nonce, idempotencyKey } = call;
  const found = nonce?.isAsked === true ? yield* rows.findNonce(call) : undefined;
  // What a person delivers again may start the run that a filter kept from starting.
  const isKnown = found !== undefined && (found.runId !== null || redeliveredFrom === null);
  if (isKnown && nonce?.isEnforced === true) {
    return { kind: 'replayed', runId: found.runId, hasSameBody: found.bodySha256 === nonce.bodySha256 };
  }
  const first = idempotencyKey === null ? undefined : yield* rows.findKey(call);
  if (first !== undefined && first.bodySha256 !== call.bodySha256) return { kind: 'conflict', runId: first.runId };
  return { kind: 'known', nonce: isKnown ? found : undefined, isReplay: isKnown, ofKey: first?.runId };
}

export function* askEvent<Call extends Candidate>(
  rows: AcceptanceRows<Call>,
  call: Call,
): Decision<string | undefined> {
  return call.event === undefined ? undefined : yield* rows.findEvent(call);
}

export function keepNonce<Call extends Candidate>(
  rows: AcceptanceRows<Call>,
  call: Call,
  { known, runId }: { readonly known: NonceUse | undefined; readonly runId: string | null },
): void {
  if (call.nonce !== undefined && known?.isOwn !== true) rows.keepNonce(call, runId);
}

/** What a replay that is not enforced changes in the record of its delivery. */
export function asReplay({
  reason,
  violations,
}: Pick<DeliveryRecord, 'reason' | 'violations'>): Pick<DeliveryRecord, 'rejected' | 'reason' | 'violations'> {
  return { rejected: true, reason: reason ?? 'nonce_replayed', violations: [...violations, 'nonce_replayed'] };
}

/** Records that name the nonce somewhere are read a few at a time: nearly always the first is the one. */
const READ_RECORDS = 20;

export const acceptanceVerbs: Verbs<'findAcceptedNonce'> = {
  findAcceptedNonce: {
    access: 'log',
    *decide(port, { flowId, triggerKey, nonce, since }) {
      const [keys = []] = yield* listTriggerKeys(port, [{ flowId, triggerKey }]);
      for (const key of keys) {
        const until = key.reusedAt ?? Number.MAX_SAFE_INTEGER;
        for (let after = '00000000-0000-0000-0000-000000000000'; ; ) {
          // Parsed here: PostgreSQL's JSON functions refuse an escaped NUL anywhere in a text.
          const rows = yield* port.all<{ id: string; runId: string; gateResults: string }>(sql`
            SELECT id, run_id AS "runId", gate_results AS "gateResults" FROM sluice.deliveries
            WHERE flow_id = ${key.flowId} AND trigger_key = ${key.triggerKey} AND received_at >= ${since}
              AND received_at < ${until} AND run_id IS NOT NULL
              AND strpos(gate_results, ${JSON.stringify(nonce)}) > 0 AND id > ${after}
            ORDER BY id LIMIT ${READ_RECORDS}`);
          const found = rows.find(({ gateResults }) =>
            readGateResults(gateResults).some(({ facts }) => facts.nonce === nonce),
          );
          if (found !== undefined) return found.runId;
          const last = rows.at(-1);
          if (last === undefined || rows.length < READ_RECORDS) break;
          after = last.id;
        }
      }
      return undefined;
    },
  },
};
