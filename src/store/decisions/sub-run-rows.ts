import type { Asks } from './decision.ts';
import { type Port, sql } from './port.ts';
import type { FoundRun, ParentStep, RunReads, RunWrites } from './rows.ts';

type Read = 'findPins' | 'findParent' | 'takeOrphans';

/** The runs that steps of others have started. */
export function subRunReads(port: Port): Pick<Asks<RunReads>, Read> {
  return {
    *findPins(runId) {
      const rows = yield* port.all<{ id: string; revision: number }>(
        sql`SELECT flow_id AS id, revision FROM sluice.run_pins WHERE run_id = ${runId}`,
      );
      return Object.fromEntries(rows.map(({ id, revision }) => [id, revision]));
    },
    findParent: (runId) =>
      port.get<ParentStep>(sql`
        SELECT parent_run_id AS "runId", step_key AS "stepKey", is_awaited AS "isAwaited", depth,
          root_started_at AS "rootStartedAt", is_of_failure AS "isOfFailure"
        FROM sluice.sub_runs WHERE run_id = ${runId}`),
    *takeOrphans(limit) {
      // What another transaction has locked is ending or being told to stop there; the next look finds it.
      const taken = yield* port.all<FoundRun & { runId: string; seq: number }>(sql`
        SELECT o.seq, r.id AS "runId", r.status, r.flow_id AS "flowId", r.revision, r.trigger_type AS "triggerType",
          r.started_at AS "startedAt", r.timeout_at AS "timeoutAt", r.cancel_requested_at AS "cancelRequestedAt",
          r.timed_out_at AS "timedOutAt"
        FROM sluice.orphaned_runs AS o /*sqlite: CROSS */ JOIN sluice.runs AS r ON r.id = o.run_id
        ORDER BY o.seq LIMIT ${limit} FOR UPDATE OF o SKIP LOCKED FOR UPDATE OF r SKIP LOCKED`);
      if (taken.length > 0) {
        port.later(sql`DELETE FROM sluice.orphaned_runs WHERE seq = ANY (${taken.map(({ seq }) => seq)})`);
      }
      return taken.map(({ seq, ...run }) => run);
    },
  };
}

type Write = 'insertParent' | 'wakeWaiting' | 'orphanSubRuns' | 'markUnordered';

export function subRunWrites({ later }: Port): Pick<RunWrites, Write> {
  return {
    insertParent: (id, { runId, stepKey, isAwaited, depth, rootStartedAt, isOfFailure }) =>
      later(sql`
        INSERT INTO sluice.sub_runs (run_id, parent_run_id, step_key, is_awaited, depth, root_started_at, is_of_failure)
        VALUES (${id}, ${runId}, ${stepKey}, ${isAwaited}, ${depth}, ${rootStartedAt}, ${isOfFailure})`),
    wakeWaiting: ({ runId, stepKey }, subRunId, at) =>
      later(sql`
        UPDATE sluice.steps SET due_at = ${at}
        WHERE run_id = ${runId} AND step_key = ${stepKey} AND status = 'Pending'
          AND strpos(wait, ${`"subRun":"${subRunId}"`}) > 0`),
    orphanSubRuns: (runId) =>
      later(sql`
        INSERT INTO sluice.orphaned_runs (run_id)
        SELECT s.run_id FROM sluice.sub_runs AS s /*sqlite: CROSS */ JOIN sluice.runs AS r
          ON r.id = s.run_id AND r.status = 'Running'
        WHERE s.parent_run_id = ${runId} AND s.is_awaited ORDER BY s.run_id`),
    markUnordered: (flowId) =>
      later(sql`INSERT INTO sluice.unordered_flows (flow_id) VALUES (${flowId}) ON CONFLICT DO NOTHING`),
  };
}
