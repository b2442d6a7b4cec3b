import type { Database } from 'better-sqlite3';
import { LRUCache } from 'lru-cache';
import type { Graph, RunnableManifest } from '../../model/manifest.ts';
import type { DueStep } from '../decisions/claim.ts';
import type { Claim, ClaimRequest, SlotWait } from '../store.ts';
import type { Member } from './messages.ts';

// CROSS JOIN keeps the index of due steps outermost, so that rows come in its order and only as many as are asked for.
export const DUE_ROWS = `
  SELECT s.run_id AS runId, r.flow_id AS flowId, r.revision, s.step_key AS stepKey, s.step_type AS stepType, s.status,
    s.attempt_count AS attemptCount, s.attempt_base AS attemptBase, s.interruptions, s.deaths,
    s.lone_deaths AS loneDeaths, s.lease_token AS leaseToken, s.wait, s.due_at AS dueAt, r.trigger_key AS triggerKey,
    r.traceparent, r.cancel_requested_at AS cancelRequestedAt, r.timed_out_at AS timedOutAt
  FROM steps s CROSS JOIN runs r ON r.id = s.run_id AND r.status = 'Running'`;

/** The steps that the index of due steps holds: all but those that must run alone. */
const ORDINARY = 'due_at IS NOT NULL AND deaths < 2';

/** A flow's steps of one type that are due or will be, oldest first. */
interface Lane {
  readonly status: 'Pending' | 'Running';
  readonly flowId: string;
  readonly stepType: string;
  /** When its first step is due. */
  dueAt: number;
  readonly rows: DueStep[];
}

interface FlowTurns {
  readonly flowId: string;
  readonly lanes: Lane[];
  readonly limits: Limits;
  readonly runningByType: Map<string, number>;
  running: number;
}

interface Limits {
  readonly flow: number;
  readonly byType: ReadonlyMap<string, number>;
}

interface Turns {
  readonly claims: Claim[];
  readonly nextDueAt: number | null;
  readonly isHeldBack: boolean;
}

/** Flows whose last turn is remembered; a forgotten flow comes first. */
const REMEMBERED_FLOWS = 10_000;

/**
 * Makes the function that lets flows take turns until the limit is reached or nothing more may run.
 *
 * The flow that runs the fewest steps is next, so that one with a thousand slow steps leaves a new flow its share as
 * soon as one of them ends; among equals it is the one whose turn was the longest ago, so that the order holds for a
 * single slot too. One seek for each type of step that a flow has waiting finds whose turn it is, whatever the number
 * of steps that wait.
 */
export function prepareTurns(db: Database): (request: ClaimRequest, lease: (row: DueStep) => Claim) => Turns {
  const listFlowTurns = prepareListFlowTurns(db);
  const listRows = db.prepare<[string, string, string, number], DueStep>(`
    ${DUE_ROWS} WHERE ${ORDINARY} AND s.status = ? AND s.flow_id = ? AND s.step_type = ?
    ORDER BY s.due_at, s.run_id, s.step_key LIMIT ?`);
  // Also remembers a turn that is rolled back: that costs the flow no more than its place among equals.
  const lastTurns = new LRUCache<string, number>({ max: REMEMBERED_FLOWS });
  let turn = 0;

  return ({ now, limit }, lease) => {
    const { flows, lanes, nextLapse } = listFlowTurns(now);
    const chunk = Math.ceil(limit / Math.max(1, lanes)) + 1;
    const claims: Claim[] = [];
    while (claims.length < limit) {
      const next = nextTurn(flows, { now, lastTurns });
      if (next === undefined) break;
      const { flow, lane } = next;
      if (lane.rows.length === 0) lane.rows.push(...listRows.all(lane.status, lane.flowId, lane.stepType, chunk));
      const row = lane.rows.shift();
      if (row !== undefined) {
        claims.push(lease(row));
        flow.running += 1;
        flow.runningByType.set(row.stepType, (flow.runningByType.get(row.stepType) ?? 0) + 1);
        lastTurns.set(flow.flowId, ++turn);
        if (lane.rows.length === 0) lane.rows.push(...listRows.all(lane.status, lane.flowId, lane.stepType, chunk));
      }
      const dueAt = lane.rows[0]?.dueAt ?? Number.POSITIVE_INFINITY;
      // After the lapsed leases come those that are still held.
      lane.dueAt = lane.status === 'Running' && dueAt > now ? Number.POSITIVE_INFINITY : dueAt;
    }
    return { claims, ...left(flows, { now, nextLapse }) };
  };
}

