import type { StepStatus } from '../../model/manifest.ts';
import { leasedStep, ownerOf } from '../../model/runtime-keys.ts';
import { toError, toJson } from '../json-columns.ts';
import type { Asks } from './decision.ts';
import { fixed, type Port, sql } from './port.ts';
import type { RunReads, RunWrites } from './rows.ts';
import { ORIGIN_OF_STEP } from './waits.ts';

type Read = 'statesIn' | 'statesOf' | 'hasOpenStep' | 'findStep' | 'findWait' | 'findAttemptStart';

export function stepReads(port: Port): Pick<Asks<RunReads>, Read> {
  function* statesOf(runId: string, scope: string, keys: readonly string[]) {
    const found = yield* port.all<{ stepKey: string; status: StepStatus }>(sql`
      SELECT step_key AS "stepKey", status FROM sluice.steps
      WHERE run_id = ${runId} AND step_key = ANY (${keys.map((key) => `${scope}${key}`)}::text[])`);
    return new Map(found.map(({ stepKey, status }) => [stepKey.slice(scope.length), status]));
  }
  return {
    *statesIn(runId, scope, graph) {
      // In a run with loops, reads only the scope's own rows: there may be thousands of others.
      const isWhole = scope === '' && Object.values(graph).every(({ steps }) => steps === undefined);
      if (!isWhole) return yield* statesOf(runId, scope, Object.keys(graph));
      const found = yield* port.all<{ stepKey: string; status: StepStatus }>(
        sql`SELECT step_key AS "stepKey", status FROM sluice.steps WHERE run_id = ${runId}`,
      );
      return new Map(found.map(({ stepKey, status }) => [stepKey, status]));
    },
    statesOf,
    *hasOpenStep(runId, scope) {
      // From the end: steps are taken in the order of the manifest, which is most often that of their keys.
      const open = yield* port.get(sql`
        SELECT step_key FROM sluice.steps
        WHERE run_id = ${runId} AND step_key > ${scope} AND step_key < ${`${scope}\u{10ffff}`}
          AND status IN ('Pending', 'Running')
        ORDER BY step_key DESC LIMIT 1`);
      return open !== undefined;
    },
    *findStep(runId, stepKey) {
      const step = yield* port.get<{ status: StepStatus; error: string | null }>(
        sql`SELECT status, error FROM sluice.steps WHERE run_id = ${runId} AND step_key = ${stepKey}`,
      );
      return step && { status: step.status, error: toError(step.error) };
    },
    *findWait(runId, stepKey) {
      const step = yield* port.get<{ wait: string | null }>(
        sql`SELECT wait FROM sluice.steps WHERE run_id = ${runId} AND step_key = ${stepKey}`,
      );
      return step?.wait ?? null;
    },
    *findAttemptStart(runId, stepKey, attempt) {
      const row = yield* port.get<{ startedAt: number }>(sql`
        SELECT started_at AS "startedAt" FROM sluice.attempts
        WHERE run_id = ${runId} AND step_key = ${stepKey} AND attempt = ${attempt}`);
      return row?.startedAt;
    },
  };
}

/** A step that has an outcome did not take its process down, so its interruptions do not count as tries. */
export const SURVIVED = 'interruptions = 0, deaths = 0, lone_deaths = 0';
const survived = fixed(SURVIVED);

type OutcomeWrite = 'keepTrace' | 'beginAttempt' | 'endAttempt' | 'skipStep' | 'keepWait';

