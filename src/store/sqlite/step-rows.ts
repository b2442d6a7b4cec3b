import type { Database } from 'better-sqlite3';
import { leasedStep } from '../../flows/runtime-keys.ts';
import type { StepStatus } from '../../model/manifest.ts';
import type { Answers } from '../decisions/decision.ts';
import type { EndedAttempt, RunReads, RunWrites } from '../decisions/rows.ts';
import { toError, toJson } from '../json-columns.ts';
import type { BegunAttempt } from '../store.ts';
import { HOST_OF_STEP } from './runs.ts';

type Read = 'statesIn' | 'findStep' | 'findWait' | 'findAttemptStart';

export function prepareStepReads(db: Database): Pick<Answers<RunReads>, Read> {
  const findStep = db.prepare<[string, string], { status: StepStatus; error: string | null }>(
    'SELECT status, error FROM steps WHERE run_id = ? AND step_key = ?',
  );
  const findWait = db.prepare<[string, string], { wait: string | null }>(
    'SELECT wait FROM steps WHERE run_id = ? AND step_key = ?',
  );
  const findStart = db.prepare<[string, string, number], { startedAt: number }>(
    'SELECT started_at AS startedAt FROM attempts WHERE run_id = ? AND step_key = ? AND attempt = ?',
  );
  return {
    statesIn: prepareStatesIn(db),
    findStep(runId, stepKey) {
      const step = findStep.get(runId, stepKey);
      return step && { status: step.status, error: toError(step.error) };
    },
    findWait: (runId, stepKey) => findWait.get(runId, stepKey)?.wait ?? null,
    findAttemptStart: (runId, stepKey, attempt) => findStart.get(runId, stepKey, attempt)?.startedAt,
  };
}

function prepareStatesIn(db: Database): Answers<RunReads>['statesIn'] {
  const listAll = db.prepare<[string], { stepKey: string; status: StepStatus }>(
    'SELECT step_key AS stepKey, status FROM steps WHERE run_id = ?',
  );
  const listSome = db.prepare<[string, string], { stepKey: string; status: StepStatus }>(`
    SELECT step_key AS stepKey, status FROM steps
    WHERE run_id = ? AND step_key IN (SELECT value FROM json_each(?))`);
  return (runId, scope, graph) => {
    // In a run with loops, reads only the scope's own rows: there may be thousands of others.
    const isWhole = scope === '' && Object.values(graph).every(({ steps }) => steps === undefined);
    const keys = () => JSON.stringify(Object.keys(graph).map((key) => `${scope}${key}`));
    const found = isWhole ? listAll.all(runId) : listSome.all(runId, keys());
    return new Map(found.map(({ stepKey, status }) => [stepKey.slice(scope.length), status]));
  };
}

/** A step that has an outcome did not take its process down, so its interruptions do not count as tries. */
const SURVIVED = 'attempt_base = attempt_base + interruptions, interruptions = 0, deaths = 0, lone_deaths = 0';

type OutcomeWrite = 'keepTrace' | 'beginAttempt' | 'endAttempt' | 'skipStep' | 'keepWait';

/** What an outcome does to its own step. */
export function prepareOutcomeWrites(db: Database): Pick<RunWrites, OutcomeWrite> {
  const keepTrace = db.prepare('UPDATE steps SET evaluation_trace = ? WHERE run_id = ? AND step_key = ?');
  const dropAttempt = db.prepare('DELETE FROM attempts WHERE run_id = ? AND step_key = ? AND attempt = ?');
  const skip = db.prepare(`
    UPDATE steps SET status = 'Skipped', due_at = NULL, lease_token = NULL, skip_reason = ?, completed_at = ?,
      attempt_count = max(0, attempt_count - 1), started_at = CASE WHEN attempt_count <= 1 THEN NULL ELSE started_at END
    WHERE run_id = ? AND step_key = ?`);
  const wait = db.prepare(`
    UPDATE steps SET status = 'Pending', due_at = ?, lease_token = NULL, wait = ?, signal_name = ?, limit_at = ?,
      input = ?, ${SURVIVED}
    WHERE run_id = ? AND step_key = ?`);
  const keepInput = db.prepare('UPDATE attempts SET input = ? WHERE run_id = ? AND step_key = ? AND attempt = ?');
  return {
    keepTrace: ({ runId, stepKey }, trace) => keepTrace.run(toJson(trace), runId, stepKey),
    beginAttempt: prepareBeginAttempt(db),
    endAttempt: prepareEndAttempt(db),
    skipStep({ runId, stepKey, reason, at }, attempt) {
      dropAttempt.run(runId, stepKey, attempt);
      skip.run(reason, at, runId, stepKey);
    },
    keepWait({ runId, stepKey, attempt, wait: kept, dueAt, signalName, limitAt, ...step }) {
      const input = toJson(step.input);
      keepInput.run(input, runId, stepKey, attempt);
      wait.run(dueAt, kept, signalName, limitAt, input, runId, stepKey);
    },
  };
}

function prepareBeginAttempt(db: Database): (begun: BegunAttempt) => void {
  const begin = db.prepare(`
    UPDATE steps SET attempt_count = 1, started_at = ?
    WHERE run_id = ? AND step_key = ? AND lease_token = ? AND attempt_count = 0`);
  const insert = db.prepare(
    "INSERT INTO attempts (run_id, step_key, attempt, status, due_at, started_at) VALUES (?, ?, 1, 'Running', ?, ?)",
  );
  return ({ token, dueAt, startedAt }) => {
    const { runId, stepKey } = leasedStep(token);
    if (begin.run(startedAt, runId, stepKey, token).changes > 0) insert.run(runId, stepKey, dueAt, startedAt);
  };
}