function nextTurn(
  flows: Iterable<FlowTurns>,
  { now, lastTurns }: { now: number; lastTurns: LRUCache<string, number> },
): { flow: FlowTurns; lane: Lane } | undefined {
  let best: { flow: FlowTurns; lane: Lane; rank: readonly number[] } | undefined;
  for (const flow of flows) {
    let oldest: Lane | undefined;
    for (const lane of flow.lanes) {
      if (lane.dueAt <= now && lane.dueAt < (oldest?.dueAt ?? Infinity) && !isFull(flow, lane)) oldest = lane;
    }
    if (oldest === undefined) continue;
    const rank = [flow.running, lastTurns.peek(flow.flowId) ?? 0, oldest.dueAt];
    if (best === undefined || isBefore(rank, best.rank)) best = { flow, lane: oldest, rank };
  }
  return best;
}

function isBefore(one: readonly number[], other: readonly number[]): boolean {
  const at = one.findIndex((value, index) => value !== other[index]);
  return at !== -1 && (one[at] ?? 0) < (other[at] ?? 0);
}

function left(
  flows: Iterable<FlowTurns>,
  { now, nextLapse }: { now: number; nextLapse: number },
): Pick<Turns, 'nextDueAt' | 'isHeldBack'> {
  let nextDueAt = nextLapse;
  let isHeldBack = false;
  for (const flow of flows) {
    for (const lane of flow.lanes) {
      if (lane.dueAt <= now && isFull(flow, lane)) isHeldBack = true;
      else nextDueAt = Math.min(nextDueAt, lane.dueAt);
    }
  }
  return { nextDueAt: Number.isFinite(nextDueAt) ? nextDueAt : null, isHeldBack };
}

/** Makes the function that says, as of now, whether one more step of a flow may run, and counts it if so. */
export function prepareRoom(db: Database): (now: number) => (step: { flowId: string; stepType: string }) => boolean {
  const listRunning = prepareListRunning(db);
  const limitsOf = prepareLimitsOf(db);
  return (now) => {
    const running = listRunning(now);
    const flows = new Map<string, FlowTurns>();
    return ({ flowId, stepType }) => {
      const flow = flows.get(flowId) ?? flowOf({ flowId }, running, limitsOf);
      flows.set(flowId, flow);
      if (limitReached(flow, { stepType }) !== null) return false;
      flow.running += 1;
      flow.runningByType.set(stepType, (flow.runningByType.get(stepType) ?? 0) + 1);
      return true;
    };
  };
}

// Counting reads a row for each step: so many take a few milliseconds, and a million would take a second.
const COUNTED_OF_LANE = 1000;
const COUNTED = 10_000;

