import { firstIdAt } from '../../model/delivery-ids.ts';
import type { RunStatus } from '../../model/manifest.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { storePart } from '../../store/decisions/part.ts';
import { fixed, type Port, sql } from '../../store/decisions/port.ts';
import { runRowsOf } from '../../store/decisions/run-rows.ts';
import { type ReleasedRun, releaseOrder } from './placer.ts';

/** Problems of orders that need a person. */
export interface OrderReport {
  /** Failed runs that hold their keys, oldest first; at most 200. */
  readonly stopped: readonly {
    readonly runId: string;
    readonly flowId: string;
    readonly key: string | null;
    readonly status: RunStatus;
    /** Runs that wait because of it; counted up to 1000. */
    readonly waiting: number;
  }[];
  /** Runs that started without a key since the given time, by flow. */
  readonly keyless: readonly {
    readonly flowId: string;
    readonly count: number;
    /** The newest of them, and why it has no key. */
    readonly runId: string;
    readonly problem: string;
  }[];
}

const COUNTED_WAITS = fixed('1000');

/** Limits of the reported runs that hold keys, and of the counted runs that wait for one of them. */
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
    /** Starts the next run of its key, although the last run failed and holds the key. */
    releaseOrder: {
      access: 'write',
      changes: null,
      decide: (port: Port, release: ReleasedRun) => releaseOrder(runRowsOf(port), release),
    },
  },
});
