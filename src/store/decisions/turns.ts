import { LRUCache } from 'lru-cache';
import type { Graph, RunnableManifest } from '../../model/manifest.ts';
import type { SlotWait } from '../store.ts';

/** A flow's steps of one type that are due or will be: those that wait to start, or those whose leases end. */
export interface Lane {
  readonly status: 'Pending' | 'Running';
  readonly flowId: string;
  readonly stepType: string;
  /** When its first step is due. */
  dueAt: number;
}

/** Steps of one type of a flow that run. */
export interface RunningLane {
  readonly flowId: string;
  readonly stepType: string;
  /** Those whose leases have not run out. */
  readonly count: number;
  /** When the first of the leases ended that have run out; null where none has. */
  readonly lapsedAt: number | null;
  /** When the first of the others ends; null where there is none. */
  readonly lapsesAt: number | null;
}

/** What a flow may run at once. */
export interface Limits {
  readonly flow: number;
  readonly byType: ReadonlyMap<string, number>;
}

/** What a flow runs, may run, and has waiting. */
export interface FlowTurns {
  readonly flowId: string;
  readonly lanes: Lane[];
  readonly limits: Limits;
  readonly runningByType: Map<string, number>;
  running: number;
}

/** The flows that have due steps or will, as of one moment. */
export interface Waiting {
  readonly flows: readonly FlowTurns[];
  readonly lanes: number;
  /** When the first lease of a running step ends. */
  readonly nextLapse: number;
  /** Steps that hold a slot, without those that must run alone. */
  readonly running: number;
}

/** Groups what waits and what runs by flows. */
export function waitingOf(
  { heads, running }: { heads: readonly Omit<Lane, 'status'>[]; running: readonly RunningLane[] },
  limitsOf: (flowId: string) => Limits,
): Waiting {
  const lapsed = running.flatMap(({ flowId, stepType, lapsedAt: dueAt }): Lane[] =>
    dueAt === null ? [] : [{ status: 'Running', flowId, stepType, dueAt }],
  );
  const lanes = [...lapsed, ...heads.map((head): Lane => ({ ...head, status: 'Pending' }))];
  const flows = new Map<string, FlowTurns>();
  for (const lane of lanes) {
    const known = flows.get(lane.flowId) ?? flowTurns(lane.flowId, running, limitsOf);
    known.lanes.push(lane);
    flows.set(lane.flowId, known);
  }
  return {
    flows: [...flows.values()],
    lanes: lanes.length,
    nextLapse: running.reduce((first, { lapsesAt }) => Math.min(first, lapsesAt ?? first), Number.POSITIVE_INFINITY),
    running: running.reduce((sum, { count }) => sum + count, 0),
  };
}

