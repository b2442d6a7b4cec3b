import type { Database } from 'better-sqlite3';
import { planNext, type WiredGraph } from '../../flows/planner.ts';
import { graphOfScope, iterationOf, parseRuntimeKey, scopeOfIteration, tokenOf } from '../../flows/runtime-keys.ts';
import type { Json } from '../../model/json.ts';
import type { RunStatus, StepStatus } from '../../model/manifest.ts';
import { STOP_ERRORS } from '../../model/run.ts';
import type { BirthLease, EndedLoop, LeasedStep, RunStop, StepOutcome, StepResult } from '../store.ts';
import { toJson } from './columns.ts';
import { prepareCloseRun, prepareSignalsOfStep, readWait, type StopTimes, stopOf, type Wait } from './control.ts';
import { prepareBeginAttempt } from './dispatch.ts';
import { prepareRunTallies } from './figures.ts';
import { prepareGraphOf } from './flows.ts';
import { prepareLoopItem, prepareLoops, prepareStatesIn } from './loops.ts';
import type { Member } from './messages.ts';

interface RunOfStep extends StopTimes {
  readonly runStatus: RunStatus;
  readonly flowId: string;
  readonly revision: number;
  readonly startedAt: number;
}

export function prepareAdvance(db: Database): Member<'advance'> {
  // Not as a join, which took 17 µs instead of 4.
  const findAttempt = db.prepare<[string, string, string], { attempt: number }>(
    'SELECT attempt_count AS attempt FROM steps WHERE run_id = ? AND step_key = ? AND lease_token = ?',
  );
  const findRun = db.prepare<[string], RunOfStep>(`
    SELECT status AS runStatus, flow_id AS flowId, revision, started_at AS startedAt,
      cancel_requested_at AS cancelRequestedAt, timed_out_at AS timedOutAt
    FROM runs WHERE id = ?`);
  const keepOutcome = prepareKeepOutcome(db);
  const planning = preparePlanning(db);
  const closeRun = prepareCloseRun(db);

  return (given, lease) => {
    const { runId, stepKey, at } = given;
    const held = findAttempt.get(runId, stepKey, given.token);
    const run = held && findRun.get(runId);
    if (held === undefined || run === undefined) return undefined;
    const isRunning = run.runStatus === 'Running';
    const stop = stopOf(run);
    const outcome = isRunning && stop === null ? given : { ...given, result: finalResult(given.result, stop) };
    keepOutcome(outcome, held.attempt);

    const { flowId, revision, startedAt } = run;
    const results = { dispatched: [], leased: [], skipped: [], loops: [], begun: null, end: null };
    const progress: Progress = { runId, flowId, revision, at, lease, ...results };
    if (isRunning && stop !== null) progress.end = closeRun(runId, stop, at);
    else if (isRunning) follow(outcome, progress, planning);
    const { dispatched, leased, skipped, loops, end } = progress;
    const endedRun = end === null ? null : { flowId, startedAt, completedAt: at };
    const advance = { runStatus: end ?? run.runStatus, endedRun, dispatched, skipped, loops };
    return leased.length === 0 ? advance : { ...advance, leased };
  };
}

/**
 * In a run that has ended or has to end, nothing is retried, waited for or begun: the attempt's failure is the step's.
 */
function finalResult(result: StepResult, stop: RunStop | null): StepResult {
  if (result.kind === 'retry') return { ...result, kind: 'failed' };
  if (result.kind === 'waiting' || result.kind === 'loop')
    return { kind: 'failed', error: STOP_ERRORS[stop ?? 'cancelled'] };
  return result;
}

function follow({ stepKey, result }: StepOutcome, progress: Progress, planning: Planning): void {
  if (result.kind === 'waiting') return;
  if (result.kind === 'retry') progress.dispatched.push(stepKey);
  else if (result.kind === 'loop') planning.startLoop(progress, { ...result, loopKey: stepKey });
  else planning.planScope(progress, parseRuntimeKey(stepKey).scope);
}

