import { leasedStep, ownerOf } from '../../model/runtime-keys.ts';
import type { StepAddress } from '../store.ts';
import { uuidOf } from '../uuids.ts';
import { fixed, Rows, sql } from './port.ts';
import type { Verbs } from './verb.ts';

const addresses = `SELECT run_id, step_key FROM sluice.steps WHERE status = 'Running' AND due_at IS NOT NULL`;
/** The addresses of running steps, through the two indexes of all steps that are due or running. */
export const RUNNING = `${addresses} AND deaths < 2 UNION ALL ${addresses} AND deaths >= 2`;
const running = fixed(`(${RUNNING}) AS running /*sqlite: CROSS */ JOIN sluice.steps AS s
  ON s.run_id = running.run_id AND s.step_key = running.step_key`);

/** Leases as rows, with their times. */
function leasesOf(leases: readonly { token: string; dueAt?: number; startedAt?: number }[]): Rows {
  return new Rows(
    leases.map(({ token, dueAt = null, startedAt = null }) => {
      const { runId, stepKey, holder } = leasedStep(token);
      return { run_id: uuidOf(runId), step_key: stepKey, holder, due_at: dueAt, started_at: startedAt };
    }),
  );
}

const asLeases = fixed('AS given (run_id uuid, step_key text, holder text, due_at bigint, started_at bigint)');
// Locks the leases of one call in the order of their addresses, so that two calls that share some do not block each
// other for good.
const held = fixed(`${asLeases.text}
  JOIN sluice.steps AS s ON s.run_id = given.run_id AND s.step_key = given.step_key AND s.lease_token = given.holder`);
const inOrder = fixed('ORDER BY s.run_id, s.step_key FOR UPDATE OF s');

/** The token as `tokenOf` makes it: a row stores only the holder. */
export const TOKEN = fixed("steps.run_id || '/' || steps.step_key || '/' || steps.lease_token AS token");

// A step without a written attempt did not begin, and becomes what it was before its lease.
const asBefore = fixed(`
  lease_token = NULL, status = CASE WHEN attempt_count = 0 THEN 'Pending' ELSE status END,
  started_at = CASE WHEN attempt_count = 0 THEN NULL ELSE started_at END`);

