import type { Decision } from '../../store/decisions/decision.ts';
import type { OrderRows } from './rows.ts';

// A run waits for the runs ahead of it in its lane, and for the sub-runs that its steps wait for. Only an awaited
// sub-run can close a circle of such waits, and only when it begins to wait for its turn; so this is the only place to
// look.

/** Number of lanes examined: longer circles are not found. */
const MOST_LANES = 10_000;

interface Wait {
  /** The lane in which a run would wait for its turn. */
  readonly lane: string;
  /** The run whose step waits for that run. */
  readonly parentRunId: string;
}

/** The run that both blocks the new run and waits for it, directly or through others; undefined if there is none. */
export function* findDeadlock(rows: OrderRows, { lane, parentRunId }: Wait): Decision<string | undefined> {
  // Runs further up without a lane block no other run. Nearly always, none of them has a lane.
  const holders = new Map((yield* rows.listHolders(parentRunId)).map((held) => [held.lane, held.runId]));
  if (holders.size === 0) return undefined;
  // If two transactions would close a circle together, the second sees what the first waits for.
  rows.lockWaits();
  const seen = new Set([lane]);
  for (let lanes = [lane]; lanes.length > 0 && seen.size <= MOST_LANES; ) {
    const circle = lanes.find((each) => holders.has(each));
    if (circle !== undefined) return holders.get(circle);
    lanes = (yield* rows.listAwaitedLanes(lanes)).filter((each) => !seen.has(each));
    for (const each of lanes) seen.add(each);
  }
  return undefined;
}
