import { createIdSource } from '../../flows/ids.ts';
import type { RunStatus } from '../../model/manifest.ts';
import { type Answers, asking, type Decision, decide } from '../decisions/decision.ts';
import type { FoundRun, RunOrigin, RunReads, RunRows, RunWrites } from '../decisions/rows.ts';
import type { StoppedRun } from '../store.ts';
import { Counters, type TalliedRun } from './counters.ts';
import { shareFlow } from './flows.ts';
import { loopReads, loopWrites } from './loop-rows.ts';
import { NewRows } from './new-rows.ts';
import { revisionOf } from './revisions.ts';
import { signalReads, signalWrites } from './signal-rows.ts';
import type { Sql, Write } from './sql.ts';
import { leaseWrites, outcomeWrites, planWrites, stepReads } from './step-rows.ts';
import { subRunReads, subRunWrites } from './sub-runs.ts';
import { uuidOf } from './uuids.ts';

/** Runs a decision in this transaction, over rows that no other transaction changes before the commit. */
export async function decideOn<Value>(sql: Sql, decision: (rows: RunRows) => Decision<Value>): Promise<Value> {
  const runs = new Runs();
  const value = await decide(decision(rowsOf(sql, runs)));
  runs.counters.write(sql);
  return value;
}

/** The runs that a decision has read, as they were, and what the decision counts of them. */
class Runs {
  readonly counters = new Counters();
  readonly #read = new Map<string, TalliedRun>();

  add(runId: string, run: TalliedRun): void {
    this.#read.set(runId, run);
  }

