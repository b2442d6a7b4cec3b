import { randomUUID } from 'node:crypto';
import { parseJson } from '../../model/json.ts';
import { holderOf, leasedStep, parseRuntimeKey } from '../../model/runtime-keys.ts';
import { storable } from '../../model/text.ts';
import { type ClaimReads, type ClaimWrites, claim, type DueStep } from '../decisions/claim.ts';
import { asking, decide, decideNow } from '../decisions/decision.ts';
import { scopes } from '../decisions/following.ts';
import type { SignalRow } from '../decisions/rows.ts';
import { NEWEST_REVISION } from '../decisions/run-rows.ts';
import type { Claim, ClaimRequest, StepAddress } from '../store.ts';
import { jsonRows, type Sql } from './sql.ts';

/** The columns of a `DueStep`, of steps `s` and their runs `r`. */
export const DUE_STEP = `
  s.run_id AS "runId", r.flow_id AS "flowId", r.revision, s.step_key AS "stepKey", s.step_type AS "stepType", s.status,
  s.attempt_count AS "attemptCount", s.attempt_base AS "attemptBase", s.interruptions, s.deaths,
  s.lone_deaths AS "loneDeaths", s.lease_token AS "leaseToken", s.wait, s.due_at AS "dueAt",
  s.lease_owner IS NULL AND s.attempt_count = 0 AND s.wait IS NULL AS "isPlain", r.trigger_key AS "triggerKey", r.traceparent, r.cancel_requested_at AS "cancelRequestedAt",
  r.timed_out_at AS "timedOutAt", ${NEWEST_REVISION}`;

/**
 * Locks steps and their runs for a claim. Skips rows that another transaction has locked: they are being claimed, ended
 * or stopped there, and a claim never waits, so that it takes part in no deadlock. Claims share the lock on a run,
 * which keeps it from being told to stop, and closed as one without a lease, between here and the commit.
 */
export const LOCKED = 'FOR UPDATE OF s SKIP LOCKED FOR SHARE OF r SKIP LOCKED';

/** Leases due steps that this transaction has locked: whatever their number, one read for each kind and one write. */
export async function leaseSteps(
  sql: Sql,
  steps: readonly DueStep[],
  { owner, now, leasedUntil, mayWriteLater }: Omit<ClaimRequest, 'limit'>,
): Promise<Claim[]> {
  if (steps.length === 0) return [];
  const writes = new LeaseWrites();
  const rows = { ...asking<ClaimReads>(await prefetch(sql, steps)), ...writes.members };
  const claims = steps.map(({ isPlain, ...step }) =>
    decideNow(
      claim(
        rows,
        { ...step, isPlain: mayWriteLater === true && isPlain },
        { holder: holderOf(owner, randomUUID()), now, leasedUntil },
      ),
    ),
  );
  writes.send(sql, owner);
  return claims;
}

const nameOf = ({ runId, stepKey }: StepAddress) => `${runId}/${stepKey}`;

/** Reads the data that the claims of these steps will ask for, so that each is answered at once. */
async function prefetch(sql: Sql, steps: readonly DueStep[]) {
  const waiting = steps.filter(({ wait }) => wait !== null);
  const children = steps.flatMap(({ runId, stepKey }) => {
    const { iteration } = parseRuntimeKey(stepKey);
    return iteration === null ? [] : [{ runId, ...iteration }];
  });
  const [starts, signals, items] = await Promise.all([
    listStarts(sql, waiting),
    listSignals(sql, waiting),
    decide(scopes.items(sql.port, children)),
  ]);
  return {
    findAttemptStart: (runId: string, stepKey: string) => starts.get(nameOf({ runId, stepKey })),
    findSignal: (step: StepAddress, name: string, used: readonly number[]) =>
      signals.get(nameOf(step))?.find((signal) => signal.name === storable(name) && !used.includes(signal.id)),
    findItem: (runId: string, loopKey: string, index: number) => items({ runId, loopKey, index }),
  };
}

const GIVEN = 'unnest($1::uuid[], $2::text[]) AS given (run_id, step_key)';

function columnsOf(steps: readonly StepAddress[]): [string[], string[]] {
  return [steps.map(({ runId }) => runId), steps.map(({ stepKey }) => stepKey)];
}

/** When the last attempts of these steps began. */
async function listStarts(sql: Sql, steps: readonly DueStep[]): Promise<ReadonlyMap<string, number>> {
  if (steps.length === 0) return new Map();
  const rows = await sql.all<StepAddress & { startedAt: number }>(
    `SELECT a.run_id AS "runId", a.step_key AS "stepKey", a.started_at AS "startedAt"
    FROM ${GIVEN} JOIN sluice.steps s USING (run_id, step_key)
    JOIN sluice.attempts a ON a.run_id = s.run_id AND a.step_key = s.step_key AND a.attempt = s.attempt_count`,
    columnsOf(steps),
  );
  return new Map(rows.map((row) => [nameOf(row), row.startedAt]));
}

