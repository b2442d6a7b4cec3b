import type { Database } from 'better-sqlite3';
import { iterationOf, parseRuntimeKey, stepAt } from '../../flows/runtime-keys.ts';
import type { Graph, RunStatus, StepStatus } from '../../model/manifest.ts';
import type { CancelResult, ControlStore, RetryResult, SignalResult } from '../store.ts';
import { prepareGraphOf } from './graphs.ts';
import { toJson } from './json-column.ts';
import { prepareRunTallies } from './run-tallies.ts';
import { prepareCloseRun } from './stops.ts';

type Arguments<Name extends keyof ControlStore> = Parameters<ControlStore[Name]>[0];

export function prepareCancelRun(db: Database): (cancel: Arguments<'cancelRun'>) => CancelResult {
  const find = db.prepare<[string], { flowId: string; status: RunStatus; startedAt: number }>(
    'SELECT flow_id AS flowId, status, started_at AS startedAt FROM runs WHERE id = ?',
  );
  const mark = db.prepare(`
    UPDATE runs SET cancel_requested_at = ?, cancel_reason = ? WHERE id = ? AND cancel_requested_at IS NULL`);
  const closeRun = prepareCloseRun(db);
  return ({ runId, reason, at }) => {
    const run = find.get(runId);
    if (run === undefined) return { kind: 'unknown' };
    if (run.status !== 'Running') return { kind: 'ended', status: run.status };
    mark.run(at, reason, runId);
    const completedAt = closeRun(runId, 'cancelled', at) === null ? null : at;
    return { kind: 'accepted', run: { runId, flowId: run.flowId, startedAt: run.startedAt, completedAt } };
  };
}

export function prepareDeliverSignal(db: Database): (signal: Arguments<'deliverSignal'>) => SignalResult {
  const findRun = db.prepare<[string], { status: RunStatus }>('SELECT status FROM runs WHERE id = ?');
  const findWaiting = db.prepare<[string, string], { stepKey: string }>(
    'SELECT step_key AS stepKey FROM steps WHERE run_id = ? AND signal_name = ? ORDER BY started_at, step_key LIMIT 1',
  );
  const isKnown = db.prepare('SELECT 1 FROM signals WHERE run_id = ? AND name = ? LIMIT 1');
  const insert = db.prepare('INSERT INTO signals (run_id, name, body, delivered_at, step_key) VALUES (?, ?, ?, ?, ?)');
  const wake = db.prepare(
    'UPDATE steps SET due_at = ?, signal_name = NULL WHERE run_id = ? AND step_key = ? AND signal_name IS NOT NULL',
  );
  return ({ runId, name, body, at }) => {
    const run = findRun.get(runId);
    if (run === undefined) return { kind: 'unknown' };
    if (run.status !== 'Running') return { kind: 'ended', status: run.status };
    const stepKey = findWaiting.get(runId, name)?.stepKey ?? null;
    if (stepKey === null && isKnown.get(runId, name) !== undefined) return { kind: 'duplicate' };
    insert.run(runId, name, toJson(body), at, stepKey);
    if (stepKey !== null) wake.run(at, runId, stepKey);
    return { kind: 'accepted', stepKey };
  };
}

interface RetriedRun {
  readonly flowId: string;
  readonly revision: number;
  readonly status: RunStatus;
}

export function prepareRetryStep(db: Database): (retry: Arguments<'retryStep'>) => RetryResult {
  const findRun = db.prepare<[string], RetriedRun>('SELECT flow_id AS flowId, revision, status FROM runs WHERE id = ?');
  const findStatus = db.prepare<[string, string], { status: StepStatus }>(
    'SELECT status FROM steps WHERE run_id = ? AND step_key = ?',
  );
  const findLoop = db.prepare('SELECT 1 FROM loops WHERE run_id = ? AND step_key = ? AND total > 0');
  const listFailed = db.prepare<[string, string, string], { stepKey: string }>(`
    SELECT step_key AS stepKey FROM steps WHERE run_id = ? AND step_key >= ? AND step_key < ? AND status = 'Failed'`);
  const reopenRun = db.prepare(
    "UPDATE runs SET status = 'Running', completed_at = NULL, timeout_at = NULL WHERE id = ?",
  );
  const graphOf = prepareGraphOf(db);
  const reset = prepareReset(db);
  const tallies = prepareRunTallies(db);

  /** The steps to try again: of a loop that ran the children that failed, else the step itself. */
  const causes = (runId: string, stepKey: string): string[] => {
    if (findLoop.get(runId, stepKey) === undefined) return [stepKey];
    const children = listFailed.all(runId, `${stepKey}.`, `${stepKey}/`).map((row) => row.stepKey);
    const direct = children.filter((key) => iterationOf(parseRuntimeKey(key).scope)?.loopKey === stepKey);
    return direct.flatMap((key) => causes(runId, key));
  };

  return ({ runId, stepKey, at }) => {
    const run = findRun.get(runId);
    if (run === undefined) return { kind: 'unknownRun' };
    const graph = graphOf(run.flowId, run.revision);
    const status = findStatus.get(runId, stepKey)?.status;
    if (status === undefined && stepAt(graph, stepKey) === undefined) return { kind: 'unknownStep' };
    if (status !== 'Failed') return { kind: 'notFailed', stepStatus: status ?? 'Pending' };
    if (run.status === 'Cancelled' || run.status === 'TimedOut') return { kind: 'stopped', runStatus: run.status };
    const steps = causes(runId, stepKey);
    for (const key of steps) reset({ runId, stepKey: key, graph, at });
    tallies.reopening(runId);
    reopenRun.run(runId);
    return { kind: 'accepted', steps };
  };
}