/** A flow without lanes. */
function flowTurns(flowId: string, running: readonly RunningLane[], limitsOf: (flowId: string) => Limits): FlowTurns {
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
export function limitReached(
  { limits, running, runningByType }: FlowTurns,
  { stepType }: Pick<Lane, 'stepType'>,
): SlotWait['limit'] {
  if (running >= limits.flow) return { concurrency: limits.flow, stepType: null };
  const concurrency = limits.byType.get(stepType) ?? Number.POSITIVE_INFINITY;
  return (runningByType.get(stepType) ?? 0) >= concurrency ? { concurrency, stepType } : null;
}

export function isFull(flow: FlowTurns, lane: Pick<Lane, 'stepType'>): boolean {
  return limitReached(flow, lane) !== null;
}

/** Counts one more step of the flow that runs. */
function countRunning(flow: FlowTurns, stepType: string): void {
  flow.running += 1;
  flow.runningByType.set(stepType, (flow.runningByType.get(stepType) ?? 0) + 1);
}

/** Makes the function that says whether one more step of a flow may run, and counts it if so. */
export function roomOf(
  running: readonly RunningLane[],
  limitsOf: (flowId: string) => Limits,
): (step: { readonly flowId: string; readonly stepType: string }) => boolean {
  const flows = new Map<string, FlowTurns>();
  return ({ flowId, stepType }) => {
    const flow = flows.get(flowId) ?? flowTurns(flowId, running, limitsOf);
    flows.set(flowId, flow);
    if (isFull(flow, { stepType })) return false;
    countRunning(flow, stepType);
    return true;
  };
}

/** Flows whose last turn is remembered; a forgotten flow comes first. */
const REMEMBERED_FLOWS = 10_000;

/**
 * Decides which flow is next.
 *
 * It is the flow that runs the fewest steps, so that a new flow gets its share as soon as one step of a busy flow ends.
 * Among equals, it is the one whose last turn is longest ago, so that flows take turns even with a single slot.
 */
export class Turns {
  // Also remembers a turn that is rolled back: that costs the flow no more than its place among equals.
  readonly #last = new LRUCache<string, number>({ max: REMEMBERED_FLOWS });
  #turn = 0;

  next(flows: Iterable<FlowTurns>, now: number): { flow: FlowTurns; lane: Lane } | undefined {
    let best: Ranked | undefined;
    for (const flow of flows) {
      const ranked = this.#rank(flow, now);
      if (ranked !== undefined && (best === undefined || isBefore(ranked.rank, best.rank))) best = ranked;
    }
    return best;
  }

  /** The flows that may have a turn, the next first. */
  order(flows: readonly FlowTurns[], now: number): FlowTurns[] {
    return flows
      .flatMap((flow) => this.#rank(flow, now) ?? [])
      .sort((a, b) => (isBefore(a.rank, b.rank) ? -1 : 1))
      .map(({ flow }) => flow);
  }

  /** A step of that type has the flow's turn. */
  take(flow: FlowTurns, stepType: string): void {
    countRunning(flow, stepType);
    this.#turn += 1;
    this.#last.set(flow.flowId, this.#turn);
  }

  #rank(flow: FlowTurns, now: number): Ranked | undefined {
    let oldest: Lane | undefined;
    for (const lane of flow.lanes) {
      if (lane.dueAt <= now && lane.dueAt < (oldest?.dueAt ?? Infinity) && !isFull(flow, lane)) oldest = lane;
    }
    return oldest && { flow, lane: oldest, rank: [flow.running, this.#last.peek(flow.flowId) ?? 0, oldest.dueAt] };
  }
}

interface Ranked {
  readonly flow: FlowTurns;
  /** Whose first step has the flow's turn. */
  readonly lane: Lane;
  readonly rank: readonly number[];
}

function isBefore(one: readonly number[], other: readonly number[]): boolean {
  const at = one.findIndex((value, index) => value !== other[index]);
  return at !== -1 && (one[at] ?? 0) < (other[at] ?? 0);
}

/** What a claim leaves: when the next step falls due that may run, and whether due steps wait for others of their flow. */
export function leftOf({ flows, nextLapse }: Pick<Waiting, 'flows' | 'nextLapse'>, now: number) {
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

// Counting reads a row for each step: so many take a few milliseconds, and a million would take a second.
export const COUNTED_OF_LANE = 1000;
const COUNTED = 10_000;

/** Steps of one lane that wait for a slot. */
export interface WaitingLane {
  readonly flow: FlowTurns;
  readonly lane: Lane;
}

export function waitingLanes({ flows }: Pick<Waiting, 'flows'>, dueBefore: number): WaitingLane[] {
  return flows.flatMap((flow) =>
    flow.lanes
      .filter(({ status, dueAt }) => status === 'Pending' && dueAt <= dueBefore)
      .map((lane) => ({ flow, lane })),
  );
}

/** Adds up the waits of lanes flow by flow. `countDue` counts the due steps of a lane, not beyond `most`. */
export function slotWaitsOf(lanes: readonly WaitingLane[], countDue: (lane: Lane, most: number) => number): SlotWait[] {
  const waits = new Map<string, SlotWait>();
  let budget = COUNTED;
  for (const { flow, lane } of lanes) {
    const { flowId, dueAt } = lane;
    const most = Math.max(1, Math.min(COUNTED_OF_LANE, budget));
    const found = countDue(lane, most + 1);
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
  return [...waits.values()];
}

/** Manifests are parsed once for each revision; a revision never changes. */
const KEPT_LIMITS = 1000;

/** The limits of the revisions that were read last. */
export class LimitsCache {
  readonly #limits = new LRUCache<string, Limits>({ max: KEPT_LIMITS });

  find(flowId: string, revision: number): Limits | undefined {
    return this.#limits.get(`${flowId}:${revision}`);
  }

  /** Keeps the limits in a revision's manifest, given as JSON text; where there is none, nothing is limited. */
  keep(flowId: string, revision: number, snapshot: string | undefined): Limits {
    const limits = limitsIn(snapshot === undefined ? undefined : (JSON.parse(snapshot) as Partial<RunnableManifest>));
    this.#limits.set(`${flowId}:${revision}`, limits);
    return limits;
  }
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