/** What an outcome does to its own step. */
export function outcomeWrites({ later }: Port): Pick<RunWrites, OutcomeWrite> {
  return {
    keepTrace: ({ runId, stepKey }, trace) =>
      later(sql`
        UPDATE sluice.steps SET evaluation_trace = ${toJson(trace)} WHERE run_id = ${runId} AND step_key = ${stepKey}`),
    beginAttempt({ token, dueAt, startedAt }) {
      const { runId, stepKey, holder } = leasedStep(token);
      // The attempt first, while the step still says that none is written.
      later(sql`
        INSERT INTO sluice.attempts (run_id, step_key, attempt, status, due_at, started_at)
        SELECT run_id, step_key, 1, 'Running', ${dueAt}::bigint, ${startedAt}::bigint FROM sluice.steps
        WHERE run_id = ${runId} AND step_key = ${stepKey} AND lease_token = ${holder} AND attempt_count = 0 FOR UPDATE`);
      later(sql`
        UPDATE sluice.steps SET attempt_count = 1, started_at = ${startedAt}
        WHERE run_id = ${runId} AND step_key = ${stepKey} AND lease_token = ${holder} AND attempt_count = 0`);
    },
    endAttempt: ({ runId, stepKey, written, dueAt, startedAt, status, at, retryAt, uncounted, needsRow, ...ended }) => {
      const { inputsRevision } = ended;
      const [input, output, error] = [toJson(ended.input), toJson(ended.output), toJson(ended.error)];
      const next = retryAt === null ? status : 'Pending';
      const completedAt = retryAt === null ? at : null;
      if (written === 0) {
        if (needsRow) {
          later(sql`
            INSERT INTO sluice.attempts (
              run_id, step_key, attempt, due_at, started_at, status, input, output, error, completed_at, inputs_revision
            ) VALUES (${runId}, ${stepKey}, 1, ${dueAt}, ${startedAt}, ${status}, ${input}, ${output}, ${error}, ${at},
              ${inputsRevision})`);
        }
        later(sql`
          UPDATE sluice.steps SET status = ${next}, due_at = ${retryAt}, completed_at = ${completedAt},
            lease_token = NULL, attempt_count = 1, attempt_base = ${uncounted}, started_at = ${startedAt},
            input = ${input}, output = ${output}, error = ${error}, inputs_revision = ${inputsRevision}
          WHERE run_id = ${runId} AND step_key = ${stepKey}`);
        return;
      }
      later(sql`
        UPDATE sluice.attempts SET status = ${status}, input = ${input}, output = ${output}, error = ${error},
          completed_at = ${at}, inputs_revision = ${inputsRevision}
        WHERE run_id = ${runId} AND step_key = ${stepKey} AND attempt = ${written}`);
      later(sql`
        UPDATE sluice.steps SET status = ${next}, due_at = ${retryAt}, completed_at = ${completedAt}, lease_token = NULL,
          wait = NULL, signal_name = NULL, input = ${input}, output = ${output}, error = ${error},
          inputs_revision = ${inputsRevision}, attempt_base = attempt_base + interruptions + ${uncounted}, ${survived}
        WHERE run_id = ${runId} AND step_key = ${stepKey}`);
    },
    skipStep({ runId, stepKey, reason, at }, attempt) {
      later(sql`
        DELETE FROM sluice.attempts WHERE run_id = ${runId} AND step_key = ${stepKey} AND attempt = ${attempt}`);
      later(sql`
        UPDATE sluice.steps SET status = 'Skipped', due_at = NULL, lease_token = NULL, skip_reason = ${reason},
          completed_at = ${at}, attempt_count = greatest(0, attempt_count - 1),
          started_at = CASE WHEN attempt_count <= 1 THEN NULL ELSE started_at END
        WHERE run_id = ${runId} AND step_key = ${stepKey}`);
    },
    keepWait({ runId, stepKey, attempt, wait, dueAt, signalName, limitAt, inputsRevision, ...step }) {
      const input = toJson(step.input);
      later(sql`
        UPDATE sluice.attempts SET input = ${input}, inputs_revision = ${inputsRevision}
        WHERE run_id = ${runId} AND step_key = ${stepKey} AND attempt = ${attempt}`);
      later(sql`
        UPDATE sluice.steps SET status = 'Pending', due_at = ${dueAt}, lease_token = NULL, wait = ${wait},
          signal_name = ${signalName}, limit_at = ${limitAt}, input = ${input},
          inputs_revision = ${inputsRevision}, attempt_base = attempt_base + interruptions, ${survived}
        WHERE run_id = ${runId} AND step_key = ${stepKey}`);
    },
  };
}

const originOfStep = fixed(ORIGIN_OF_STEP);

type PlanWrite = 'makeDue' | 'insertNext' | 'insertSkipped' | 'retryStep' | 'forgetSkipped' | 'closeSteps';

