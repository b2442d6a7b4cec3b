import type { Database } from 'better-sqlite3';
import type { SlotWait, SlotWaits } from '../store.ts';
import { limitReached, ORDINARY, prepareListFlowTurns } from './turns.ts';

// Counting reads a row for each step: what is counted costs a few milliseconds, and a million would take a second.
const COUNTED_OF_LANE = 1000;
const COUNTED = 10_000;

export function prepareListSlotWaits(db: Database): (query: { now: number; dueBefore: number }) => SlotWaits {
  const listFlowTurns = prepareListFlowTurns(db);
  const countDue = db.prepare<[string, string, number, number], { count: number }>(`
    SELECT count(*) AS count FROM (
      SELECT 1 FROM steps
      WHERE ${ORDINARY} AND status = 'Pending' AND flow_id = ? AND step_type = ? AND due_at <= ? LIMIT ?)`);
  // A suspect that holds no lease waits itself.
  const findAlone = db.prepare<[number], { runId: string; stepKey: string }>(`
    SELECT run_id AS runId, step_key AS stepKey FROM steps
    WHERE due_at > ? AND deaths >= 2 AND status = 'Running' AND lease_token IS NOT NULL ORDER BY due_at LIMIT 1`);
  return ({ now, dueBefore }) => {
    const { flows, running } = listFlowTurns(now);
    const alone = findAlone.get(now) ?? null;
    const waits = new Map<string, SlotWait>();
    let budget = COUNTED;
    for (const flow of flows) {
      for (const lane of flow.lanes) {
        if (lane.status === 'Running' || lane.dueAt > dueBefore) continue;
        const { flowId, stepType, dueAt } = lane;
        const most = Math.max(1, Math.min(COUNTED_OF_LANE, budget));
        const found = countDue.get(flowId, stepType, dueBefore, most + 1)?.count ?? 0;
        const count = Math.min(found, most);
        budget -= count;
        const limit = limitReached(flow, lane);
        const key = `${flowId} ${limit === null ? '' : (limit.stepType ?? '*')}`;
        const known = waits.get(key);
        waits.set(key, {
          flowId,
          limit,
          count: count + (known?.count ?? 0),
          isMore: found > most || known?.isMore === true,
          oldestDueAt: Math.min(dueAt, known?.oldestDueAt ?? dueAt),
        });
      }
    }
    return { running: running + Number(alone !== null), alone, waits: [...waits.values()] };
  };
}
