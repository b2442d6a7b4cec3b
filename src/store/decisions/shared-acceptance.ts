import type { DeliveryShare } from '../../model/delivery.ts';
import type { Candidate, SharedOutcome, SharedResult } from '../store.ts';
import {
  type AcceptanceRows,
  claim,
  type FlowRows,
  type HeldLimit,
  keepRecord,
  type Member,
  mayStart,
  recordedOutcome,
} from './acceptance.ts';
import type { Ask, Decision } from './decision.ts';
import { keepHeldKeys } from './held-acceptance.ts';
import { holding } from './placing.ts';

interface Sharing<Call extends Candidate> extends HeldLimit {
  readonly flows: FlowRows;
  /** Called after the flows are locked, as for a held delivery. */
  rowsOf(): Ask<AcceptanceRows<Call>>;
}

/**
 * Accepts one delivery to several triggers, in the order of their flows' ids: each as if it were alone, except for
 * names that count for all.
 */
export function* acceptShared<Call extends Candidate>(
  members: readonly Member<Call>[],
  { port, flows, bounds, rowsOf }: Sharing<Call>,
): Decision<SharedResult | 'full'> {
  for (const { call, start } of members) {
    const isOutdated =
      start === 'later'
        ? (yield* holding.admit(port, call)) !== 'held'
        : start === 'now' && !(yield* mayStart(flows, call));
    if (isOutdated) return { kind: 'outdated', flowId: call.flowId };
  }
  const rows = yield* rowsOf();
  const result = yield* claim(rows, members, { port, bounds });
  if (result === 'full' || result.kind !== 'claimed') return result;
  const { isReplay, ofKey, isKept } = result;
  const outcomes = result.outcomes.map(({ kind, ...outcome }, at): SharedOutcome => {
    const call = members[at]?.call;
    if (call === undefined || kind === 'coalesced') throw new Error('A shared delivery joined another one.');
    return { flowId: call.flowId, triggerKey: call.triggerKey, kind, ...outcome };
  });
  const lead = leadOf(outcomes, ofKey ?? null);
  const { call: leading, held } = members[lead.at] ?? {};
  if (isKept && leading !== undefined) {
    const shares = sharesOf(members, outcomes);
    const own = shares.splice(lead.at, 1);
    const outcome = recordedOutcome(lead.kind, leading);
    keepRecord(rows, leading, { runId: lead.runId, isReplay, outcome, shares: [...own, ...shares] });
    if (lead.kind === 'held' && held !== undefined) keepHeldKeys(port, held);
  }
  return { kind: 'shared', outcomes, lead: lead.at, runId: lead.runId, isReplay };
}

/** Most important outcome first; the record shows the first one. */
const LEADING = ['accepted', 'held', 'answered', 'duplicate', 'filtered', 'closed'] as const;

/** The outcome for record and answer: the most important one, and of several such the first. */
function leadOf(outcomes: readonly SharedOutcome[], ofKey: string | null): SharedOutcome & { readonly at: number } {
  const rank = ({ kind, runId }: SharedOutcome) =>
    LEADING.indexOf(kind) + (kind === 'duplicate' && runId === null ? 0.5 : 0);
  const [lead] = outcomes
    .map((outcome, at) => ({ ...outcome, at }))
    .sort((one, other) => rank(one) - rank(other) || one.at - other.at);
  if (lead === undefined) throw new Error('A shared delivery has no trigger.');
  // A delivery whose key only another trigger knows still names that run.
  return lead.kind === 'duplicate' && lead.runId === null ? { ...lead, runId: ofKey } : lead;
}

function sharesOf(members: readonly Member<Candidate>[], outcomes: readonly SharedOutcome[]): DeliveryShare[] {
  return outcomes.map(({ kind, flowId, triggerKey, runId }, at): DeliveryShare => {
    const isOwn = kind === 'accepted' || kind === 'held';
    const isUnevaluated = members[at]?.call.record?.outcome === 'unevaluated' && (isOwn || kind === 'answered');
    const outcome = isUnevaluated ? 'unevaluated' : isOwn ? null : kind;
    return { flowId, triggerKey, runId, outcome };
  });
}
