import { firstIdAt } from '../../model/payload.ts';
import type { Decision } from './decision.ts';
import { fixed, type Port, type Query, sql } from './port.ts';
import type { Answer, Given, Verbs } from './verb.ts';

/** Runs that hold their keys and are told of, and those that wait for one of them and are counted. */
const STOPPED = fixed('200');
const COUNTED_WAITS = fixed('1000');

function* reportOrders(port: Port, { since }: Given<'reportOrders'>): Decision<Answer<'reportOrders'>> {
  const stopped = yield* port.all<Answer<'reportOrders'>['stopped'][number]>(sql`
    SELECT run_id AS "runId", flow_id AS "flowId", key, (
      SELECT count(*) FROM (
        SELECT 1 FROM sluice.ordered_runs AS behind
        WHERE behind.lane = own.lane AND behind.state IS NOT NULL AND behind.seq > own.seq LIMIT ${COUNTED_WAITS}
      ) AS counted
    ) AS waiting
    FROM sluice.ordered_runs AS own WHERE state = 'stopped' ORDER BY run_id LIMIT ${STOPPED}`);
  const keyless = yield* port.all<Answer<'reportOrders'>['keyless'][number]>(sql`
    SELECT own.flow_id AS "flowId", own.count, own.newest AS "runId", o.problem FROM (
      SELECT flow_id, count(*) AS count, max(run_id::text) AS newest FROM sluice.ordered_runs
      WHERE problem IS NOT NULL AND run_id >= ${firstIdAt(since)} GROUP BY flow_id
    ) AS own /*sqlite: CROSS */ JOIN sluice.ordered_runs AS o ON o.run_id = own.newest::uuid ORDER BY own.flow_id`);
  return { stopped, keyless };
}

/** Of runs in flight those that wait for their turn, with the run before each. */
export function listTurns(port: Port, runIds: readonly string[]) {
  return port.all<{ runId: string; awaitedRunId: string | null }>(sql`
    SELECT own.run_id AS "runId", (
      SELECT ahead.run_id FROM sluice.ordered_runs AS ahead
      WHERE ahead.lane = own.lane AND ahead.state IS NOT NULL AND ahead.seq < own.seq ORDER BY ahead.seq DESC LIMIT 1
    ) AS "awaitedRunId"
    FROM sluice.ordered_runs AS own WHERE own.run_id = ANY (${runIds}) AND own.state = 'waiting'`);
}

/** Ids of the newest runs that wait for their turn, as a statement. */
export function waitingRuns(flowId: string | undefined, limit: number): Query {
  const ofFlow = flowId === undefined ? sql`` : sql` AND flow_id = ${flowId}`;
  return sql`
    SELECT run_id FROM sluice.ordered_runs WHERE state = 'waiting'${ofFlow} ORDER BY run_id DESC LIMIT ${limit}`;
}

export const orderVerbs: Verbs<'reportOrders'> = { reportOrders: { access: 'read', decide: reportOrders } };
