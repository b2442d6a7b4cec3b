import { leasedStep, ownerOf } from '../../flows/runtime-keys.ts';
import type { StepStatus } from '../../model/manifest.ts';
import type { Answers } from '../decisions/decision.ts';
import type { RunReads, RunWrites } from '../decisions/rows.ts';
import { toError, toJson } from '../json-columns.ts';
import { HOST_OF_STEP } from './runs.ts';
import type { Sql, Write } from './sql.ts';

type Read = 'statesIn' | 'findStep' | 'findWait' | 'findAttemptStart';

export function stepReads(sql: Sql): Pick<Answers<RunReads>, Read> {
  return {
    async statesIn(runId, scope, graph) {
      // In a run with loops, reads only the scope's own rows: there may be thousands of others.
      const isWhole = scope === '' && Object.values(graph).every(({ steps }) => steps === undefined);
      const columns = 'SELECT step_key AS "stepKey", status FROM sluice.steps WHERE run_id = $1';
      const found = await sql.all<{ stepKey: string; status: StepStatus }>(
        isWhole ? columns : `${columns} AND step_key = ANY ($2::text[])`,
        isWhole ? [runId] : [runId, Object.keys(graph).map((key) => `${scope}${key}`)],
      );
      return new Map(found.map(({ stepKey, status }) => [stepKey.slice(scope.length), status]));
    },
    async findStep(runId, stepKey) {
      const step = await sql.get<{ status: StepStatus; error: string | null }>(
        'SELECT status, error FROM sluice.steps WHERE run_id = $1 AND step_key = $2',
        [runId, stepKey],
      );
      return step && { status: step.status, error: toError(step.error) };
    },
    async findWait(runId, stepKey) {
      const step = await sql.get<{ wait: string | null }>(
        'SELECT wait FROM sluice.steps WHERE run_id = $1 AND step_key = $2',
        [runId, stepKey],
      );
      return step?.wait ?? null;
    },
    async findAttemptStart(runId, stepKey, attempt) {
      const row = await sql.get<{ startedAt: number }>(
        'SELECT started_at AS "startedAt" FROM sluice.attempts WHERE run_id = $1 AND step_key = $2 AND attempt = $3',
        [runId, stepKey, attempt],
      );
      return row?.startedAt;
    },
  };
}

const THIS_STEP = 'WHERE run_id = $1 AND step_key = $2';
const THIS_ATTEMPT = `${THIS_STEP} AND attempt = $3`;

/** A step that has an outcome did not take its process down, so its interruptions do not count as tries. */
export const SURVIVED = 'attempt_base = attempt_base + interruptions, interruptions = 0, deaths = 0, lone_deaths = 0';

type OutcomeWrite = 'keepTrace' | 'beginAttempt' | 'endAttempt' | 'skipStep' | 'keepWait';

/** What an outcome does to its own step. */
export function outcomeWrites(write: Write): Pick<RunWrites, OutcomeWrite> {
  return {
    keepTrace: ({ runId, stepKey }, trace) =>
      write(`UPDATE sluice.steps SET evaluation_trace = $3 ${THIS_STEP}`, [runId, stepKey, toJson(trace)]),
    beginAttempt({ token, dueAt, startedAt }) {
      const { runId, stepKey } = leasedStep(token);
      write(
        `WITH begun AS (
          UPDATE sluice.steps SET attempt_count = 1, started_at = $5
          ${THIS_STEP} AND lease_token = $3 AND attempt_count = 0 RETURNING run_id, step_key
        )
        INSERT INTO sluice.attempts (run_id, step_key, attempt, status, due_at, started_at)
        SELECT run_id, step_key, 1, 'Running', $4, $5 FROM begun`,
        [runId, stepKey, token, dueAt, startedAt],
      );
    },
    endAttempt: ({ runId, stepKey, written, dueAt, startedAt, status, at, retryAt, needsRow, ...ended }) => {
      const record = [toJson(ended.input), toJson(ended.output), toJson(ended.error)];
      const isOver = retryAt === null;
      const step = [isOver ? status : 'Pending', retryAt, isOver ? at : null];
      if (written === 0) {
        if (needsRow) {
          write(
            `INSERT INTO sluice.attempts (
              run_id, step_key, attempt, due_at, started_at, status, input, output, error, completed_at
            ) VALUES ($1, $2, 1, $3, $4, $5, $6, $7, $8, $9)`,
            [runId, stepKey, dueAt, startedAt, status, ...record, at],
          );
        }
        write(
          `UPDATE sluice.steps SET status = $3, due_at = $4, completed_at = $5, lease_token = NULL, attempt_count = 1,
            started_at = $6, input = $7, output = $8, error = $9 ${THIS_STEP}`,
          [runId, stepKey, ...step, startedAt, ...record],
        );
        return;
      }
      write(
        `UPDATE sluice.attempts SET status = $4, input = $5, output = $6, error = $7, completed_at = $8 ${THIS_ATTEMPT}`,
        [runId, stepKey, written, status, ...record, at],
      );
      write(
        `UPDATE sluice.steps SET status = $3, due_at = $4, completed_at = $5, lease_token = NULL, wait = NULL,
          signal_name = NULL, input = $6, output = $7, error = $8, ${SURVIVED} ${THIS_STEP}`,
        [runId, stepKey, ...step, ...record],
      );
    },
    skipStep({ runId, stepKey, reason, at }, attempt) {
      write(`DELETE FROM sluice.attempts ${THIS_ATTEMPT}`, [runId, stepKey, attempt]);
      write(
        `UPDATE sluice.steps SET status = 'Skipped', due_at = NULL, lease_token = NULL, skip_reason = $3,
          completed_at = $4, attempt_count = greatest(0, attempt_count - 1),
          started_at = CASE WHEN attempt_count <= 1 THEN NULL ELSE started_at END ${THIS_STEP}`,
        [runId, stepKey, reason, at],
      );
    },
    keepWait({ runId, stepKey, attempt, wait, dueAt, signalName, limitAt, ...step }) {
      const input = toJson(step.input);
      write(`UPDATE sluice.attempts SET input = $4 ${THIS_ATTEMPT}`, [runId, stepKey, attempt, input]);
      write(
        `UPDATE sluice.steps SET status = 'Pending', due_at = $3, lease_token = NULL, wait = $4, signal_name = $5,
          limit_at = $6, input = $7, ${SURVIVED} ${THIS_STEP}`,
        [runId, stepKey, dueAt, wait, signalName, limitAt, input],
      );
    },
  };
}

