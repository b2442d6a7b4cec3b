import type { WiredGraph } from '../../model/planner.ts';
import { graphOfScope, parseRuntimeKey, stepAt } from '../../model/runtime-keys.ts';
import type { Store } from '../store.ts';
import type { Decision } from './decision.ts';
import type { RetriedRun } from './follower.ts';
import { scopes } from './following.ts';
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
  const retried: RetriedRun = { rows, runId, graph };
  const hasSteps = stepAt(graph, stepKey)?.steps !== undefined;
  const steps = hasSteps ? yield* scopes.causes(retried, stepKey) : [stepKey];
  if (steps.length === 0) return { kind: 'nothingToRetry', error: step.error };
  const rejoined = yield* rejoinPlace(rows, { ...run, runId });
  if (typeof rejoined === 'string') return { kind: 'orderDeadlock', runId: rejoined };
  const dueAt = rejoined ? null : at;
  for (const key of steps) yield* reset(retried, key, dueAt);
  yield* rows.reopenRun(runId);
  return { kind: 'accepted', steps };
}

function* reset(retried: RetriedRun, stepKey: string, at: number | null): Decision<void> {
  const { rows, runId } = retried;
  const { iteration } = parseRuntimeKey(stepKey);
  // While the step is still ended: after that its iteration is open.
  const opened = iteration === null ? [] : yield* scopes.reopen(retried, iteration);
  rows.retryStep({ runId, stepKey }, at);
  for (const key of [...opened, stepKey]) forgetAfter(retried, key);
}

function forgetAfter({ rows, runId, graph }: RetriedRun, stepKey: string): void {
  for (const key of downstreamOf(graph, stepKey)) rows.forgetSkipped(runId, key);
}

/** Runtime keys of all steps of the scope that run after this one, directly or not. */
function downstreamOf(graph: WiredGraph, stepKey: string): string[] {
  const { scope, localKey } = parseRuntimeKey(stepKey);
  const own = graphOfScope(graph, scope);
  const found = new Set([localKey]);
  // It grows while it is read.
  for (const key of found) for (const [after] of own?.[key]?.downstream ?? []) found.add(after);
  found.delete(localKey);
  return [...found].map((key) => `${scope}${key}`);
}
