import { LRUCache } from 'lru-cache';
import type { RunStatus } from '../../model/manifest.ts';
import { isAlone, isLarge, planAfter, planNext, type WiredGraph } from '../../model/planner.ts';
import { STOP_ERRORS } from '../../model/run.ts';
import { graphOfScope, iterationOf, parseRuntimeKey } from '../../model/runtime-keys.ts';
import type { Advance, BirthLease, EndedLoop, LeasedStep, RunStop, StepOutcome, StepResult } from '../store.ts';
import type { Decision } from './decision.ts';
import type { ChangedScope, PlannedRun, SubRun } from './follower.ts';
import { followEnd, scopes, subRuns } from './following.ts';
import type { FoundRun, RunRows } from './rows.ts';
import { waitStep } from './signal.ts';
import { closeRun, stopOf } from './stop.ts';

/**
 * Stores the outcome of an attempt, plans what follows, and makes it due; yields undefined and changes nothing if the
 * lease is lost. A plain step needs three reads: its lease, the graph, which is usually cached, and the states.
 */
export function* advance(rows: RunRows, given: StepOutcome, lease?: BirthLease): Decision<Advance | undefined> {
  const held = yield* rows.findHeld(given);
  if (held === undefined) return undefined;
  const { runId, at } = given;
  const { flowId, revision, startedAt, status } = held.run;
  const isRunning = status === 'Running';
  const stop = stopOf(held.run);
  const asked = isRunning && stop === null ? given.result : finalResult(given.result, stop);
  const { result, subRun } = yield* settle(rows, given, { asked, parent: held.run });
  const outcome = result === given.result ? given : { ...given, result };
  const results = { dispatched: [], leased: [], skipped: [], loops: [], end: null };
  const progress: Progress = { rows, runId, flowId, revision, startedAt, at, lease, ...results };

  if (outcome.evaluationTrace !== undefined) rows.keepTrace(outcome, outcome.evaluationTrace);
  if (result.kind === 'waiting' || result.kind === 'loop') {
    // The attempt continues after this, so it needs a row; otherwise the row is written when the attempt ends, or
    // never.
    const attempt = held.attempt === 0 ? beginAttempt(rows, outcome) : held.attempt;
    if (result.kind === 'waiting') yield* waitStep(rows, outcome, { ...result, attempt, run: held.run });
    else yield* scopes.begin(plannedRun(progress), outcome, result);
  } else {
    endAttempt(rows, outcome, { result, written: held.attempt });
    if (isRunning && stop !== null)
      progress.end = yield* closeRun(rows, { run: { runId, flowId, startedAt }, stop, at });
    else if (result.kind === 'retry') progress.dispatched.push(outcome.stepKey);
    else if (isRunning) yield* planScope(progress, { ...parseRuntimeKey(outcome.stepKey), status: ENDED[result.kind] });
  }

  const { dispatched, leased, skipped, loops, end } = progress;
  const endedRun = end === null ? null : { flowId, startedAt, completedAt: at };
  const followed = end === null ? undefined : yield* followEnd(rows, { ...held.run, runId, status: end, at });
  const runStatus = end ?? status;
  const advance = { runStatus, endedRun, dispatched, skipped, loops, ...followed, ...(subRun && { subRun }) };
  return leased.length === 0 ? advance : { ...advance, leased, newestRevision: held.run.newestRevision };
}

/** Starts the sub-run that a step asks for; whether it started becomes the step's result. */
function* settle(
  rows: RunRows,
  outcome: StepOutcome,
  { asked, parent }: { readonly asked: StepResult; readonly parent: FoundRun },
): Decision<Pick<Advance, 'subRun'> & Pick<SubRun, 'result'>> {
  if (asked.kind !== 'runFlow') return { result: asked };
  const subRun = yield* subRuns.start(rows, outcome, { asked, parent });
  return { result: subRun.result, subRun };
}

/**
 * In a run that has ended or has to end, nothing is retried, waited for or begun: the attempt's failure is the step's.
 */
function finalResult(result: StepResult, stop: RunStop | null): StepResult {
  if (result.kind === 'retry') return { ...result, kind: 'failed' };
  if (result.kind === 'waiting' || result.kind === 'loop' || result.kind === 'runFlow')
    return { kind: 'failed', error: STOP_ERRORS[stop ?? 'cancelled'] };
  return result;
}

function beginAttempt(rows: RunRows, { token, at, dueAt = at, startedAt = at }: StepOutcome): number {
  rows.beginAttempt({ token, dueAt, startedAt });
  return 1;
}

/** From here on the Gantt of a run shows how long a step was due before it had its slot. */
const NOTED_WAIT_MS = 100;

interface Ended {
  readonly result: Exclude<StepResult, { kind: 'waiting' | 'loop' | 'runFlow' }>;
  /** Number of the written attempt; 0 where none is. */
  readonly written: number;
}

