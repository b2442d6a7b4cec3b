import { type Port, type Query, sql } from './port.ts';

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
