import { createIdSource } from '../../model/ids.ts';
import { leasedStep } from '../../model/runtime-keys.ts';
import { uuidOf } from '../uuids.ts';
import { type CountedRun, countRunEnd, countRunReopened } from './counts.ts';
import { type Asks, known } from './decision.ts';
import { shareFlows } from './flows.ts';
import { scopes } from './following.ts';
import { insertRun } from './new-runs.ts';
import { pinRows } from './pins.ts';
import { fixed, type Port, sql } from './port.ts';
import { revisionOf } from './revisions.ts';
import type { FoundRun, RunOrigin, RunReads, RunRows, RunWrites } from './rows.ts';
import { signalReads, signalWrites } from './signal-rows.ts';
import { leaseWrites, outcomeWrites, planWrites, stepReads } from './step-rows.ts';

/** The rows of runs, which no other transaction changes before the commit. */
export function runRowsOf(port: Port): RunRows {
  return port.own(makeRunRows);
}

function makeRunRows(port: Port): RunRows {
  return {
    ...runReads(port),
    ...pinRows(port),
    ...stepReads(port),
    ...signalReads(port),
    *findItem(runId, loopKey, index) {
      const iteration = { runId, loopKey, index };
      return (yield* scopes.items(port, [iteration]))(iteration);
    },
    // The flow does not change until the transaction ends, as in an acceptance.
    *findFlow(flowId) {
      return (yield* shareFlows(port, [flowId])).get(flowId);
    },
    ...runWrites(port),
    ...outcomeWrites(port),
    ...planWrites(port),
    ...signalWrites(port),
    ...leaseWrites(port),
    insertRun: (run) => insertRun(port, run),
  };
}

const makeIds = () => createIdSource();

/** The newest revision of the flow of a run `r`. Null on SQLite: the one process that has it knows all deploys. */
export const NEWEST_REVISION = `
  (SELECT f.revision FROM sluice.flows AS f WHERE f.id = r.flow_id /*sqlite: AND false */) AS "newestRevision"`;

const runFields =
  fixed(`r.status, r.flow_id AS "flowId", r.revision, r.trigger_type AS "triggerType", r.started_at AS "startedAt",
  r.timeout_at AS "timeoutAt", r.cancel_requested_at AS "cancelRequestedAt", r.timed_out_at AS "timedOutAt", ${NEWEST_REVISION}`);

type Read = 'findHeld' | 'findRun' | 'findOrigin' | 'graphOf' | 'newId' | 'hasLease' | 'listOverdueRuns' | 'reopenRun';

function runReads(port: Port): Pick<Asks<RunReads>, Read> {
  return {
    *findHeld({ runId, stepKey, token }) {
      const id = uuidOf(runId);
      // A transaction that changes steps of a run first locks the row of the run, and then the steps: this order
      // prevents deadlocks. And later statements see the changes that this one waited for.
      port.later(sql`SELECT 1 FROM sluice.runs WHERE id = ${id} FOR UPDATE`);
      const found = yield* port.get<FoundRun & { attempt: number }>(sql`
        SELECT s.attempt_count AS attempt, ${runFields} FROM sluice.steps AS s CROSS JOIN sluice.runs AS r
        WHERE s.run_id = /*sqlite: + */${id} AND s.step_key = /*sqlite: + */${stepKey} AND s.lease_token = /*sqlite: + */${leasedStep(token).holder} AND r.id = s.run_id FOR UPDATE OF s`);
      return found && { attempt: found.attempt, run: found };
    },
    findRun: (runId) => port.get(sql`SELECT ${runFields} FROM sluice.runs AS r WHERE id = ${uuidOf(runId)} FOR UPDATE`),
    findOrigin: (runId) =>
      port.get<RunOrigin>(sql`
        SELECT flow_id AS "flowId", flow_name AS "flowName", flow_version AS "flowVersion", revision,
          trigger_key AS "triggerKey", trigger_type AS "triggerType", delivery_id AS "deliveryId",
          source_run_id AS "sourceRunId", started_at AS "startedAt", traceparent
        FROM sluice.runs WHERE id = ${runId}`),
    *graphOf(flowId, revision) {
      return (yield* revisionOf(port, flowId, revision)).graph;
    },
    newId: () => known(port.kept(makeIds)()),
    *hasLease(runId) {
      const leased = yield* port.get(
        sql`SELECT 1 AS found FROM sluice.steps WHERE run_id = ${runId} AND lease_token IS NOT NULL LIMIT 1`,
      );
      return leased !== undefined;
    },
    // Runs locked by another transaction are being ended or stopped there; if not, the next look finds them.
    listOverdueRuns: (now, limit) =>
      port.all(sql`
        SELECT id AS "runId", flow_id AS "flowId", started_at AS "startedAt" FROM sluice.runs
        WHERE status = 'Running' AND timeout_at IS NOT NULL AND timed_out_at IS NULL AND timeout_at <= ${now}
        ORDER BY timeout_at LIMIT ${limit} FOR UPDATE SKIP LOCKED`),
    *reopenRun(runId) {
      const was = yield* port.get<CountedRun>(sql`
        SELECT flow_id AS "flowId", status, started_at AS "startedAt", completed_at AS "completedAt"
        FROM sluice.runs WHERE id = ${runId}`);
      if (was !== undefined) countRunReopened(port.count, was);
      // A run in flight keeps its deadline; a run that had ended has used its time up.
      port.later(sql`
        UPDATE sluice.runs SET timeout_at = CASE WHEN status = 'Running' THEN timeout_at END, status = 'Running',
          completed_at = NULL
        WHERE id = ${runId}`);
    },
  };
}

type Write = 'setDeadline' | 'endRun' | 'markCancelled' | 'markTimedOut';

function runWrites({ later, count }: Port): Pick<RunWrites, Write> {
  return {
    setDeadline: (runId, timeoutAt) => later(sql`UPDATE sluice.runs SET timeout_at = ${timeoutAt} WHERE id = ${runId}`),
    endRun({ runId, flowId, startedAt }, status, at) {
      countRunEnd(count, { flowId, startedAt, status, completedAt: at });
      later(sql`UPDATE sluice.runs SET status = ${status}, completed_at = ${at} WHERE id = ${runId}`);
    },
    markCancelled: (runId, reason, at) =>
      later(sql`
        UPDATE sluice.runs SET cancel_requested_at = ${at}, cancel_reason = ${reason}
        WHERE id = ${runId} AND cancel_requested_at IS NULL`),
    markTimedOut: (runId, at) => later(sql`UPDATE sluice.runs SET timed_out_at = ${at} WHERE id = ${runId}`),
  };
}