export const leaseVerbs: Verbs<'renewLeases' | 'returnLeases' | 'beginAttempts' | 'noteInput' | 'recover'> = {
  noteInput: {
    access: 'write',
    changes: null,
    *decide(port, { token, input, inputsRevision }) {
      const { runId, stepKey, holder } = leasedStep(token);
      const changed = yield* port.run(sql`
        UPDATE sluice.steps SET input = ${input}, inputs_revision = ${inputsRevision}
        WHERE run_id = ${uuidOf(runId)} AND step_key = ${stepKey} AND lease_token = ${holder}`);
      if (changed === 0) return;
      // The step's row will have the input of the next attempt if this one is interrupted.
      yield* port.run(sql`
        UPDATE sluice.attempts SET input = ${input}, inputs_revision = ${inputsRevision}
        WHERE run_id = ${uuidOf(runId)} AND step_key = ${stepKey} AND status = 'Running'`);
    },
  },
  renewLeases: {
    access: 'write',
    changes: null,
    *decide(port, { tokens, leasedUntil }) {
      const leases = leasesOf(tokens.map((token) => ({ token })));
      const renewed = yield* port.all<{ token: string }>(sql`
        WITH held AS (SELECT s.run_id, s.step_key FROM jsonb_to_recordset(${leases}) ${held} ${inOrder})
        UPDATE sluice.steps SET due_at = ${leasedUntil} FROM held
        WHERE steps.run_id = held.run_id AND steps.step_key = held.step_key RETURNING ${TOKEN}`);
      const isRenewed = new Set(renewed.map((row) => row.token));
      return tokens.filter((token) => !isRenewed.has(token));
    },
  },
  returnLeases: {
    access: 'write',
    changes: null,
    *decide(port, { tokens, at, dueAt = [] }) {
      const leases = leasesOf(tokens.map((token, n) => ({ token, dueAt: Math.min(at, dueAt[n] ?? at) })));
      yield* port.run(sql`
        WITH held AS (
          SELECT s.run_id, s.step_key, given.due_at AS due FROM jsonb_to_recordset(${leases}) ${held} ${inOrder}
        )
        UPDATE sluice.steps SET ${asBefore}, attempt_base = attempt_base + (attempt_count > 0)::integer,
          due_at = CASE WHEN attempt_count = 0 THEN held.due ELSE ${at}::bigint END,
          lease_owner = CASE WHEN attempt_count > 0 THEN lease_owner END
        FROM held WHERE steps.run_id = held.run_id AND steps.step_key = held.step_key`);
    },
  },
  beginAttempts: {
    access: 'write',
    changes: null,
    *decide(port, { attempts }) {
      const begun = yield* port.all<{ token: string }>(sql`
        WITH held AS (
          SELECT s.run_id, s.step_key, given.started_at AS begun_at
          FROM jsonb_to_recordset(${leasesOf(attempts)}) ${held} AND s.attempt_count = 0 ${inOrder}
        )
        UPDATE sluice.steps SET attempt_count = 1, started_at = held.begun_at FROM held
        WHERE steps.run_id = held.run_id AND steps.step_key = held.step_key RETURNING ${TOKEN}`);
      const given = new Map(attempts.map((attempt) => [attempt.token, attempt]));
      const rows = leasesOf(begun.flatMap((row) => given.get(row.token) ?? []));
      yield* port.run(sql`
        INSERT INTO sluice.attempts (run_id, step_key, attempt, status, due_at, started_at)
        SELECT run_id, step_key, 1, 'Running', due_at, started_at FROM jsonb_to_recordset(${rows}) ${asLeases}`);
    },
  },
  recover: {
    access: 'write',
    changes: null,
    *decide(port, { owner, now }) {
      port.later(sql`DELETE FROM sluice.host_places WHERE owner = ${owner}`);
      const leased = yield* port.all<StepAddress & { holder: string }>(sql`
        SELECT s.run_id AS "runId", s.step_key AS "stepKey", lease_token AS holder FROM ${running}
        WHERE status = 'Running' AND due_at IS NOT NULL AND lease_token IS NOT NULL
          AND coalesce(lease_owner, ${owner}) = ${owner}
        ORDER BY s.run_id, s.step_key FOR UPDATE OF s`);
      // Its due time is from the clock of the process that returned it, which may have been fast.
      yield* port.run(sql`
        WITH returned AS (
          SELECT s.run_id, s.step_key FROM ${running}
          WHERE status = 'Running' AND lease_token IS NULL AND due_at > ${now}
          ORDER BY s.run_id, s.step_key FOR UPDATE OF s SKIP LOCKED
        )
        UPDATE sluice.steps SET due_at = ${now} FROM returned
        WHERE steps.run_id = returned.run_id AND steps.step_key = returned.step_key`);
      // A process that has the database to itself need not name the owner of a lease.
      const own = leased.filter(({ holder }) => ownerOf(holder) === owner);
      if (own.length === 0) return 0;
      // Without a written attempt it is unknown whether the step had begun, so nothing is counted. Of several steps it
      // is unknown which one took the process down, so none is blamed.
      const blamed = own.length === 1 ? 1 : 0;
      const steps = new Rows(own.map(({ runId, stepKey }) => ({ run_id: runId, step_key: stepKey })));
      yield* port.run(sql`
        UPDATE sluice.steps SET ${asBefore}, due_at = least(due_at, ${now}::bigint),
          interruptions = interruptions + (attempt_count > 0)::integer, deaths = deaths + (attempt_count > 0)::integer,
          lone_deaths = lone_deaths + CASE WHEN attempt_count > 0 THEN ${blamed}::integer ELSE 0 END
        FROM jsonb_to_recordset(${steps}) AS own (run_id uuid, step_key text)
        WHERE steps.run_id = own.run_id AND steps.step_key = own.step_key`);
      return own.length;
    },
  },
};