/** Stores the result of an attempt: an end, another try, a wait, or a loop whose children go on. */
function prepareKeepOutcome(db: Database): (outcome: StepOutcome, attempt: number) => void {
  const keepTrace = db.prepare('UPDATE steps SET evaluation_trace = ? WHERE run_id = ? AND step_key = ?');
  const endAttempt = prepareEndAttempt(db);
  const skipStep = prepareSkipStep(db);
  const waitStep = prepareWaitStep(db);
  const startLoop = db.prepare(`
    UPDATE steps SET due_at = NULL, lease_token = NULL, wait = NULL, signal_name = NULL, input = ?
    WHERE run_id = ? AND step_key = ?`);
  const begin = prepareBeginAttempt(db);
  return (outcome, written) => {
    const { token, runId, stepKey, at, input, evaluationTrace, result } = outcome;
    if (evaluationTrace !== undefined) keepTrace.run(toJson(evaluationTrace), runId, stepKey);
    // The attempt goes on after this, so that its row is needed; else it is written with its end, or never.
    const isOpen = result.kind === 'waiting' || result.kind === 'loop';
    if (written === 0 && isOpen) begin({ token, dueAt: outcome.dueAt ?? at, startedAt: outcome.startedAt ?? at });
    const attempt = written === 0 && isOpen ? 1 : written;
    switch (result.kind) {
      case 'skipped':
        skipStep(outcome, result.reason, attempt);
        break;
      case 'waiting':
        waitStep(outcome, result, attempt);
        break;
      case 'loop':
        startLoop.run(toJson(input), runId, stepKey);
        break;
      default:
        endAttempt(outcome, result, attempt);
    }
  };
}

/** A step that has an outcome did not take its process down, so its interruptions do not count as tries. */
const SURVIVED = 'attempt_base = attempt_base + interruptions, interruptions = 0, deaths = 0, lone_deaths = 0';

/** Closes the attempt, and the step unless it is due again. */
function prepareEndAttempt(db: Database) {
  const endAttempt = db.prepare(`
    UPDATE attempts SET status = ?, input = ?, output = ?, error = ?, completed_at = ?
    WHERE run_id = ? AND step_key = ? AND attempt = ?`);
  const insertAttempt = db.prepare(`
    INSERT INTO attempts (
      run_id, step_key, attempt, due_at, started_at, status, input, output, error, completed_at
    ) VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?, ?)`);
  const endStep = db.prepare(`
    UPDATE steps SET status = ?, due_at = ?, lease_token = NULL, wait = NULL, signal_name = NULL, input = ?, output = ?,
      error = ?, completed_at = ?, ${SURVIVED}
    WHERE run_id = ? AND step_key = ?`);
  const endFirst = db.prepare(`
    UPDATE steps SET status = ?, due_at = ?, lease_token = NULL, attempt_count = 1, started_at = ?, input = ?, output = ?,
      error = ?, completed_at = ?
    WHERE run_id = ? AND step_key = ?`);
  return (
    { runId, stepKey, at, dueAt = at, startedAt = at, input }: StepOutcome,
    result: Extract<StepResult, { kind: 'succeeded' | 'failed' | 'retry' }>,
    attempt: number,
  ): void => {
    const status: StepStatus = result.kind === 'succeeded' ? 'Succeeded' : 'Failed';
    const record = [toJson(input), toJson(result.output), result.kind === 'succeeded' ? null : toJson(result.error)];
    const step =
      result.kind === 'retry'
        ? { status: 'Pending', dueAt: result.dueAt, completedAt: null }
        : { status, dueAt: null, completedAt: at };
    if (attempt === 0) {
      // The row of a step that has ended says all of its only attempt: see `ATTEMPTS`.
      if (result.kind === 'retry') insertAttempt.run(runId, stepKey, dueAt, startedAt, status, record, at);
      endFirst.run(step.status, step.dueAt, startedAt, record, step.completedAt, runId, stepKey);
    } else {
      endAttempt.run(status, record, at, runId, stepKey, attempt);
      endStep.run(step.status, step.dueAt, record, step.completedAt, runId, stepKey);
    }
  };
}

