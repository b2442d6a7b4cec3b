import type { Asks } from '../../store/decisions/decision.ts';
import type { Orphan } from '../../store/decisions/follower.ts';
import { type Port, sql } from '../../store/decisions/port.ts';
import type { Pins, StepAddress } from '../../store/store.ts';

/** Sub-runs: the runs started by steps of other runs. */
export type SubRunRows = Asks<SubRunReads> & SubRunWrites;

interface SubRunReads {
  /** The revisions that a run pinned when it started. */
  findPins(runId: string): Pins;
  /** The step that started a run; undefined if none did. */
  findParent(runId: string): ParentStep | undefined;
  /** Takes and forgets the runs that `orphanSubRuns` noted, and locks them; may skip runs locked elsewhere. Writes. */
  takeOrphans(limit: number): readonly (Orphan['run'] & { readonly parentRunId: string | null })[];
}

interface SubRunWrites {
  /** Stores which step started a run. */
  insertParent(runId: string, parent: ParentStep): void;
  /**
   * Makes a step due if it waits for this run; else changes nothing. The step's own run needs no lock, because this
   * changes nothing that a decision reads.
   */
  wakeWaiting(step: StepAddress, subRunId: string, at: number): void;
  /** Notes the running sub-runs that steps of this run wait for: their results are no longer needed. */
  orphanSubRuns(runId: string): void;
  /** Notes that a run of the flow started with a revision older than the newest. */
  markUnordered(flowId: string): void;
}

/** The step that started a run. */
interface ParentStep extends StepAddress {
  /** The step waits for the end of the run. */
  readonly isAwaited: boolean;
  /** Number of flows above the run's flow, each started by the one above it. */
  readonly depth: number;
  /** When the topmost of the runs above it started. */
  readonly rootStartedAt: number;
  /** The topmost run was started by a failure. */
  readonly isOfFailure: boolean;
}

export function subRunRows(port: Port): SubRunRows {
  const { later } = port;
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
      // A run locked by another transaction is ending or being stopped there; the next call finds it.
      const taken = yield* port.all<Orphan['run'] & { parentRunId: string | null; seq: number }>(sql`
        SELECT o.seq, r.id AS "runId", r.status, r.flow_id AS "flowId", r.revision, r.trigger_type AS "triggerType",
          r.started_at AS "startedAt", r.timeout_at AS "timeoutAt", r.cancel_requested_at AS "cancelRequestedAt",
          r.timed_out_at AS "timedOutAt", s.parent_run_id AS "parentRunId"
        FROM sluice.orphaned_runs AS o /*sqlite: CROSS */ JOIN sluice.runs AS r ON r.id = o.run_id
        LEFT JOIN sluice.sub_runs AS s ON s.run_id = o.run_id
        ORDER BY o.seq LIMIT ${limit} FOR UPDATE OF o SKIP LOCKED FOR UPDATE OF r SKIP LOCKED`);
      if (taken.length > 0) {
        later(sql`DELETE FROM sluice.orphaned_runs WHERE seq = ANY (${taken.map(({ seq }) => seq)})`);
      }
      return taken.map(({ seq, ...run }) => run);
    },
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
