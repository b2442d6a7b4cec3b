import type { Candidate, HoldResult } from '../store.ts';
import { type AcceptanceRows, alone, claim, keepAlone } from './acceptance.ts';
import type { Ask, Decision } from './decision.ts';
import type { Bounds } from './kept-sizes.ts';
import { insertKeys } from './new-runs.ts';
import type { Held } from './placer.ts';
import { holding } from './placing.ts';
import type { Port } from './port.ts';

interface Holding<Call extends Candidate> {
  readonly held: Held;
  readonly bounds: Bounds;
  /** Called after the flow is locked: names are claimed in this order everywhere. */
  rowsOf(): Ask<AcceptanceRows<Call>>;
}

/** Holds a delivery until its flow starts runs; 'full' if the limit of held deliveries is reached. */
export function* hold<Call extends Candidate>(
  port: Port,
  call: Call,
  { held, bounds, rowsOf }: Holding<Call>,
): Decision<HoldResult | 'full'> {
  const kind = yield* holding.admit(port, call);
  if (kind !== 'held') return { kind };
  const rows = yield* rowsOf();
  const result = yield* claim(rows, [{ call, start: 'later', held }], { port, bounds });
  if (result === 'full') return result;
  if (result.kind !== 'claimed') return alone(result);
  const { outcome, isReplay } = keepAlone(rows, call, result);
  if (outcome.kind === 'held') keepHeldKeys(port, held);
  if (outcome.kind === 'filtered') return { kind: 'filtered', isReplay };
  return { kind: outcome.kind === 'duplicate' ? 'duplicate' : kind, runId: outcome.runId ?? call.runId, isReplay };
}

/** Stores search keys with the record of a held delivery: its run, which will have them, does not exist yet. */
export function keepHeldKeys(port: Port, { run, keys }: Held): void {
  if (run.delivery_id !== null) insertKeys(port, 'delivery', { id: run.delivery_id, keys });
}