/** Ends a step that its condition skipped, and deletes the attempt that was claimed for it. */
function prepareSkipStep(db: Database): (outcome: StepOutcome, reason: string, attempt: number) => void {
  const dropAttempt = db.prepare('DELETE FROM attempts WHERE run_id = ? AND step_key = ? AND attempt = ?');
  const skipStep = db.prepare(`
    UPDATE steps SET status = 'Skipped', due_at = NULL, lease_token = NULL, skip_reason = ?, completed_at = ?,
      attempt_count = max(0, attempt_count - 1), started_at = CASE WHEN attempt_count <= 1 THEN NULL ELSE started_at END
    WHERE run_id = ? AND step_key = ?`);
  return ({ runId, stepKey, at }, reason, attempt) => {
    dropAttempt.run(runId, stepKey, attempt);
    skipStep.run(reason, at, runId, stepKey);
  };
}

/** Lets a step wait with its attempt open. It takes a signal that was sent before at once, and is due now. */
function prepareWaitStep(db: Database) {
  const findWait = db.prepare<[string, string], { wait: string | null }>(
    'SELECT wait FROM steps WHERE run_id = ? AND step_key = ?',
  );
  const signals = prepareSignalsOfStep(db);
  const wait = db.prepare(`
    UPDATE steps SET status = 'Pending', due_at = ?, lease_token = NULL, wait = ?, signal_name = ?, limit_at = ?,
      input = ?, ${SURVIVED}
    WHERE run_id = ? AND step_key = ?`);
  const keepInput = db.prepare('UPDATE attempts SET input = ? WHERE run_id = ? AND step_key = ? AND attempt = ?');
  return (
    { runId, stepKey, at, input }: StepOutcome,
    { state, dueAt, signalName, limitAt }: Extract<StepResult, { kind: 'waiting' }>,
    attempt: number,
  ): void => {
    keepInput.run(toJson(input), runId, stepKey, attempt);
    const last = readWait(findWait.get(runId, stepKey)?.wait ?? null);
    const next = { state, name: signalName, used: signals.listUsed(runId, stepKey, last) } satisfies Wait;
    const isSent = signalName !== null && signals.take(runId, stepKey, { name: signalName, used: next.used });
    const due = isSent
      ? { dueAt: at, signalName: null, limitAt: null }
      : { dueAt, signalName, limitAt: limitAt ?? null };
    wait.run(due.dueAt, JSON.stringify(next), due.signalName, due.limitAt, toJson(input), runId, stepKey);
  };
}

/** The run whose next steps are planned, and the results so far. */
interface Progress {
  readonly runId: string;
  readonly flowId: string;
  readonly revision: number;
  readonly at: number;
  readonly lease: BirthLease | undefined;
  readonly dispatched: string[];
  readonly leased: LeasedStep[];
  readonly skipped: { readonly stepKey: string; readonly reason: string }[];
  readonly loops: EndedLoop[];
  /** The loop that this outcome begins. */
  begun: Parameters<Loops['insert']>[1] | null;
  /** How the run ended; null while it goes on. */
  end: RunStatus | null;
}

type Loops = ReturnType<typeof prepareLoops>;

interface Planning {
  /** Plans what follows in a scope whose steps changed, and in the scopes around it where this one ends. */
  planScope(progress: Progress, scope: string): void;
  /** Starts the first iterations of a loop; one without items ends at once. */
  startLoop(progress: Progress, loop: Parameters<Loops['insert']>[1]): void;
}