function prepareReset(db: Database): (step: { runId: string; stepKey: string; graph: Graph; at: number }) => void {
  const makeDue = db.prepare(`
    UPDATE steps SET status = 'Pending', due_at = ?, interruptions = 0, attempt_base = attempt_count, output = NULL,
      error = NULL, completed_at = NULL
    WHERE run_id = ? AND step_key = ?`);
  const reopenLoop = db.prepare(`
    UPDATE steps SET status = 'Running', output = NULL, error = NULL, completed_at = NULL
    WHERE run_id = ? AND step_key = ? AND status = 'Failed'`);
  const reopenAttempt = db.prepare(`
    UPDATE attempts SET status = 'Running', error = NULL, completed_at = NULL
    WHERE run_id = ? AND step_key = ? AND attempt = (SELECT attempt_count FROM steps WHERE run_id = ? AND step_key = ?)`);
  const reopenIteration = db.prepare(
    'UPDATE loops SET ended = ended - 1, failed = failed - 1 WHERE run_id = ? AND step_key = ?',
  );
  const isIterationOpen = prepareIsOpen(db);
  const forget = db.prepare("DELETE FROM steps WHERE run_id = ? AND step_key = ? AND status = 'Skipped'");

  const forgetAfter = (runId: string, stepKey: string, graph: Graph) => {
    for (const key of downstreamOf(graph, stepKey)) forget.run(runId, key);
  };

  return ({ runId, stepKey, graph, at }) => {
    // Asked before the step is due again, which opens its iteration.
    const isOpen = isIterationOpen(runId, stepKey, graph);
    makeDue.run(at, runId, stepKey);
    forgetAfter(runId, stepKey, graph);
    for (let iteration = isOpen ? null : parseRuntimeKey(stepKey).iteration; iteration !== null; ) {
      const { loopKey } = iteration;
      reopenIteration.run(runId, loopKey);
      if (isIterationOpen.isLoopOpen(runId, loopKey)) return;
      const isOuterOpen = isIterationOpen(runId, loopKey, graph);
      reopenLoop.run(runId, loopKey);
      reopenAttempt.run(runId, loopKey, runId, loopKey);
      forgetAfter(runId, loopKey, graph);
      iteration = isOuterOpen ? null : parseRuntimeKey(loopKey).iteration;
    }
  };
}

/** Whether the iteration that a step belongs to has not been counted as ended; a step outside of loops has none. */
function prepareIsOpen(db: Database) {
  const findStatus = db.prepare<[string, string], { status: StepStatus }>(
    'SELECT status FROM steps WHERE run_id = ? AND step_key = ?',
  );
  const isEnded = (status: StepStatus | undefined) =>
    status === 'Succeeded' || status === 'Failed' || status === 'Skipped';
  const ask = (runId: string, stepKey: string, graph: Graph): boolean => {
    const { scope, iteration } = parseRuntimeKey(stepKey);
    if (iteration === null) return true;
    const siblings = Object.keys(stepAt(graph, iteration.loopKey)?.steps ?? {});
    return !siblings.every((key) => isEnded(findStatus.get(runId, `${scope}${key}`)?.status));
  };
  return Object.assign(ask, {
    isLoopOpen: (runId: string, loopKey: string) => !isEnded(findStatus.get(runId, loopKey)?.status),
  });
}

/** Runtime keys of every step of the scope that runs after this one, at whatever distance. */
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
