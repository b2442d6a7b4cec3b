import type { Database } from 'better-sqlite3';
import type { DueStep } from '../decisions/claim.ts';
import {
  isFull,
  type Lane,
  type Limits,
  LimitsCache,
  leftOf,
  type RunningLane,
  roomOf,
  slotWaitsOf,
  Turns,
  type Waiting,
  waitingLanes,
  waitingOf,
} from '../decisions/turns.ts';
import type { Claim, ClaimRequest, Store } from '../store.ts';
import type { Member } from './messages.ts';

// CROSS JOIN keeps the index of due steps outermost, so that rows come in its order and only as many as are asked for.
export const DUE_ROWS = `
  SELECT s.run_id AS runId, r.flow_id AS flowId, r.revision, s.step_key AS stepKey, s.step_type AS stepType, s.status,
    s.attempt_count AS attemptCount, s.attempt_base AS attemptBase, s.interruptions, s.deaths,
    s.lone_deaths AS loneDeaths, s.lease_token AS leaseToken, s.wait, s.due_at AS dueAt, r.trigger_key AS triggerKey,
    r.traceparent, r.cancel_requested_at AS cancelRequestedAt, r.timed_out_at AS timedOutAt
  FROM steps s CROSS JOIN runs r ON r.id = s.run_id AND r.status = 'Running'`;

type ClaimBatch = Awaited<ReturnType<Store['claimDue']>>;

/** The steps that the index of due steps holds: all but those that must run alone. */
const ORDINARY = 'due_at IS NOT NULL AND deaths < 2';

/** Makes the function that lets flows take turns until the limit is reached or nothing more may run. */
export function prepareTurns(db: Database): (request: ClaimRequest, lease: (row: DueStep) => Claim) => ClaimBatch {
  const listWaiting = prepareListWaiting(db);
  const listRows = db.prepare<[string, string, string, number], DueStep>(`
    ${DUE_ROWS} WHERE ${ORDINARY} AND s.status = ? AND s.flow_id = ? AND s.step_type = ?
    ORDER BY s.due_at, s.run_id, s.step_key LIMIT ?`);
  const turns = new Turns();

  return ({ now, limit }, lease) => {
    const waiting = listWaiting(now);
    const chunk = Math.ceil(limit / Math.max(1, waiting.lanes)) + 1;
    const read = new Map<Lane, DueStep[]>();
    const claims: Claim[] = [];
    while (claims.length < limit) {
      const next = turns.next(waiting.flows, now);
      if (next === undefined) break;
      const { flow, lane } = next;
      const more = () => listRows.all(lane.status, lane.flowId, lane.stepType, chunk);
      let rows = read.get(lane) ?? more();
      const row = rows.shift();
      if (row !== undefined) {
        claims.push(lease(row));
        turns.take(flow, row.stepType);
        if (rows.length === 0) rows = more();
      }
      read.set(lane, rows);
      const dueAt = rows[0]?.dueAt ?? Number.POSITIVE_INFINITY;
      // After the lapsed leases come those that are still held.
      lane.dueAt = lane.status === 'Running' && dueAt > now ? Number.POSITIVE_INFINITY : dueAt;
    }
    return { claims, ...leftOf(waiting, now) };
  };
}

/** Makes the function that says, as of now, whether one more step of a flow may run, and counts it if so. */
export function prepareRoom(db: Database): (now: number) => (step: { flowId: string; stepType: string }) => boolean {
  const listRunning = prepareListRunning(db);
  const limitsOf = prepareLimitsOf(db);
  return (now) => roomOf(listRunning(now), limitsOf);
}

export function prepareListSlotWaits(db: Database): Member<'listSlotWaits'> {
  const listWaiting = prepareListWaiting(db);
  const countDue = prepareCountDue(db);
  // A suspect without a lease is waiting itself.
  const findAlone = db.prepare<[number], { runId: string; stepKey: string }>(`
    SELECT run_id AS runId, step_key AS stepKey FROM steps
    WHERE due_at > ? AND deaths >= 2 AND status = 'Running' AND lease_token IS NOT NULL ORDER BY due_at LIMIT 1`);
  return ({ now, dueBefore }) => {
    const waiting = listWaiting(now);
    const alone = findAlone.get(now) ?? null;
    const waits = slotWaitsOf(waitingLanes(waiting, dueBefore), (lane, most) => countDue(lane, dueBefore, most));
    return { running: waiting.running + Number(alone !== null), alone, waits };
  };
}

function prepareCountDue(db: Database): (lane: Lane, dueBefore: number, most: number) => number {
  const count = db.prepare<[string, string, number, number], { count: number }>(`
    SELECT count(*) AS count FROM (
      SELECT 1 FROM steps
      WHERE ${ORDINARY} AND status = 'Pending' AND flow_id = ? AND step_type = ? AND due_at <= ? LIMIT ?)`);
  return ({ flowId, stepType }, dueBefore, most) => count.get(flowId, stepType, dueBefore, most)?.count ?? 0;
}