function prepareEndAttempt(db: Database): (ended: EndedAttempt) => void {
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
  return ({ runId, stepKey, written, dueAt, startedAt, status, input, output, error, at, retryAt, needsRow }) => {
    const record = [toJson(input), toJson(output), toJson(error)];
    const isOver = retryAt === null;
    const step = { status: isOver ? status : 'Pending', completedAt: isOver ? at : null };
    if (written === 0) {
      if (needsRow) insertAttempt.run(runId, stepKey, dueAt, startedAt, status, record, at);
      endFirst.run(step.status, retryAt, startedAt, record, step.completedAt, runId, stepKey);
    } else {
      endAttempt.run(status, record, at, runId, stepKey, written);
      endStep.run(step.status, retryAt, record, step.completedAt, runId, stepKey);
    }
  };
}

type PlanWrite = 'insertNext' | 'insertSkipped' | 'retryStep' | 'forgetSkipped' | 'wakeStep' | 'closeSteps';

/** What a plan, a retry, a signal or a stop does to the steps of a run. */
export function preparePlanWrites(db: Database): Pick<RunWrites, PlanWrite> {
  const insert = db.prepare<unknown[]>(`
    INSERT INTO steps (run_id, flow_id, step_key, step_type, status, due_at, lease_token, started_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)`);
  const insertSkipped = db.prepare(
    "INSERT INTO steps (run_id, step_key, step_type, status, skip_reason, completed_at) VALUES (?, ?, ?, 'Skipped', ?, ?)",
  );
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
  const forget = db.prepare("DELETE FROM steps WHERE run_id = ? AND step_key = ? AND status = 'Skipped'");
  const wake = db.prepare(
    `UPDATE steps SET due_at = ?, signal_name = NULL, limit_at = NULL
    WHERE run_id = ? AND step_key = ? AND signal_name IS NOT NULL`,
  );
  // Steps that never began are skipped. Steps that wait, are due again or are loops began and did not succeed.
  const closeSteps = db.prepare(`
    UPDATE steps SET status = CASE WHEN attempt_count = 0 THEN 'Skipped' ELSE 'Failed' END,
      skip_reason = CASE WHEN attempt_count = 0 THEN ? END,
      error = CASE WHEN attempt_count = 0 THEN NULL WHEN instr(wait, '"hostTurn":"') > 0
        THEN replace(?, '."', ' while the step waited for its turn at ' || ${HOST_OF_STEP} || '."') ELSE ? END,
      due_at = NULL, limit_at = NULL, wait = NULL, signal_name = NULL, completed_at = ?
    WHERE run_id = ? AND status IN ('Pending', 'Running')`);
  const closeAttempts = db.prepare(`
    UPDATE attempts SET status = 'Failed', error = ?, completed_at = ? WHERE run_id = ? AND status = 'Running'`);
  return {
    insertNext: ({ runId, flowId, stepKey, stepType, status, dueAt, token, startedAt }) =>
      insert.run(runId, flowId, stepKey, stepType, status, dueAt, token, startedAt),
    insertSkipped: ({ runId, stepKey, stepType, reason, at }) =>
      insertSkipped.run(runId, stepKey, stepType, reason, at),
    retryStep({ runId, stepKey }, at) {
      keepAttempt.run(runId, stepKey);
      makeDue.run(at, runId, stepKey);
    },
    forgetSkipped: (runId, stepKey) => forget.run(runId, stepKey),
    wakeStep: ({ runId, stepKey }, at) => wake.run(at, runId, stepKey),
    closeSteps(runId, error, at) {
      const text = JSON.stringify(error);
      closeSteps.run(error.message, text, text, at, runId);
      closeAttempts.run(text, at, runId);
    },
  };
}

type LeaseWrite = 'interruptAttempt' | 'leaseStep' | 'insertAttempt';

export function prepareLeaseWrites(db: Database): Pick<RunWrites, LeaseWrite> {
  const interrupt = db.prepare(`
    UPDATE attempts SET status = 'Failed', error = ?, completed_at = ?
    WHERE run_id = ? AND step_key = ? AND attempt = ?`);
  const lease = db.prepare(`
    UPDATE steps SET status = 'Running', lease_token = ?, due_at = ?, attempt_count = ?, interruptions = ?,
      lone_deaths = ?, signal_name = NULL, limit_at = NULL, started_at = coalesce(started_at, ?)
    WHERE run_id = ? AND step_key = ?`);
  const insert = db.prepare(
    "INSERT INTO attempts (run_id, step_key, attempt, status, due_at, started_at) VALUES (?, ?, ?, 'Running', ?, ?)",
  );
  return {
    interruptAttempt: ({ runId, stepKey, attempt, error, at }) =>
      interrupt.run(toJson(error), at, runId, stepKey, attempt),
    leaseStep: ({ token, attempt, interruptions, loneDeaths, startedAt, runId, stepKey }, leasedUntil) =>
      lease.run(token, leasedUntil, attempt, interruptions, loneDeaths, startedAt, runId, stepKey),
    insertAttempt: ({ runId, stepKey, attempt, dueAt, startedAt }) =>
      insert.run(runId, stepKey, attempt, dueAt, startedAt),
  };
}