  end(runId: string, status: RunStatus, at: number): void {
    this.counters.runEnded({ ...this.#find(runId), status, completedAt: at });
  }

  reopen(runId: string): void {
    this.counters.runReopened(this.#find(runId));
  }

  #find(runId: string): TalliedRun {
    const run = this.#read.get(runId);
    if (run === undefined) throw new Error(`The run ${runId} was not read before it was changed.`);
    return run;
  }
}

function rowsOf(sql: Sql, runs: Runs): RunRows {
  const write: Write = (text, values) => sql.later(text, values);
  const reads = {
    ...runReads(sql, runs),
    ...stepReads(sql),
    ...loopReads(sql),
    ...signalReads(sql),
    ...failureReads(sql),
    ...subRunReads(sql, (runId, run) => runs.add(runId, { ...run, completedAt: null })),
  } satisfies Answers<RunReads>;
  const writes = {
    ...runWrites(write, runs),
    ...outcomeWrites(write),
    ...planWrites(write),
    ...loopWrites(write),
    ...signalWrites(write),
    ...leaseWrites(write),
    ...subRunWrites(write),
    insertRun(run) {
      const added = new NewRows();
      added.addRun(run, {});
      added.write(sql);
    },
  } satisfies RunWrites;
  return { ...asking<RunReads>(reads), ...writes };
}

type RunRead = 'findHeld' | 'findRun' | 'graphOf' | 'revisionOf' | 'hasLease' | 'listOverdueRuns';

interface RunRow extends FoundRun {
  readonly completedAt: number | null;
}

// A transaction that changes steps of a run first locks the row of the run, and then the steps: this order prevents
// deadlocks.
const LOCK_RUN = `
  SELECT status, flow_id AS "flowId", revision, trigger_type AS "triggerType", started_at AS "startedAt", completed_at AS "completedAt",
    timeout_at AS "timeoutAt", cancel_requested_at AS "cancelRequestedAt", timed_out_at AS "timedOutAt"
  FROM sluice.runs WHERE id = $1 FOR UPDATE`;

function runReads(sql: Sql, runs: Runs): Pick<Answers<RunReads>, RunRead> {
  const lockRun = async (runId: string | null): Promise<FoundRun | undefined> => {
    if (runId === null) return undefined;
    const row = await sql.get<RunRow>(LOCK_RUN, [runId]);
    if (row === undefined) return undefined;
    const { completedAt, ...run } = row;
    runs.add(runId, { ...run, completedAt });
    return run;
  };
  return {
    async findHeld({ runId, stepKey, token }) {
      const id = uuidOf(runId);
      // Two statements of one round trip, and not a join: the second sees what the first has waited for.
      const [run, step] = await Promise.all([
        lockRun(id),
        sql.get<{ attempt: number }>(
          `SELECT attempt_count AS attempt FROM sluice.steps
          WHERE run_id = $1 AND step_key = $2 AND lease_token = $3 FOR UPDATE`,
          [id, stepKey, token],
        ),
      ]);
      if (run === undefined || step === undefined) return undefined;
      return { attempt: step.attempt, run };
    },
    findRun: (runId) => lockRun(uuidOf(runId)),
    graphOf: async (flowId, revision) => (await revisionOf(sql, flowId, revision)).graph,
    revisionOf: (flowId, revision) => revisionOf(sql, flowId, revision),
    async hasLease(runId) {
      const row = await sql.get<{ has: boolean }>(
        'SELECT EXISTS (SELECT FROM sluice.steps WHERE run_id = $1 AND lease_token IS NOT NULL) AS has',
        [runId],
      );
      return row?.has === true;
    },
    async listOverdueRuns(now, limit) {
      // What another transaction has locked is being ended or told to stop there; the next look finds it if not.
      const rows = await sql.all<Omit<StoppedRun, 'completedAt'>>(
        `SELECT id AS "runId", flow_id AS "flowId", started_at AS "startedAt" FROM sluice.runs
        WHERE status = 'Running' AND timeout_at IS NOT NULL AND timed_out_at IS NULL AND timeout_at <= $1
        ORDER BY timeout_at LIMIT $2 FOR UPDATE SKIP LOCKED`,
        [now, limit],
      );
      for (const run of rows) runs.add(run.runId, { ...run, status: 'Running', completedAt: null });
      return rows;
    },
  };
}

/** The flow stays as it is until the transaction ends, as in an acceptance. */
function failureReads(sql: Sql): Pick<Answers<RunReads>, 'findOrigin' | 'hasFailureRun' | 'findFlow' | 'newId'> {
  return {
    findOrigin: (runId) =>
      sql.get<RunOrigin>(
        `SELECT flow_id AS "flowId", flow_name AS "flowName", flow_version AS "flowVersion", revision,
          trigger_key AS "triggerKey", trigger_type AS "triggerType", delivery_id AS "deliveryId",
          source_run_id AS "sourceRunId", started_at AS "startedAt", traceparent
        FROM sluice.runs WHERE id = $1`,
        [runId],
      ),
    async hasFailureRun(runId) {
      const found = await sql.get(
        "SELECT FROM sluice.runs WHERE source_run_id = $1 AND trigger_type = 'failure' LIMIT 1",
        [runId],
      );
      return found !== undefined;
    },
    findFlow: (flowId) => shareFlow(sql, flowId),
    newId: sql.kept(makeIds),
  };
}

const makeIds = () => createIdSource();

type RunWrite = 'endRun' | 'markCancelled' | 'markTimedOut' | 'reopenRun';

function runWrites(write: Write, runs: Runs): Pick<RunWrites, RunWrite> {
  return {
    endRun(runId, status, at) {
      runs.end(runId, status, at);
      write('UPDATE sluice.runs SET status = $2, completed_at = $3 WHERE id = $1', [runId, status, at]);
    },
    markCancelled: (runId, reason, at) =>
      write(
        `UPDATE sluice.runs SET cancel_requested_at = $2, cancel_reason = $3
        WHERE id = $1 AND cancel_requested_at IS NULL`,
        [runId, at, reason],
      ),
    markTimedOut: (runId, at) => write('UPDATE sluice.runs SET timed_out_at = $2 WHERE id = $1', [runId, at]),
    reopenRun(runId) {
      runs.reopen(runId);
      // A run in flight keeps its deadline; a run that had ended has used its time up.
      write(
        `UPDATE sluice.runs SET timeout_at = CASE WHEN status = 'Running' THEN timeout_at END, status = 'Running',
          completed_at = NULL
        WHERE id = $1`,
        [runId],
      );
    },
  };
}