interface DueRuns {
  readonly dueBefore: number;
  readonly flowId: string | undefined;
  readonly limit: number;
}

/** Makes the function that lists runs with a step that wanted a slot by then: of each type of a flow those due last. */
export function prepareListDueRuns(db: Database): (query: DueRuns) => string[] {
  const nextLane = prepareNextLane(db);
  const list = db.prepare<[string, string, number, number], { runId: string }>(`
    SELECT run_id AS runId FROM steps
    WHERE ${ORDINARY} AND status = 'Pending' AND flow_id = ? AND step_type = ? AND due_at <= ?
    ORDER BY due_at DESC LIMIT ?`);
  return ({ dueBefore, flowId, limit }) => {
    const lanes: LaneHead[] = [];
    for (let head = nextLane('', ''); head !== undefined; head = nextLane(head.flowId, head.stepType)) {
      if (head.dueAt <= dueBefore && (flowId ?? head.flowId) === head.flowId) lanes.push(head);
    }
    const ofLane = Math.ceil(limit / Math.max(1, lanes.length));
    const runs = lanes.flatMap((lane) => list.all(lane.flowId, lane.stepType, dueBefore, ofLane));
    return [...new Set(runs.map(({ runId }) => runId))];
  };
}

export function prepareMeasureBacklog(db: Database): Member<'measureBacklog'> {
  const listWaiting = prepareListWaiting(db);
  const countDue = prepareCountDue(db);
  return ({ now, most }) => {
    let dueSteps = 0;
    let oldestDueAt: number | null = null;
    for (const { flow, lane } of waitingLanes(listWaiting(now), now)) {
      if (dueSteps < most) dueSteps += countDue(lane, now, most - dueSteps);
      if (!isFull(flow, lane)) oldestDueAt = Math.min(lane.dueAt, oldestDueAt ?? lane.dueAt);
    }
    return { dueSteps, oldestDueAt };
  };
}

/** Makes the function that lists flows with steps that wait to start, with their limits and what they run. */
function prepareListWaiting(db: Database): (now: number) => Waiting {
  const listRunning = prepareListRunning(db);
  // One seek a lane: the next pair of flow and type after the last one.
  const nextLane = prepareNextLane(db);
  const limitsOf = prepareLimitsOf(db);
  return (now) => {
    const heads: LaneHead[] = [];
    for (let head = nextLane('', ''); head !== undefined; head = nextLane(head.flowId, head.stepType)) heads.push(head);
    return waitingOf({ heads, running: listRunning(now) }, limitsOf);
  };
}

function prepareListRunning(db: Database): (now: number) => RunningLane[] {
  const list = db.prepare<[number, number, number], RunningLane>(`
    SELECT flow_id AS flowId, step_type AS stepType, sum(due_at > ?) AS count,
      min(due_at) FILTER (WHERE due_at <= ?) AS lapsedAt, min(due_at) FILTER (WHERE due_at > ?) AS lapsesAt
    FROM steps WHERE ${ORDINARY} AND status = 'Running' GROUP BY flow_id, step_type`);
  return (now) => list.all(now, now, now);
}

/** The first step of a flow's type that waits to be started. */
type LaneHead = Omit<Lane, 'status'>;

/** Finds the pair of flow and step type that follows another among the steps that wait to be started. */
function prepareNextLane(db: Database): (flowId: string, stepType: string) => LaneHead | undefined {
  const head = `
    SELECT flow_id AS flowId, step_type AS stepType, due_at AS dueAt FROM steps
    WHERE ${ORDINARY} AND status = 'Pending'`;
  // Two seeks, because one by (flow_id, step_type) > (?, ?) reads all steps of the pair that it should skip: with it a
  // claim took 85 ms among a million due steps.
  const findType = db.prepare<[string, string], LaneHead>(
    `${head} AND flow_id = ? AND step_type > ? ORDER BY step_type, due_at LIMIT 1`,
  );
  const findFlow = db.prepare<[string], LaneHead>(
    `${head} AND flow_id > ? ORDER BY flow_id, step_type, due_at LIMIT 1`,
  );
  return (flowId, stepType) => findType.get(flowId, stepType) ?? findFlow.get(flowId);
}

/** What a flow may run at once, by its newest revision: an operator who changes the limit means runs in flight too. */
function prepareLimitsOf(db: Database): (flowId: string) => Limits {
  const findRevision = db.prepare<[string], { revision: number }>('SELECT revision FROM flows WHERE id = ?');
  const findSnapshot = db.prepare<[string, number], { snapshot: string }>(
    'SELECT snapshot FROM revisions WHERE flow_id = ? AND revision = ?',
  );
  const kept = new LimitsCache();
  return (flowId) => {
    const revision = findRevision.get(flowId)?.revision ?? 0;
    return kept.find(flowId, revision) ?? kept.keep(flowId, revision, findSnapshot.get(flowId, revision)?.snapshot);
  };
}
