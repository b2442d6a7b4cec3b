import type { Graph } from '../../model/manifest.ts';
import type { WiredGraph } from '../../model/planner.ts';
import { graphOfScope, parseRuntimeKey, scopeOfIteration, stepAt } from '../../model/runtime-keys.ts';
import type { Store } from '../store.ts';
import type { Decision } from './decision.ts';
import { iterationEnd, listFailures } from './loops.ts';
import { rejoinPlace } from './placing.ts';
import type { RunRows } from './rows.ts';
import { statusOfStop, stopOf } from './stop.ts';

type Retry = Parameters<Store['retryStep']>[0];

export function* retryStep(
  rows: RunRows,
  { runId, stepKey, at }: Retry,
): Decision<Awaited<ReturnType<Store['retryStep']>>> {
  const run = yield* rows.findRun(runId);
  if (run === undefined) return { kind: 'unknownRun' };
  const graph = yield* rows.graphOf(run.flowId, run.revision);
  const step = yield* rows.findStep(runId, stepKey);
  if (step === undefined && stepAt(graph, stepKey) === undefined) return { kind: 'unknownStep' };
  if (step?.status !== 'Failed') return { kind: 'notFailed', stepStatus: step?.status ?? 'Pending' };
  const stop = stopOf(run);
  if (stop !== null) return { kind: 'stopped', runStatus: statusOfStop(stop) };
  const retried: Retried = { rows, runId, graph };
  const steps = yield* causes(retried, stepKey);
  if (steps.length === 0) return { kind: 'nothingToRetry', error: step.error };
  const rejoined = yield* rejoinPlace(rows, { ...run, runId });
  if (typeof rejoined === 'string') return { kind: 'orderDeadlock', runId: rejoined };
  const dueAt = rejoined ? null : at;
  for (const key of steps) yield* reset(retried, key, dueAt);
  yield* rows.reopenRun(runId);
  return { kind: 'accepted', steps };
}

interface Retried {
  readonly rows: RunRows;
  readonly runId: string;
  readonly graph: WiredGraph;
}

/** The steps to retry: for a loop that ran, the children that made it fail; otherwise the step itself. */
function* causes(retried: Retried, stepKey: string): Decision<string[]> {
  const { rows, runId, graph } = retried;
  const loop = yield* rows.findLoop(runId, stepKey);
  const own = graphOfScope(graph, scopeOfIteration({ loopKey: stepKey, index: 0 }));
  if (loop === undefined || loop.total === 0 || own === undefined) return [stepKey];
  const found: string[] = [];
  for (const key of yield* listFailures(rows, { runId, loopKey: stepKey, failed: loop.failed }, own)) {
    found.push(...(yield* causes(retried, key)));
  }
  return found;
}

function* reset(retried: Retried, stepKey: string, at: number | null): Decision<void> {
  const { rows, runId } = retried;
  // While the step is still ended: after that its iteration is open.
  yield* reopenAround(retried, stepKey);
  rows.retryStep({ runId, stepKey }, at);
  forgetAfter(retried, stepKey);
}

/** Reverts the count of the step's iteration, and does the same for the loops around its loop. */
function* reopenAround(retried: Retried, stepKey: string): Decision<void> {
  const { rows, runId, graph } = retried;
  const { scope, iteration } = parseRuntimeKey(stepKey);
  if (iteration === null) return;
  const end = yield* iterationEnd(rows, { runId, scope }, graph);
  if (end === null) return;
  const { loopKey } = iteration;
  rows.uncountIteration(runId, loopKey, end === 'Failed');
  // Before the loop is open again, since that opens the iteration around it.
  yield* reopenAround(retried, loopKey);
  if (yield* rows.reopenLoop(runId, loopKey)) forgetAfter(retried, loopKey);
}

function forgetAfter({ rows, runId, graph }: Retried, stepKey: string): void {
  for (const key of downstreamOf(graph, stepKey)) rows.forgetSkipped(runId, key);
}

/** Runtime keys of all steps of the scope that run after this one, directly or not. */
function downstreamOf(graph: Graph, stepKey: string): string[] {
  const { scope, localKey, iteration } = parseRuntimeKey(stepKey);
  const own = iteration === null ? graph : (stepAt(graph, iteration.loopKey)?.steps ?? {});
  const found = new Set([localKey]);
  for (let size = 0; size !== found.size; ) {
    size = found.size;
    for (const [key, { runAfter }] of Object.entries(own)) {
      if (Object.keys(runAfter).some((upstream) => found.has(upstream))) found.add(key);
    }
  }
  found.delete(localKey);
  return [...found].map((key) => `${scope}${key}`);
}