/** The signals that these steps took, in the order of their arrival. */
async function listSignals(sql: Sql, steps: readonly DueStep[]) {
  const signals = new Map<string, (SignalRow & { readonly name: string })[]>();
  if (steps.length === 0) return signals;
  const rows = await sql.all<StepAddress & { id: number; name: string; body: string | null; deliveredAt: number }>(
    `SELECT s.run_id AS "runId", s.step_key AS "stepKey", s.id, s.name, s.body, s.delivered_at AS "deliveredAt"
    FROM ${GIVEN} JOIN sluice.signals s USING (run_id, step_key) ORDER BY s.id`,
    columnsOf(steps),
  );
  for (const row of rows) {
    const own = signals.get(nameOf(row)) ?? [];
    own.push({ ...row, body: row.body === null ? null : parseJson(row.body) });
    signals.set(nameOf(row), own);
  }
  return signals;
}

interface LeaseRow {
  readonly run_id: string;
  readonly step_key: string;
  readonly holder: string;
  readonly due_at: number;
  readonly attempt_count: number;
  readonly interruptions: number;
  readonly lone_deaths: number;
  readonly started_at: number;
}

interface AttemptRow {
  readonly run_id: string;
  readonly step_key: string;
  readonly attempt: number;
  readonly due_at: number;
  readonly started_at: number;
}

interface InterruptedRow {
  readonly run_id: string;
  readonly step_key: string;
  readonly attempt: number;
  readonly error: string;
  readonly completed_at: number;
}

/** Collects the writes of claims, for one statement. */
class LeaseWrites {
  readonly #leases: LeaseRow[] = [];
  readonly #attempts: AttemptRow[] = [];
  readonly #interrupted: InterruptedRow[] = [];

  readonly members: ClaimWrites = {
    leaseStep: ({ runId, stepKey, token, attempt, interruptions, loneDeaths, startedAt }, leasedUntil) => {
      this.#leases.push({
        run_id: runId,
        step_key: stepKey,
        holder: leasedStep(token).holder,
        due_at: leasedUntil,
        attempt_count: attempt,
        interruptions,
        lone_deaths: loneDeaths,
        started_at: startedAt,
      });
    },
    insertAttempt: ({ runId, stepKey, attempt, dueAt, startedAt }) => {
      this.#attempts.push({ run_id: runId, step_key: stepKey, attempt, due_at: dueAt, started_at: startedAt });
    },
    interruptAttempt: ({ runId, stepKey, attempt, error, at }) => {
      this.#interrupted.push({
        run_id: runId,
        step_key: stepKey,
        attempt,
        error: JSON.stringify(error),
        completed_at: at,
      });
    },
  };

  /** Sent with the next statement, or with the commit. */
  send(sql: Sql, owner: string): void {
    sql.later(
      `WITH leased AS (
        UPDATE sluice.steps s SET status = 'Running', lease_token = g.holder, lease_owner = $1, due_at = g.due_at,
          attempt_count = g.attempt_count, interruptions = g.interruptions, lone_deaths = g.lone_deaths,
          signal_name = NULL, limit_at = NULL, started_at = coalesce(s.started_at, g.started_at)
        FROM jsonb_to_recordset($2) AS g (run_id uuid, step_key text, holder text, due_at bigint, attempt_count integer,
          interruptions integer, lone_deaths integer, started_at bigint)
        WHERE s.run_id = g.run_id AND s.step_key = g.step_key
      ), interrupted AS (
        UPDATE sluice.attempts a SET status = 'Failed', error = g.error, completed_at = g.completed_at
        FROM jsonb_to_recordset($3) AS g (run_id uuid, step_key text, attempt integer, error text, completed_at bigint)
        WHERE a.run_id = g.run_id AND a.step_key = g.step_key AND a.attempt = g.attempt
      )
      INSERT INTO sluice.attempts (run_id, step_key, attempt, status, due_at, started_at)
      SELECT run_id, step_key, attempt, 'Running', due_at, started_at
      FROM jsonb_to_recordset($4) AS g (run_id uuid, step_key text, attempt integer, due_at bigint, started_at bigint)`,
      [owner, jsonRows(this.#leases), jsonRows(this.#interrupted), jsonRows(this.#attempts)],
    );
  }
}