type PlanWrite = 'insertNext' | 'insertSkipped' | 'retryStep' | 'forgetSkipped' | 'closeSteps';

/** What a plan, a retry or a stop does to the steps of a run. */
export function planWrites(write: Write): Pick<RunWrites, PlanWrite> {
  return {
    insertNext: ({ runId, flowId, stepKey, stepType, status, dueAt, token, startedAt }) =>
      write(
        `INSERT INTO sluice.steps (
          run_id, flow_id, step_key, step_type, status, due_at, lease_token, lease_owner, started_at
        ) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
        [runId, flowId, stepKey, stepType, status, dueAt, token, token && (ownerOf(token) ?? null), startedAt],
      ),
    insertSkipped: ({ runId, stepKey, stepType, reason, at }) =>
      write(
        `INSERT INTO sluice.steps (run_id, step_key, step_type, status, skip_reason, completed_at)
        VALUES ($1, $2, $3, 'Skipped', $4, $5)`,
        [runId, stepKey, stepType ?? '', reason, at],
      ),
    retryStep({ runId, stepKey }, at) {
      // The step's own row told of it so far: see `ATTEMPTS`.
      write(
        `INSERT INTO sluice.attempts (
          run_id, step_key, attempt, status, due_at, started_at, completed_at, error, input, output
        ) SELECT run_id, step_key, 1, status, started_at, started_at, completed_at, error, input, output
        FROM sluice.steps ${THIS_STEP} AND attempt_count = 1
        ON CONFLICT DO NOTHING`,
        [runId, stepKey],
      );
      write(
        `UPDATE sluice.steps SET status = 'Pending', due_at = $3, interruptions = 0, deaths = 0, lone_deaths = 0,
          attempt_base = attempt_count, output = NULL, error = NULL, completed_at = NULL,
          flow_id = (SELECT flow_id FROM sluice.runs WHERE id = $1) ${THIS_STEP}`,
        [runId, stepKey, at],
      );
    },
    forgetSkipped: (runId, stepKey) =>
      write(`DELETE FROM sluice.steps ${THIS_STEP} AND status = 'Skipped'`, [runId, stepKey]),
    closeSteps(runId, error, at) {
      const text = JSON.stringify(error);
      // Steps that never began are skipped. Steps that wait, are due again or are loops began and did not succeed.
      write(
        `UPDATE sluice.steps SET status = CASE WHEN attempt_count = 0 THEN 'Skipped' ELSE 'Failed' END,
          skip_reason = CASE WHEN attempt_count = 0 THEN $2 END,
          error = CASE WHEN attempt_count = 0 THEN NULL WHEN strpos(wait, '"hostTurn":"') > 0
            THEN replace($3, '."', ' while the step waited for its turn at ' || ${HOST_OF_STEP} || '."') ELSE $3 END,
          due_at = NULL, limit_at = NULL, wait = NULL, signal_name = NULL, completed_at = $4
        WHERE run_id = $1 AND status IN ('Pending', 'Running')`,
        [runId, error.message, text, at],
      );
      write(
        `UPDATE sluice.attempts SET status = 'Failed', error = $2, completed_at = $3
        WHERE run_id = $1 AND status = 'Running'`,
        [runId, text, at],
      );
    },
  };
}

type LeaseWrite = 'interruptAttempt' | 'leaseStep' | 'insertAttempt';

export function leaseWrites(write: Write): Pick<RunWrites, LeaseWrite> {
  return {
    interruptAttempt: ({ runId, stepKey, attempt, error, at }) =>
      write(`UPDATE sluice.attempts SET status = 'Failed', error = $4, completed_at = $5 ${THIS_ATTEMPT}`, [
        runId,
        stepKey,
        attempt,
        toJson(error),
        at,
      ]),
    leaseStep: ({ token, attempt, interruptions, loneDeaths, startedAt, runId, stepKey }, leasedUntil) =>
      write(
        `UPDATE sluice.steps SET status = 'Running', lease_token = $3, lease_owner = $4, due_at = $5,
          attempt_count = $6, interruptions = $7, lone_deaths = $8, signal_name = NULL, limit_at = NULL,
          started_at = coalesce(started_at, $9) ${THIS_STEP}`,
        [runId, stepKey, token, ownerOf(token) ?? null, leasedUntil, attempt, interruptions, loneDeaths, startedAt],
      ),
    insertAttempt: ({ runId, stepKey, attempt, dueAt, startedAt }) =>
      write(
        `INSERT INTO sluice.attempts (run_id, step_key, attempt, status, due_at, started_at)
        VALUES ($1, $2, $3, 'Running', $4, $5)`,
        [runId, stepKey, attempt, dueAt, startedAt],
      ),
  };
}