/** What a plan, a retry or a stop does to the steps of a run. */
export function planWrites({ later }: Port): Pick<RunWrites, PlanWrite> {
  return {
    insertNext: ({ runId, flowId, stepKey, stepType, status, dueAt, holder, startedAt }) =>
      later(sql`
        INSERT INTO sluice.steps (
          run_id, flow_id, step_key, step_type, status, due_at, lease_token, lease_owner, started_at
        ) VALUES (${runId}, ${flowId}, ${stepKey}, ${stepType}, ${status}, ${dueAt}, ${holder},
          ${holder && ownerOf(holder)}, ${startedAt})`),
    insertSkipped: ({ runId, stepKey, stepType, reason, at }) =>
      later(sql`
        INSERT INTO sluice.steps (run_id, step_key, step_type, status, skip_reason, completed_at)
        VALUES (${runId}, ${stepKey}, ${stepType ?? ''}, 'Skipped', ${reason}, ${at})`),
    makeDue: (runId, at) =>
      later(sql`
        UPDATE sluice.steps SET due_at = ${at}
        WHERE run_id = ${runId} AND status = 'Pending' AND due_at IS NULL AND signal_name IS NULL AND wait IS NULL`),
    retryStep({ runId, stepKey }, at) {
      // The step's own row told of it so far: see `ATTEMPTS`.
      later(sql`
        INSERT INTO sluice.attempts (
          run_id, step_key, attempt, status, due_at, started_at, completed_at, inputs_revision, error, input, output
        ) SELECT run_id, step_key, 1, status, started_at, started_at, completed_at, inputs_revision, error, input, output
        FROM sluice.steps WHERE run_id = ${runId} AND step_key = ${stepKey} AND attempt_count = 1
        ON CONFLICT DO NOTHING`);
      later(sql`
        UPDATE sluice.steps SET status = 'Pending', due_at = ${at}, interruptions = 0, deaths = 0, lone_deaths = 0,
          attempt_base = attempt_count, output = NULL, error = NULL, completed_at = NULL
        WHERE run_id = ${runId} AND step_key = ${stepKey}`);
    },
    forgetSkipped: (runId, stepKey) =>
      later(sql`DELETE FROM sluice.steps WHERE run_id = ${runId} AND step_key = ${stepKey} AND status = 'Skipped'`),
    closeSteps(runId, error, at) {
      const text = JSON.stringify(error);
      // Steps that never began are skipped. Steps that wait, are due again or are loops began and did not succeed.
      later(sql`
        UPDATE sluice.steps SET status = CASE WHEN attempt_count = 0 THEN 'Skipped' ELSE 'Failed' END,
          skip_reason = CASE WHEN attempt_count = 0 THEN ${error.message} END,
          error = CASE WHEN attempt_count = 0 THEN NULL WHEN strpos(wait, '"hostTurn":"') > 0
            THEN replace(${text}, '."', ' while the step waited for its turn at ' || ${originOfStep} || '."')
            ELSE ${text} END,
          due_at = NULL, limit_at = NULL, wait = NULL, signal_name = NULL, completed_at = ${at}
        WHERE run_id = ${runId} AND status IN ('Pending', 'Running')`);
      later(sql`
        UPDATE sluice.attempts SET status = 'Failed', error = ${text}, completed_at = ${at}
        WHERE run_id = ${runId} AND status = 'Running'`);
    },
  };
}

type LeaseWrite = 'interruptAttempt' | 'leaseStep' | 'insertAttempt';

export function leaseWrites({ later }: Port): Pick<RunWrites, LeaseWrite> {
  return {
    interruptAttempt: ({ runId, stepKey, attempt, error, at }) =>
      later(sql`
        UPDATE sluice.attempts SET status = 'Failed', error = ${toJson(error)}, completed_at = ${at}
        WHERE run_id = ${runId} AND step_key = ${stepKey} AND attempt = ${attempt}`),
    leaseStep: ({ token, attempt, interruptions, loneDeaths, startedAt, runId, stepKey }, leasedUntil) =>
      later(sql`
        UPDATE sluice.steps SET status = 'Running', lease_token = ${leasedStep(token).holder}, lease_owner = ${ownerOf(token)},
          due_at = ${leasedUntil}, attempt_count = ${attempt}, interruptions = ${interruptions},
          lone_deaths = ${loneDeaths}, signal_name = NULL, limit_at = NULL, started_at = coalesce(started_at, ${startedAt})
        WHERE run_id = ${runId} AND step_key = ${stepKey}`),
    insertAttempt: ({ runId, stepKey, attempt, dueAt, startedAt }) =>
      later(sql`
        INSERT INTO sluice.attempts (run_id, step_key, attempt, status, due_at, started_at)
        VALUES (${runId}, ${stepKey}, ${attempt}, 'Running', ${dueAt}, ${startedAt})`),
  };
}
