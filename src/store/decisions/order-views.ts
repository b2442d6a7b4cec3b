import { type Port, type Query, sql } from './port.ts';

/** The given runs that wait for their turn, each with the run before it. */
export function listTurns(port: Port, runIds: readonly string[]) {
  return port.all<{ runId: string; awaitedRunId: string | null }>(sql`
    SELECT own.run_id AS "runId", (
      SELECT ahead.run_id FROM sluice.ordered_runs AS ahead
      WHERE ahead.lane = own.lane AND ahead.state IS NOT NULL AND ahead.seq < own.seq ORDER BY ahead.seq DESC LIMIT 1
    ) AS "awaitedRunId"
    FROM sluice.ordered_runs AS own WHERE own.run_id = ANY (${runIds}) AND own.state = 'waiting'`);
}

/** A statement that selects the ids of the newest runs that wait for their turn. */
export function waitingRuns(flowId: string | undefined, limit: number): Query {
  const ofFlow = flowId === undefined ? sql`` : sql` AND flow_id = ${flowId}`;
  return sql`
    SELECT run_id FROM sluice.ordered_runs WHERE state = 'waiting'${ofFlow} ORDER BY run_id DESC LIMIT ${limit}`;
}