function endAttempt(rows: RunRows, outcome: StepOutcome, { result, written }: Ended): void {
  const { runId, stepKey, at, dueAt = at, startedAt = at, input, inputsRevision = null } = outcome;
  if (result.kind === 'skipped') {
    rows.skipStep({ runId, stepKey, reason: result.reason, at }, written);
    return;
  }
  rows.endAttempt({
    runId,
    stepKey,
    written,
    dueAt,
    startedAt,
    status: result.kind === 'succeeded' ? 'Succeeded' : 'Failed',
    input,
    inputsRevision,
    output: result.output,
    error: result.kind === 'succeeded' ? null : result.error,
    at,
    retryAt: result.kind === 'retry' ? result.dueAt : null,
    uncounted: Number(result.kind === 'retry' && result.isUncounted === true),
    needsRow: result.kind === 'retry' || startedAt - dueAt >= NOTED_WAIT_MS,
  });
}

/** The run whose next steps are planned, and the results so far. */
interface Progress {
  readonly rows: RunRows;
  readonly runId: string;
  readonly flowId: string;
  readonly revision: number;
  /** When the run did. */
  readonly startedAt: number;
  readonly at: number;
  readonly lease: BirthLease | undefined;
  readonly dispatched: string[];
  readonly leased: LeasedStep[];
  readonly skipped: { readonly stepKey: string; readonly reason: string }[];
  readonly loops: EndedLoop[];
  /** How the run ended; null while it goes on. */
  end: RunStatus | null;
}

function* graphIn({ rows, flowId, revision }: Progress, scope: string): Decision<WiredGraph> {
  const graph = graphOfScope(yield* rows.graphOf(flowId, revision), scope);
  if (graph === undefined) throw new Error(`Revision ${revision} of the flow ${flowId} has no scope ${scope}`);
  return graph;
}

function plannedRun(progress: Progress): PlannedRun {
  const { rows, runId, at, loops } = progress;
  const graphAt = (scope: string) => graphIn(progress, scope);
  return { rows, runId, at, loops, graphIn: graphAt, plan: (changed) => planScope(progress, changed) };
}

const ENDED = { succeeded: 'Succeeded', failed: 'Failed', skipped: 'Skipped' } as const;

/** Plans what follows in a scope whose steps changed, and in the scopes around it where this one ends. */
function* planScope(
  progress: Progress,
  { scope, localKey: ended, status, states, item }: ChangedScope,
): Decision<void> {
  const { rows, runId, at } = progress;
  const graph = yield* graphIn(progress, scope);
  const local = ended !== undefined && isLarge(graph) ? yield* planLocally(progress, graph, scope + ended) : undefined;
  // The only step of its scope is all that there is to know.
  const only = ended !== undefined && status !== undefined && isAlone(graph) ? new Map([[ended, status]]) : undefined;
  const plan = local ?? planNext(graph, only ?? (yield* states ?? rows.statesIn(runId, scope, graph)));
  const typeOf = (stepKey: string) => graph[stepKey]?.type;
  for (const localKey of plan.start) {
    yield* startStep(progress, { stepKey: `${scope}${localKey}`, stepType: typeOf(localKey) ?? '', item });
  }
  for (const { stepKey: localKey, reason } of plan.skip) {
    const stepKey = `${scope}${localKey}`;
    rows.insertSkipped({ runId, stepKey, stepType: typeOf(localKey), reason, at });
    progress.skipped.push({ stepKey, reason });
  }
  if (plan.end === null) return;
  const iteration = iterationOf(scope);
  if (iteration === null) {
    progress.end = plan.end;
    rows.endRun(progress, plan.end, at);
  } else {
    yield* scopes.ended(plannedRun(progress), iteration, plan.end);
  }
}

/** What follows from a step of a large graph; undefined where that may be the end of its scope. */
function* planLocally({ rows, runId }: Progress, graph: WiredGraph, ended: string) {
  const { scope, localKey } = parseRuntimeKey(ended);
  const recent = (yield* rows.port()).kept(lastOpenSteps);
  const name = `${runId} ${scope}`;
  const lastOpen = recent.get(name) ?? new Map<string, number>();
  recent.set(name, lastOpen);
  const plan = yield* planAfter(graph, localKey, { statesOf: (keys) => rows.statesOf(runId, scope, keys), lastOpen });
  if (plan.isOpen || (yield* rows.hasOpenStep(runId, scope))) return { ...plan, end: null };
  recent.delete(name);
  return undefined;
}

const lastOpenSteps = () => new LRUCache<string, Map<string, number>>({ max: 200 });

/** Inserts a step that is to start: leased where the caller has a slot for it, else due. */
function* startStep(
  progress: Progress,
  { stepKey, stepType, item }: Pick<LeasedStep, 'stepKey' | 'stepType'> & Pick<ChangedScope, 'item'>,
): Decision<void> {
  const { rows, runId, flowId, at, lease, leased } = progress;
  const step = { runId, flowId, stepKey, stepType };
  progress.dispatched.push(stepKey);
  if (lease === undefined || leased.length >= lease.limit) {
    rows.insertNext({ ...step, status: 'Pending', dueAt: at, holder: null, startedAt: null });
    return;
  }
  rows.insertNext({ ...step, status: 'Running', dueAt: lease.leasedUntil, holder: lease.holder, startedAt: at });
  const { iteration } = parseRuntimeKey(stepKey);
  if (iteration === null) {
    leased.push({ stepKey, stepType, loop: null });
    return;
  }
  const { loopKey, index } = iteration;
  const own = item === undefined ? yield* rows.findItem(runId, loopKey, index) : item;
  leased.push({ stepKey, stepType, loop: { item: own, index } });
}
