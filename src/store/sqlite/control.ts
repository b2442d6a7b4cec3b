import type { Database } from 'better-sqlite3';
import type { WiredGraph } from '../../flows/planner.ts';
import { graphOfScope, parseRuntimeKey, scopeOfIteration, stepAt } from '../../flows/runtime-keys.ts';
import type { Json } from '../../model/json.ts';
import type { Graph, RunStatus, StepStatus } from '../../model/manifest.ts';
import { STOP_ERRORS } from '../../model/run.ts';
import type { ReceivedSignal, RunStop, StoppedRun } from '../store.ts';
import { fromJson, toError, toJson } from './columns.ts';
import { prepareRunTallies } from './figures.ts';
import { prepareGraphOf } from './flows.ts';
import { prepareIterationEnd, prepareListFailures } from './loops.ts';
import type { Member } from './messages.ts';

export const controlOperations = {
  cancelRun: { thread: 'writer', prepare: prepareCancelRun },
  retryStep: { thread: 'writer', prepare: prepareRetryStep },
  deliverSignal: { thread: 'writer', prepare: prepareDeliverSignal },
} as const;

function prepareCancelRun(db: Database): Member<'cancelRun'> {
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

function prepareRetryStep(db: Database): Member<'retryStep'> {
  const findRun = db.prepare<[string], RetriedRun>(`
    SELECT flow_id AS flowId, revision, status, cancel_requested_at AS cancelRequestedAt, timed_out_at AS timedOutAt
    FROM runs WHERE id = ?`);
  const findStep = db.prepare<[string, string], { status: StepStatus; error: string | null }>(
    'SELECT status, error FROM steps WHERE run_id = ? AND step_key = ?',
  );
  const findLoop = db.prepare<[string, string], { failed: number }>(
    'SELECT failed FROM loops WHERE run_id = ? AND step_key = ? AND total > 0',
  );
  // A run in flight keeps its deadline; a run that had ended has used its time up.
  const reopenRun = db.prepare(`
    UPDATE runs SET timeout_at = CASE WHEN status = 'Running' THEN timeout_at END, status = 'Running',
      completed_at = NULL
    WHERE id = ?`);
  const graphOf = prepareGraphOf(db);
  const listFailures = prepareListFailures(db);
  const reset = prepareReset(db);
  const tallies = prepareRunTallies(db);

  /** The steps to try again: of a loop that ran the children that made it fail, else the step itself. */
  const causes = (runId: string, stepKey: string, graph: WiredGraph): string[] => {
    const loop = findLoop.get(runId, stepKey);
    const own = graphOfScope(graph, scopeOfIteration({ loopKey: stepKey, index: 0 }));
    if (loop === undefined || own === undefined) return [stepKey];
    return listFailures(runId, { loopKey: stepKey, failed: loop.failed }, own).flatMap((key) =>
      causes(runId, key, graph),
    );
  };

  return ({ runId, stepKey, at }) => {
    const run = findRun.get(runId);
    if (run === undefined) return { kind: 'unknownRun' };
    const graph = graphOf(run.flowId, run.revision);
    const step = findStep.get(runId, stepKey);
    if (step === undefined && stepAt(graph, stepKey) === undefined) return { kind: 'unknownStep' };
    if (step?.status !== 'Failed') return { kind: 'notFailed', stepStatus: step?.status ?? 'Pending' };
    const stop = stopOf(run);
    if (stop !== null) return { kind: 'stopped', runStatus: stop === 'timedOut' ? 'TimedOut' : 'Cancelled' };
    const steps = causes(runId, stepKey, graph);
    if (steps.length === 0) return { kind: 'nothingToRetry', error: toError(step.error) };
    for (const key of steps) reset({ runId, stepKey: key, graph, at });
    tallies.reopening(runId);
    reopenRun.run(runId);
    return { kind: 'accepted', steps };
  };
}

interface RetriedRun extends StopTimes {
  readonly flowId: string;
  readonly revision: number;
  readonly status: RunStatus;
}

function prepareReset(db: Database): (step: { runId: string; stepKey: string; graph: WiredGraph; at: number }) => void {
  // The step's own row told of it so far: see `ATTEMPTS`.
  const keepAttempt = db.prepare(`
    INSERT OR IGNORE INTO attempts (
      run_id, step_key, attempt, status, due_at, started_at, completed_at, error, input, output
    ) SELECT run_id, step_key, 1, status, started_at, started_at, completed_at, error, input, output FROM steps
    WHERE run_id = ? AND step_key = ? AND attempt_count = 1`);
  const makeDue = db.prepare(`
    UPDATE steps SET status = 'Pending', due_at = ?, interruptions = 0, deaths = 0, lone_deaths = 0,
      attempt_base = attempt_count, output = NULL, error = NULL, completed_at = NULL,
      flow_id = (SELECT flow_id FROM runs WHERE id = run_id)
    WHERE run_id = ? AND step_key = ?`);
  // A loop that succeeded opens again too: a failure in it may have been handled.
  const reopenLoop = db.prepare(`
    UPDATE steps SET status = 'Running', output = NULL, error = NULL, completed_at = NULL
    WHERE run_id = ? AND step_key = ? AND status <> 'Running'`);
  const reopenAttempt = db.prepare(`
    UPDATE attempts SET status = 'Running', error = NULL, completed_at = NULL
    WHERE run_id = ? AND step_key = ? AND attempt = (SELECT attempt_count FROM steps WHERE run_id = ? AND step_key = ?)`);
  const uncountIteration = db.prepare(
    'UPDATE loops SET ended = ended - 1, failed = failed - ? WHERE run_id = ? AND step_key = ?',
  );
  const iterationEnd = prepareIterationEnd(db);
  const forget = db.prepare("DELETE FROM steps WHERE run_id = ? AND step_key = ? AND status = 'Skipped'");

  const forgetAfter = (runId: string, stepKey: string, graph: WiredGraph) => {
    for (const key of downstreamOf(graph, stepKey)) forget.run(runId, key);
  };
  /** Takes the iteration of a step back out of the counts, and does the same for the loops around its loop. */
  const reopenAround = (runId: string, stepKey: string, graph: WiredGraph) => {
    const { scope, iteration } = parseRuntimeKey(stepKey);
    const end = iteration === null ? null : iterationEnd(runId, scope, graph);
    if (iteration === null || end === null) return;
    const { loopKey } = iteration;
    uncountIteration.run(Number(end === 'Failed'), runId, loopKey);
    // Before the loop is open again, which opens the iteration that contains it.
    reopenAround(runId, loopKey, graph);
    if (reopenLoop.run(runId, loopKey).changes === 0) return;
    reopenAttempt.run(runId, loopKey, runId, loopKey);
    forgetAfter(runId, loopKey, graph);
  };

  return ({ runId, stepKey, graph, at }) => {
    keepAttempt.run(runId, stepKey);
    // While the step still has ended: after that its iteration is open.
    reopenAround(runId, stepKey, graph);
    makeDue.run(at, runId, stepKey);
    forgetAfter(runId, stepKey, graph);
  };
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

function prepareDeliverSignal(db: Database): Member<'deliverSignal'> {
  const findRun = db.prepare<[string], SignalledRun>(`
    SELECT status, timeout_at AS timeoutAt, cancel_requested_at AS cancelRequestedAt, timed_out_at AS timedOutAt
    FROM runs WHERE id = ?`);
  const findWaiting = db.prepare<[string, string], { stepKey: string }>(
    'SELECT step_key AS stepKey FROM steps WHERE run_id = ? AND signal_name = ? ORDER BY started_at, step_key LIMIT 1',
  );
  const isKnown = db.prepare('SELECT 1 FROM signals WHERE run_id = ? AND name = ? LIMIT 1');
  const insert = db.prepare('INSERT INTO signals (run_id, name, body, delivered_at, step_key) VALUES (?, ?, ?, ?, ?)');
  const wake = db.prepare(
    `UPDATE steps SET due_at = ?, signal_name = NULL, limit_at = NULL
    WHERE run_id = ? AND step_key = ? AND signal_name IS NOT NULL`,
  );
  return ({ runId, name, body, at }) => {
    const run = findRun.get(runId);
    if (run === undefined) return { kind: 'unknown' };
    const status = statusAt(run, at);
    if (status !== 'Running') return { kind: 'ended', status };
    const stepKey = findWaiting.get(runId, name)?.stepKey ?? null;
    if (stepKey === null && isKnown.get(runId, name) !== undefined) return { kind: 'duplicate' };
    insert.run(runId, name, toJson(body), at, stepKey);
    if (stepKey !== null) wake.run(at, runId, stepKey);
    return { kind: 'accepted', stepKey };
  };
}

interface SignalledRun extends StopTimes {
  readonly status: RunStatus;
  readonly timeoutAt: number | null;
}

/** A run that was told to stop, or whose time is up, takes no signals: no step would go on with them. */
function statusAt({ status, timeoutAt, ...times }: SignalledRun, at: number): RunStatus {
  if (status !== 'Running') return status;
  const stop = stopOf(times) ?? (timeoutAt !== null && timeoutAt <= at ? 'timedOut' : null);
  return stop === null ? 'Running' : stop === 'timedOut' ? 'TimedOut' : 'Cancelled';
}

/** What a waiting step stores while it waits. */
export interface Wait {
  readonly state: Json;
  /** The signal that it waits for, null if it waits for a time only; absent in rows of earlier releases. */
  readonly name?: string | null;
  /** Signals that this attempt has gone on with, by id; absent in rows of earlier releases. */
  readonly used?: readonly number[];
}

interface TakenSignal {
  readonly id: number;
  readonly signal: ReceivedSignal;
}

/**
 * A signal belongs to the step that took it. An attempt gets each signal at most once; an attempt that failed or was
 * interrupted leaves its signals to the next.
 */
interface SignalsOfStep {
  /** The signal that ended the wait; null if its time came instead. */
  findCame(runId: string, stepKey: string, wait: Wait): TakenSignal | null;
  /** The signals an attempt has gone on with once it knows how its wait ended. */
  listUsed(runId: string, stepKey: string, wait: Wait | null): readonly number[];
  /**
   * Whether a signal is there for a wait that begins: the step's own from an earlier attempt, else one not taken yet.
   */
  take(runId: string, stepKey: string, wait: { readonly name: string; readonly used: readonly number[] }): boolean;
}

export function prepareSignalsOfStep(db: Database): SignalsOfStep {
  const columns = 'SELECT id, body, delivered_at AS deliveredAt FROM signals';
  const unused = 'run_id = ? AND step_key = ? AND name = ? AND id NOT IN (SELECT value FROM json_each(?))';
  const find = db.prepare<[string, string, string, string], SignalRow>(
    `${columns} WHERE ${unused} ORDER BY id LIMIT 1`,
  );
  const findLast = db.prepare<[string, string], SignalRow>(
    `${columns} WHERE run_id = ? AND step_key = ? ORDER BY id DESC LIMIT 1`,
  );
  const listOwn = db.prepare<[string, string], { id: number }>(
    'SELECT id FROM signals WHERE run_id = ? AND step_key = ?',
  );
  const takeFree = db.prepare(`
    UPDATE signals SET step_key = ?
    WHERE id = (SELECT min(id) FROM signals WHERE run_id = ? AND name = ? AND step_key IS NULL)`);

  const findCame: SignalsOfStep['findCame'] = (runId, stepKey, { name, used = [] }) => {
    if (name === null) return null;
    const row =
      name === undefined ? findLast.get(runId, stepKey) : find.get(runId, stepKey, name, JSON.stringify(used));
    if (row === undefined) return null;
    return { id: row.id, signal: { body: fromJson(row.body), deliveredAt: row.deliveredAt } };
  };
  return {
    findCame,
    listUsed(runId, stepKey, wait) {
      if (wait === null) return [];
      if (wait.used === undefined) return listOwn.all(runId, stepKey).map(({ id }) => id);
      const came = findCame(runId, stepKey, wait);
      return came === null ? wait.used : [...wait.used, came.id];
    },
    take: (runId, stepKey, { name, used }) =>
      find.get(runId, stepKey, name, JSON.stringify(used)) !== undefined ||
      takeFree.run(stepKey, runId, name).changes > 0,
  };
}

interface SignalRow {
  readonly id: number;
  readonly body: string | null;
  readonly deliveredAt: number;
}

export function readWait(text: string | null): Wait | null {
  return text === null ? null : (fromJson(text) as unknown as Wait);
}

/** When a run was told to stop, and by what. */
export interface StopTimes {
  readonly cancelRequestedAt: number | null;
  readonly timedOutAt: number | null;
}

/** Why a run has to end; the earlier reason counts. */
export function stopOf({ cancelRequestedAt, timedOutAt }: StopTimes): RunStop | null {
  if (cancelRequestedAt === null && timedOutAt === null) return null;
  return timedOutAt === null || (cancelRequestedAt ?? Number.POSITIVE_INFINITY) <= timedOutAt
    ? 'cancelled'
    : 'timedOut';
}

/** Ends a run that was told to stop, unless a step of it still runs under a lease; yields how it ended, else null. */
export function prepareCloseRun(db: Database): (runId: string, stop: RunStop, at: number) => RunStatus | null {
  const findLeased = db.prepare('SELECT 1 FROM steps WHERE run_id = ? AND lease_token IS NOT NULL LIMIT 1');
  // Steps that never began are skipped. Steps that wait, are due again or are loops began and did not succeed.
  const closeSteps = db.prepare(`
    UPDATE steps SET status = CASE WHEN attempt_count = 0 THEN 'Skipped' ELSE 'Failed' END,
      skip_reason = CASE WHEN attempt_count = 0 THEN ? END,
      error = CASE WHEN attempt_count = 0 THEN NULL ELSE ? END,
      due_at = NULL, limit_at = NULL, wait = NULL, signal_name = NULL, completed_at = ?
    WHERE run_id = ? AND status IN ('Pending', 'Running')`);
  const closeAttempts = db.prepare(`
    UPDATE attempts SET status = 'Failed', error = ?, completed_at = ? WHERE run_id = ? AND status = 'Running'`);
  const tallies = prepareRunTallies(db);
  return (runId, stop, at) => {
    if (findLeased.get(runId) !== undefined) return null;
    const error = STOP_ERRORS[stop];
    closeSteps.run(error.message, JSON.stringify(error), at, runId);
    closeAttempts.run(JSON.stringify(error), at, runId);
    const status = stop === 'timedOut' ? 'TimedOut' : 'Cancelled';
    tallies.end(runId, status, at);
    return status;
  };
}

/** Tells the runs whose time is up to stop; at most `limit` a call. */
export function prepareTimeOutRuns(db: Database): (now: number, limit: number) => StoppedRun[] {
  const list = db.prepare<[number, number], Omit<StoppedRun, 'completedAt'>>(`
    SELECT id AS runId, flow_id AS flowId, started_at AS startedAt FROM runs
    WHERE status = 'Running' AND timeout_at IS NOT NULL AND timed_out_at IS NULL AND timeout_at <= ?
    ORDER BY timeout_at LIMIT ?`);
  const mark = db.prepare('UPDATE runs SET timed_out_at = ? WHERE id = ?');
  const closeRun = prepareCloseRun(db);
  return (now, limit) =>
    list.all(now, limit).map((run) => {
      mark.run(now, run.runId);
      return { ...run, completedAt: closeRun(run.runId, 'timedOut', now) === null ? null : now };
    });
}
