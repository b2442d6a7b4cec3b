import type { RunStatus } from '../../model/manifest.ts';
import { firstIdAt } from '../../model/payload.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { storePart } from '../../store/decisions/part.ts';
import { fixed, type Port, sql } from '../../store/decisions/port.ts';
import { runRowsOf } from '../../store/decisions/run-rows.ts';
import { type ReleasedRun, releaseOrder } from './placer.ts';

/** What the orders of flows need people for. */
export interface OrderReport {
  /** Runs that failed and hold their keys, the oldest first; at most 200. */
  readonly stopped: readonly {
    readonly runId: string;
    readonly flowId: string;
    readonly key: string | null;
    readonly status: RunStatus;
    /** Runs that wait because of it; at most 1000 are counted. */
    readonly waiting: number;
  }[];
  /** Runs that started without a key since the instant that is asked for, by flow. */
  readonly keyless: readonly {
    readonly flowId: string;
    readonly count: number;
    /** The newest of them, and why it has none. */
    readonly runId: string;
    readonly problem: string;
  }[];
}

const COUNTED_WAITS = fixed('1000');

/** Runs that hold their keys and are told of, and those that wait for one of them and are counted. */
const STOPPED = fixed('200');

function* reportOrders(port: Port, { since }: { since: number }): Decision<OrderReport> {
  const stopped = yield* port.all<OrderReport['stopped'][number]>(sql`
    SELECT run_id AS "runId", flow_id AS "flowId", key,
      (SELECT r.status FROM sluice.runs AS r WHERE r.id = own.run_id) AS status, (
      SELECT count(*) FROM (
        SELECT 1 FROM sluice.ordered_runs AS behind
        WHERE behind.lane = own.lane AND behind.state IS NOT NULL AND behind.seq > own.seq LIMIT ${COUNTED_WAITS}
      ) AS counted
    ) AS waiting
    FROM sluice.ordered_runs AS own WHERE state = 'stopped' ORDER BY run_id LIMIT ${STOPPED}`);
  const keyless = yield* port.all<OrderReport['keyless'][number]>(sql`
    SELECT own.flow_id AS "flowId", own.count, own.newest AS "runId", o.problem FROM (
      SELECT flow_id, count(*) AS count, max(run_id::text) AS newest FROM sluice.ordered_runs
      WHERE problem IS NOT NULL AND run_id >= ${firstIdAt(since)} GROUP BY flow_id
    ) AS own /*sqlite: CROSS */ JOIN sluice.ordered_runs AS o ON o.run_id = own.newest::uuid ORDER BY own.flow_id`);
  return { stopped, keyless };
}

export const orderStore = storePart({
  name: 'order',
  verbs: {
    reportOrders: { access: 'read', decide: reportOrders },
    /** Lets the next run of its key start, although the run that ended last has failed and holds the key. */
    releaseOrder: {
      access: 'write',
      changes: null,
      decide: (port: Port, release: ReleasedRun) => releaseOrder(runRowsOf(port), release),
    },
  },
});
