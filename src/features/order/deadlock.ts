import type { Decision } from '../../store/decisions/decision.ts';
import type { OrderRows } from './rows.ts';

// A run waits for those ahead of it in its lane, and for the sub-runs that its steps wait for. Only a sub-run that somebody
// waits for can close a circle of such waits, when it begins to wait for its turn: so they are looked for then, and there
// alone.

/** Lanes that are looked at: a circle that is longer than all of these is not found. */
const MOST_LANES = 10_000;

interface Wait {
  /** The lane in which a run would wait for its turn. */
  readonly lane: string;
  /** The run with the step that waits for that run. */
  readonly parentRunId: string;
}

/** The run that a run would wait for, and that waits for it, directly or through others; undefined where there is none. */
export function* findDeadlock(rows: OrderRows, { lane, parentRunId }: Wait): Decision<string | undefined> {
  // Nothing waits for a run above that has no lane. Nearly always none of them has one.
  const holders = new Map((yield* rows.listHolders(parentRunId)).map((held) => [held.lane, held.runId]));
  if (holders.size === 0) return undefined;
  // Of two that would close a circle together, the second sees what the first waits for.
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