function preparePlanning(db: Database): Planning {
  const graphOf = prepareGraphOf(db);
  const rows = prepareRows(db);
  const loops = prepareLoops(db);
  const graphIn = ({ flowId, revision }: Progress, scope: string): WiredGraph => {
    const graph = graphOfScope(graphOf(flowId, revision), scope);
    if (graph === undefined) throw new Error(`Revision ${revision} of the flow ${flowId} has no scope ${scope}`);
    return graph;
  };

  const planScope = (progress: Progress, scope: string): void => {
    const { runId, at } = progress;
    const graph = graphIn(progress, scope);
    const plan = planNext(graph, rows.statesIn(runId, scope, graph));
    const typeOf = (stepKey: string) => graph[stepKey]?.type;
    for (const localKey of plan.start) {
      rows.insertNext(progress, { stepKey: `${scope}${localKey}`, stepType: typeOf(localKey) ?? '' });
    }
    for (const { stepKey: localKey, reason } of plan.skip) {
      rows.insertSkipped({ runId, stepKey: `${scope}${localKey}`, stepType: typeOf(localKey), reason, at });
      progress.skipped.push({ stepKey: `${scope}${localKey}`, reason });
    }
    if (plan.end === null) return;
    const iteration = iterationOf(scope);
    if (iteration === null) {
      progress.end = plan.end;
      rows.endRun(runId, plan.end, at);
    } else {
      loops.endIteration(runId, iteration.loopKey, plan.end === 'Failed');
      goOn(progress, iteration.loopKey);
    }
  };

  /** Starts as many iterations as may run at once, and none after a failure. Ends the loop when none is left. */
  const goOn = (progress: Progress, loopKey: string): void => {
    const { runId } = progress;
    let loop = loops.find(runId, loopKey);
    while (loop.failed === 0 && loop.started < loop.total && loop.started - loop.ended < loop.concurrency) {
      loops.startIteration(runId, loopKey);
      planScope(progress, scopeOfIteration({ loopKey, index: loop.started }));
      loop = { ...loop, started: loop.started + 1 };
    }
    if (loop.ended === loop.started) endLoop(progress, loopKey, loop);
  };

  const endLoop = (progress: Progress, loopKey: string, loop: ReturnType<Loops['find']>): void => {
    const graph = graphIn(progress, scopeOfIteration({ loopKey, index: 0 }));
    progress.loops.push(loops.end(progress, { ...loop, loopKey }, graph));
    planScope(progress, parseRuntimeKey(loopKey).scope);
  };

  return {
    planScope,
    startLoop(progress, loop) {
      loops.insert(progress.runId, loop);
      progress.begun = loop;
      goOn(progress, loop.loopKey);
    },
  };
}

function prepareRows(db: Database) {
  const statesIn = prepareStatesIn(db);
  const insert = db.prepare<unknown[]>(`
    INSERT INTO steps (run_id, flow_id, step_key, step_type, status, due_at, lease_token, started_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)`);
  const loopItem = prepareLoopItem(db);
  // What this transaction stores is not read: it would stay in memory even if the transaction were rolled back.
  const itemOf = ({ runId, begun }: Progress, { loopKey, index }: { loopKey: string; index: number }): Json =>
    begun?.loopKey === loopKey ? (begun.items[index] ?? null) : loopItem(runId, loopKey, index);
  const insertSkipped = db.prepare(
    "INSERT INTO steps (run_id, step_key, step_type, status, skip_reason, completed_at) VALUES (?, ?, ?, 'Skipped', ?, ?)",
  );
  const tallies = prepareRunTallies(db);
  return {
    statesIn,
    /** Inserts a step that is to start: leased where the caller has room for it, else due. */
    insertNext(progress: Progress, { stepKey, stepType }: { stepKey: string; stepType: string }) {
      const { runId, flowId, at, lease, leased } = progress;
      progress.dispatched.push(stepKey);
      if (lease === undefined || leased.length >= lease.limit) {
        insert.run(runId, flowId, stepKey, stepType, 'Pending', at, null, null);
        return;
      }
      const token = tokenOf(runId, stepKey, lease.holder);
      insert.run(runId, flowId, stepKey, stepType, 'Running', lease.leasedUntil, token, at);
      const { iteration } = parseRuntimeKey(stepKey);
      const loop = iteration && { item: itemOf(progress, iteration), index: iteration.index };
      leased.push({ stepKey, stepType, loop });
    },
    insertSkipped: (skip: {
      runId: string;
      stepKey: string;
      stepType: string | undefined;
      reason: string;
      at: number;
    }) => insertSkipped.run(skip.runId, skip.stepKey, skip.stepType, skip.reason, skip.at),
    endRun: tallies.end,
  };
}
