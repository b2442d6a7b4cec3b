import { type Answers, asking, decide } from '../decisions/decision.ts';
import type { FoundRun, ParentStep, RunReads, RunWrites } from '../decisions/rows.ts';
import { pinsOf } from '../decisions/sub-runs.ts';
import type { NewRun, Pins } from '../store.ts';
import { revisionOf } from './revisions.ts';
import type { Sql, Write } from './sql.ts';

export type PinReads = Pick<RunReads, 'findNewest' | 'revisionOf'>;

export function pinReads(sql: Sql): Answers<PinReads> {
  return {
    // Not locked: a concurrent deploy may or may not be pinned, as for a run that is accepted a moment earlier.
    findNewest: async (flowIds) =>
      pinsIn(
        await sql.all<{ id: string; revision: number }>(
          'SELECT id, revision FROM sluice.flows WHERE id = ANY($1) AND draining_since IS NULL',
          [flowIds],
        ),
      ),
    revisionOf: (flowId, revision) => revisionOf(sql, flowId, revision),
  };
}

function pinsIn(rows: readonly { readonly id: string; readonly revision: number }[]): Pins {
  return Object.fromEntries(rows.map(({ id, revision }) => [id, revision]));
}

/** The revisions of these flows, and of all that they run in turn. */
export function pinsFor(sql: Sql, subFlows: readonly string[]): Promise<Pins> {
  return decide(pinsOf(asking<PinReads>(pinReads(sql)), subFlows));
}

/** A run with the revisions that it pins; asks nothing of one whose flow runs no other. */
export async function pinned(sql: Sql, run: NewRun): Promise<NewRun> {
  return run.subFlows === undefined ? run : { ...run, pins: await pinsFor(sql, run.subFlows) };
}

type Read = 'findNewest' | 'findPins' | 'findParent' | 'takeOrphans';

/** `read` is told of each run that it locks. */
export function subRunReads(sql: Sql, read: (runId: string, run: FoundRun) => void): Pick<Answers<RunReads>, Read> {
  return {
    findNewest: pinReads(sql).findNewest,
    findPins: async (runId) =>
      pinsIn(
        await sql.all<{ id: string; revision: number }>(
          'SELECT flow_id AS id, revision FROM sluice.run_pins WHERE run_id = $1',
          [runId],
        ),
      ),
    findParent: (runId) =>
      sql.get<ParentStep>(
        `SELECT parent_run_id AS "runId", step_key AS "stepKey", is_awaited AS "isAwaited", depth,
          root_started_at AS "rootStartedAt", is_of_failure AS "isOfFailure"
        FROM sluice.sub_runs WHERE run_id = $1`,
        [runId],
      ),
    async takeOrphans(limit) {
      // What another transaction has locked is ending or being told to stop there; the next look finds it.
      const taken = await sql.all<FoundRun & { runId: string; seq: number }>(
        `SELECT o.seq, r.id AS "runId", r.status, r.flow_id AS "flowId", r.revision, r.trigger_type AS "triggerType",
          r.started_at AS "startedAt", r.timeout_at AS "timeoutAt", r.cancel_requested_at AS "cancelRequestedAt",
          r.timed_out_at AS "timedOutAt"
        FROM sluice.orphaned_runs o JOIN sluice.runs r ON r.id = o.run_id
        ORDER BY o.seq LIMIT $1 FOR UPDATE OF o SKIP LOCKED FOR UPDATE OF r SKIP LOCKED`,
        [limit],
      );
      if (taken.length > 0) {
        sql.later('DELETE FROM sluice.orphaned_runs WHERE seq = ANY($1)', [taken.map(({ seq }) => seq)]);
      }
      return taken.map(({ seq, ...run }) => {
        read(run.runId, run);
        return run;
      });
    },
  };
}

type SubRunWrite = 'insertParent' | 'wakeWaiting' | 'orphanSubRuns' | 'markUnordered';

export function subRunWrites(write: Write): Pick<RunWrites, SubRunWrite> {
  return {
    insertParent: (id, { runId, stepKey, isAwaited, depth, rootStartedAt, isOfFailure }) =>
      write(
        `INSERT INTO sluice.sub_runs (run_id, parent_run_id, step_key, is_awaited, depth, root_started_at, is_of_failure)
        VALUES ($1, $2, $3, $4, $5, $6, $7)`,
        [id, runId, stepKey, isAwaited, depth, rootStartedAt, isOfFailure],
      ),
    wakeWaiting: ({ runId, stepKey }, subRunId, at) =>
      write(
        `UPDATE sluice.steps SET due_at = $3
        WHERE run_id = $1 AND step_key = $2 AND status = 'Pending' AND strpos(wait, $4) > 0`,
        [runId, stepKey, at, `"subRun":"${subRunId}"`],
      ),
    orphanSubRuns: (runId) =>
      write(
        `INSERT INTO sluice.orphaned_runs (run_id)
        SELECT s.run_id FROM sluice.sub_runs s JOIN sluice.runs r ON r.id = s.run_id AND r.status = 'Running'
        WHERE s.parent_run_id = $1 AND s.is_awaited ORDER BY s.run_id`,
        [runId],
      ),
    markUnordered: (flowId) =>
      write('INSERT INTO sluice.unordered_flows (flow_id) VALUES ($1) ON CONFLICT DO NOTHING', [flowId]),
  };
}

/** Has the steps looked at again that wait for runs which an earlier release ended: it told nobody. */
export async function wakeForgotten(sql: Sql, now: number): Promise<void> {
  await sql.run(
    `WITH forgotten AS (
      SELECT s.run_id, s.step_key FROM sluice.steps s
      JOIN sluice.sub_runs c ON c.parent_run_id = s.run_id AND c.step_key = s.step_key
      JOIN sluice.runs r ON r.id = c.run_id AND r.status <> 'Running'
      WHERE s.status = 'Pending' AND s.due_at IS NULL AND strpos(s.wait, '"subRun":"' || c.run_id || '"') > 0
      ORDER BY s.run_id, s.step_key FOR UPDATE OF s SKIP LOCKED
    )
    UPDATE sluice.steps s SET due_at = $1 FROM forgotten
    WHERE s.run_id = forgotten.run_id AND s.step_key = forgotten.step_key`,
    [now],
  );
}
