import type { Graph, RunStatus, StepStatus } from '../model/manifest.ts';

/** Statuses of the steps that have been reached; a step that is not in it has not. */
export type StepStates = ReadonlyMap<string, StepStatus>;

export interface Plan {
  /** Keys of steps whose edges are all satisfied and that have not been reached yet. */
  readonly start: readonly string[];
  /** Steps that can never start, in the order in which that became certain. */
  readonly skip: readonly SkippedStep[];
  /** How the run ended; null while anything is to be started, waits or runs. */
  readonly end: RunStatus | null;
}

export interface SkippedStep {
  readonly stepKey: string;
  readonly reason: string;
}

/**
 * Says what follows from where a run stands. Pure: the same graph and states give the same plan, whatever order the
 * states were reached in, so that the engine, the store's transaction, recovery and the page agree.
 *
 * A step starts when every edge is satisfied (AND) and is skipped as soon as one edge can no longer be. Skips cascade
 * in the same plan, because a skipped step may satisfy an edge that lists Skipped or break one that does not.
 */
export function planNext(graph: Graph, states: StepStates): Plan {
  const known = new Map(states);
  const skip: SkippedStep[] = [];
  for (let isSettled = false; !isSettled; ) {
    isSettled = true;
    for (const stepKey of Object.keys(graph)) {
      if (known.has(stepKey)) continue;
      const reason = brokenEdge(graph, known, stepKey);
      if (reason === undefined) continue;
      known.set(stepKey, 'Skipped');
      skip.push({ stepKey, reason });
      isSettled = false;
    }
  }
  const start = Object.keys(graph).filter((stepKey) => !known.has(stepKey) && isSatisfied(graph, known, stepKey));
  return { start, skip, end: start.length === 0 ? runEnd(graph, known) : null };
}

function isSatisfied(graph: Graph, known: StepStates, stepKey: string): boolean {
  return edgesOf(graph, stepKey).every(([upstream, edge]) => {
    const status = known.get(upstream);
    return status !== undefined && edge.statuses.includes(status);
  });
}

function brokenEdge(graph: Graph, known: StepStates, stepKey: string): string | undefined {
  for (const [upstream, edge] of edgesOf(graph, stepKey)) {
    const status = known.get(upstream);
    if (status !== undefined && hasEnded(status) && !edge.statuses.includes(status)) {
      return `"${upstream}" ended ${status}; this step runs after ${edge.statuses.join(' or ')}`;
    }
  }
  return undefined;
}

function runEnd(graph: Graph, known: StepStates): RunStatus | null {
  const keys = Object.keys(graph);
  if (!keys.every((stepKey) => hasEnded(known.get(stepKey) ?? 'Pending'))) return null;
  if (keys.some((stepKey) => known.get(stepKey) === 'Failed' && !isHandled(graph, known, stepKey))) return 'Failed';
  const leaves = keys.filter((stepKey) => downstreamOf(graph, stepKey).length === 0);
  return leaves.length > 0 && leaves.every((stepKey) => known.get(stepKey) === 'Skipped') ? 'Skipped' : 'Succeeded';
}

/** A failure is handled by a downstream step that listed Failed and succeeded. */
function isHandled(graph: Graph, known: StepStates, failedKey: string): boolean {
  return downstreamOf(graph, failedKey).some(
    (stepKey) =>
      known.get(stepKey) === 'Succeeded' && graph[stepKey]?.runAfter[failedKey]?.statuses.includes('Failed') === true,
  );
}

function downstreamOf(graph: Graph, stepKey: string): string[] {
  return Object.keys(graph).filter((other) => Object.hasOwn(graph[other]?.runAfter ?? {}, stepKey));
}

function edgesOf(graph: Graph, stepKey: string) {
  return Object.entries(graph[stepKey]?.runAfter ?? {});
}

function hasEnded(status: StepStatus): boolean {
  return status === 'Succeeded' || status === 'Failed' || status === 'Skipped';
}
