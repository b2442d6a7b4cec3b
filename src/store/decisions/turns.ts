import { LRUCache } from 'lru-cache';
import type { Graph, RunnableManifest } from '../../model/manifest.ts';
import type { Rotation, Waiter } from '../../model/rotation.ts';
import type { ClaimBatch, SlotWait } from '../store.ts';

/** A flow's steps of one type that are due or will be: steps that wait to start, or steps whose leases end. */
export interface Queue {
  readonly status: 'Pending' | 'Running';
  readonly flowId: string;
  readonly stepType: string;
  /** When its first step is due. */
  dueAt: number;
}

/** Running steps of one type of a flow. */
export interface RunningSteps {
  readonly flowId: string;
  readonly stepType: string;
  /** Those whose leases have not lapsed. */
  readonly count: number;
  /** When the first of the lapsed leases ended; null if none has lapsed. */
  readonly lapsedAt: number | null;
  /** When the first of the other leases ends; null if there is none. */
  readonly lapsesAt: number | null;
}

/** How many steps a flow may run at once. */
export interface Limits {
  readonly flow: number;
  readonly byType: ReadonlyMap<string, number>;
}

/** A flow's running steps, its limits, and its waiting steps. */
export interface FlowQueues {
  readonly flowId: string;
  readonly queues: Queue[];
  readonly limits: Limits;
  readonly runningByType: Map<string, number>;
  running: number;
}

/** The flows that have due steps or will have them, as of one time. */
export interface Waiting {
  readonly flows: readonly FlowQueues[];
  readonly queues: number;
  /** When the first lease of a running step ends. */
  readonly nextLapse: number;
  /** Steps that hold a slot, without those that must run alone. */
  readonly running: number;
}

/** Groups waiting and running steps by flow. */
export function waitingOf(
  { heads, running }: { heads: readonly Omit<Queue, 'status'>[]; running: readonly RunningSteps[] },
  limitsOf: (flowId: string) => Limits,
): Waiting {
  const lapsed = running.flatMap(({ flowId, stepType, lapsedAt: dueAt }): Queue[] =>
    dueAt === null ? [] : [{ status: 'Running', flowId, stepType, dueAt }],
  );
  const queues = [...lapsed, ...heads.map((head): Queue => ({ ...head, status: 'Pending' }))];
  const flows = new Map<string, FlowQueues>();
  for (const queue of queues) {
    const known = flows.get(queue.flowId) ?? flowQueues(queue.flowId, running, limitsOf);
    known.queues.push(queue);
    flows.set(queue.flowId, known);
  }
  return {
    flows: [...flows.values()],
    queues: queues.length,
    nextLapse: running.reduce((first, { lapsesAt }) => Math.min(first, lapsesAt ?? first), Number.POSITIVE_INFINITY),
    running: running.reduce((sum, { count }) => sum + count, 0),
  };
}

/** A flow without queues. */
function flowQueues(
  flowId: string,
  running: readonly RunningSteps[],
  limitsOf: (flowId: string) => Limits,
): FlowQueues {
  const own = running.filter((each) => each.flowId === flowId);
  return {
    flowId,
    queues: [],
    limits: limitsOf(flowId),
    runningByType: new Map(own.map(({ stepType, count }) => [stepType, count])),
    running: own.reduce((sum, { count }) => sum + count, 0),
  };
}

/** The limit that a flow has reached, for all of its steps or for steps of that type. */
function limitReached(
  { limits, running, runningByType }: FlowQueues,
  { stepType }: Pick<Queue, 'stepType'>,
): SlotWait['limit'] {
  if (running >= limits.flow) return { concurrency: limits.flow, stepType: null };
  const concurrency = limits.byType.get(stepType) ?? Number.POSITIVE_INFINITY;
  return (runningByType.get(stepType) ?? 0) >= concurrency ? { concurrency, stepType } : null;
}

export function isFull(flow: FlowQueues, queue: Pick<Queue, 'stepType'>): boolean {
  return limitReached(flow, queue) !== null;
}

/** Counts one more running step of the flow. */
function countRunning(flow: FlowQueues, stepType: string): void {
  flow.running += 1;
  flow.runningByType.set(stepType, (flow.runningByType.get(stepType) ?? 0) + 1);
}