export function prepareListSlotWaits(db: Database): Member<'listSlotWaits'> {
  const listFlowTurns = prepareListFlowTurns(db);
  const countDue = prepareCountDue(db);
  // A suspect without a lease is waiting itself.
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
        const { flowId, dueAt } = lane;
        const most = Math.max(1, Math.min(COUNTED_OF_LANE, budget));
        const found = countDue(lane, dueBefore, most + 1);
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

function prepareCountDue(db: Database): (lane: LaneHead, dueBefore: number, most: number) => number {
  const count = db.prepare<[string, string, number, number], { count: number }>(`
    SELECT count(*) AS count FROM (
      SELECT 1 FROM steps
      WHERE ${ORDINARY} AND status = 'Pending' AND flow_id = ? AND step_type = ? AND due_at <= ? LIMIT ?)`);
  return ({ flowId, stepType }, dueBefore, most) => count.get(flowId, stepType, dueBefore, most)?.count ?? 0;
}

export function prepareMeasureBacklog(db: Database): Member<'measureBacklog'> {
  const listFlowTurns = prepareListFlowTurns(db);
  const countDue = prepareCountDue(db);
  return ({ now, most }) => {
    let dueSteps = 0;
    let oldestDueAt: number | null = null;
    for (const flow of listFlowTurns(now).flows) {
      for (const lane of flow.lanes) {
        if (lane.status === 'Running' || lane.dueAt > now) continue;
        if (dueSteps < most) dueSteps += countDue(lane, now, most - dueSteps);
        if (!isFull(flow, lane)) oldestDueAt = Math.min(lane.dueAt, oldestDueAt ?? lane.dueAt);
      }
    }
    return { dueSteps, oldestDueAt };
  };
}

interface Waiting {
  readonly flows: readonly FlowTurns[];
  readonly lanes: number;
  /** When the first lease of a running step ends. */
  readonly nextLapse: number;
  /** Steps that hold a slot, without those that must run alone. */
  readonly running: number;
}

/** Makes the function that lists flows with steps that wait to start, with their limits and what they run. */
function prepareListFlowTurns(db: Database): (now: number) => Waiting {
  const listLanes = prepareListLanes(db);
  const limitsOf = prepareLimitsOf(db);
  return (now) => {
    const { lanes, running, nextLapse } = listLanes(now);
    const flows = new Map<string, FlowTurns>();
    for (const lane of lanes) {
      const { flowId } = lane;
      const known = flows.get(flowId);
      if (known === undefined) flows.set(flowId, { ...flowOf(lane, running, limitsOf), lanes: [lane] });
      else known.lanes.push(lane);
    }
    const total = running.reduce((sum, { count }) => sum + count, 0);
    return { flows: [...flows.values()], lanes: lanes.length, nextLapse, running: total };
  };
}

function flowOf(
  { flowId }: Pick<Lane, 'flowId'>,
  running: readonly RunningCount[],
  limitsOf: (flowId: string) => Limits,
): FlowTurns {
  const own = running.filter((each) => each.flowId === flowId);
  return {
    flowId,
    lanes: [],
    limits: limitsOf(flowId),
    runningByType: new Map(own.map(({ stepType, count }) => [stepType, count])),
    running: own.reduce((sum, { count }) => sum + count, 0),
  };
}

/** The limit that a flow has reached, for all of its steps or for those of that type. */
function limitReached(
  { limits, running, runningByType }: FlowTurns,
  { stepType }: Pick<Lane, 'stepType'>,
): SlotWait['limit'] {
  if (running >= limits.flow) return { concurrency: limits.flow, stepType: null };
  const concurrency = limits.byType.get(stepType) ?? Number.POSITIVE_INFINITY;
  return (runningByType.get(stepType) ?? 0) >= concurrency ? { concurrency, stepType } : null;
}

function isFull(flow: FlowTurns, lane: Lane): boolean {
  return limitReached(flow, lane) !== null;
}

interface RunningCount {
  readonly flowId: string;
  readonly stepType: string;
  readonly count: number;
}

function prepareListLanes(db: Database) {
  // One seek a lane: the next pair of flow and type after the last one.
  const nextLane = prepareNextLane(db);
  const listRunning = prepareListRunning(db);
  return (now: number): { lanes: Lane[]; running: RunningCount[]; nextLapse: number } => {
    const lanes: Lane[] = [];
    let nextLapse = Number.POSITIVE_INFINITY;
    const running = listRunning(now);
    for (const { flowId, stepType, lapsedAt, lapsesAt } of running) {
      if (lapsesAt !== null) nextLapse = Math.min(nextLapse, lapsesAt);
      if (lapsedAt !== null) lanes.push({ status: 'Running', flowId, stepType, dueAt: lapsedAt, rows: [] });
    }
    for (let lane = nextLane('', ''); lane !== undefined; lane = nextLane(lane.flowId, lane.stepType)) {
      lanes.push({ ...lane, status: 'Pending', rows: [] });
    }
    return { lanes, running, nextLapse };
  };
}

interface RunningLane extends RunningCount {
  readonly lapsedAt: number | null;
  readonly lapsesAt: number | null;
}

function prepareListRunning(db: Database): (now: number) => RunningLane[] {
  const list = db.prepare<[number, number, number], RunningLane>(`
    SELECT flow_id AS flowId, step_type AS stepType, sum(due_at > ?) AS count,
      min(due_at) FILTER (WHERE due_at <= ?) AS lapsedAt, min(due_at) FILTER (WHERE due_at > ?) AS lapsesAt
    FROM steps WHERE ${ORDINARY} AND status = 'Running' GROUP BY flow_id, step_type`);
  return (now) => list.all(now, now, now);
}

/** The first step of a flow's type that waits to be started. */
interface LaneHead {
  readonly flowId: string;
  readonly stepType: string;
  readonly dueAt: number;
}

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

/** Manifests are parsed once for each revision; a revision never changes. */
const KEPT_LIMITS = 1000;

/** What a flow may run at once, by its newest revision: an operator who changes the limit means runs in flight too. */
function prepareLimitsOf(db: Database): (flowId: string) => Limits {
  const findRevision = db.prepare<[string], { revision: number }>('SELECT revision FROM flows WHERE id = ?');
  const findSnapshot = db.prepare<[string, number], { snapshot: string }>(
    'SELECT snapshot FROM revisions WHERE flow_id = ? AND revision = ?',
  );
  const kept = new LRUCache<string, Limits>({ max: KEPT_LIMITS });
  return (flowId) => {
    const revision = findRevision.get(flowId)?.revision ?? 0;
    const key = `${flowId}:${revision}`;
    const known = kept.get(key);
    if (known !== undefined) return known;
    const snapshot = findSnapshot.get(flowId, revision)?.snapshot;
    const limits = limitsIn(snapshot === undefined ? undefined : (JSON.parse(snapshot) as Partial<RunnableManifest>));
    kept.set(key, limits);
    return limits;
  };
}

function limitsIn(manifest: Partial<RunnableManifest> | undefined): Limits {
  const byType = new Map<string, number>();
  const read = (graph: Graph) => {
    for (const { type, concurrency, steps } of Object.values(graph)) {
      if (concurrency !== undefined) byType.set(type, Math.min(concurrency, byType.get(type) ?? Infinity));
      if (steps !== undefined) read(steps);
    }
  };
  read(manifest?.steps ?? {});
  return { flow: manifest?.concurrency ?? Number.POSITIVE_INFINITY, byType };
}