/** A flow that waits for its turn, with the queue whose first step gets it. */
interface WaitingFlow extends Waiter {
  readonly flow: FlowQueues;
  readonly queue: Queue;
}

/** How many steps a claim may still take, and how many of these are kept for flows that run no step. */
export interface Remaining {
  readonly left: number;
  readonly kept: number;
}

/** Whether a flow gets no turn because it runs steps and only slots kept for idle flows are left. */
function isKeptFrom({ running }: FlowQueues, { left, kept }: Remaining): boolean {
  return running > 0 && left > 0 && left <= kept;
}

/** The flows that may have a turn, each with the oldest of its due steps that no limit holds back. */
export function waitingFlows(flows: readonly FlowQueues[], now: number, remaining: Remaining): WaitingFlow[] {
  return flows.flatMap((flow) => {
    if (isKeptFrom(flow, remaining)) return [];
    let oldest: Queue | undefined;
    for (const queue of flow.queues) {
      if (queue.dueAt <= now && queue.dueAt < (oldest?.dueAt ?? Infinity) && !isFull(flow, queue)) oldest = queue;
    }
    if (oldest === undefined) return [];
    const { flowId: key, running, limits } = flow;
    return [{ key, running, limit: limits.flow, since: oldest.dueAt, flow, queue: oldest }];
  });
}

/** Gives the flow's turn to a step of that type. */
export function takeTurn(rotation: Rotation, flow: FlowQueues, stepType: string): void {
  countRunning(flow, stepType);
  rotation.give(flow.flowId);
}

/** How soon a claim checks whether another process has ended a step of a flow that gets no more slots here. */
const KEPT_AGAIN_MS = 1000;

/** The runnable steps that a claim left. */
export function leftBy(
  { flows, nextLapse }: Pick<Waiting, 'flows' | 'nextLapse'>,
  now: number,
  remaining: Remaining,
): Pick<ClaimBatch, 'nextDueAt' | 'isKept'> {
  let nextDueAt = nextLapse;
  let isKept = false;
  for (const flow of flows) {
    for (const queue of flow.queues) {
      // A step that its flow's limit holds back is claimed when another step of the flow ends.
      if (queue.dueAt <= now && isFull(flow, queue)) continue;
      const isOwn = queue.dueAt <= now && isKeptFrom(flow, remaining);
      isKept ||= isOwn;
      nextDueAt = Math.min(nextDueAt, isOwn ? now + KEPT_AGAIN_MS : queue.dueAt);
    }
  }
  return { nextDueAt: Number.isFinite(nextDueAt) ? nextDueAt : null, isKept };
}

// Counting reads a row for each step: this many take a few milliseconds, and a million would take a second.
export const COUNTED_OF_QUEUE = 1000;
const COUNTED = 10_000;

/** Steps of one queue that wait for a slot. */
export interface WaitingQueue {
  readonly flow: FlowQueues;
  readonly queue: Queue;
}

export function waitingQueues({ flows }: Pick<Waiting, 'flows'>, dueBefore: number): WaitingQueue[] {
  return flows.flatMap((flow) =>
    flow.queues
      .filter(({ status, dueAt }) => status === 'Pending' && dueAt <= dueBefore)
      .map((queue) => ({ flow, queue })),
  );
}

/** Adds up the waits of queues flow by flow. `countDue` counts the due steps of a queue, up to `most`. */
export function slotWaitsOf(
  queues: readonly WaitingQueue[],
  countDue: (queue: Queue, most: number) => number,
): SlotWait[] {
  const waits = new Map<string, SlotWait>();
  let budget = COUNTED;
  for (const { flow, queue } of queues) {
    const { flowId, dueAt } = queue;
    const most = Math.max(1, Math.min(COUNTED_OF_QUEUE, budget));
    const found = countDue(queue, most + 1);
    const count = Math.min(found, most);
    budget -= count;
    const limit = limitReached(flow, queue);
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

/** The limits of the most recently read revisions. */
export class LimitsCache {
  readonly #limits = new LRUCache<string, Limits>({ max: KEPT_LIMITS });

  find(flowId: string, revision: number): Limits | undefined {
    return this.#limits.get(`${flowId}:${revision}`);
  }

  /** Keeps the limits in a revision's manifest, given as JSON text; without one, nothing is limited. */
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
