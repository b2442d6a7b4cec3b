import { fromJson, toJson } from '../json-columns.ts';
import type { CircuitRecord, HostWait } from '../store.ts';
import type { Answer, Given, Operations } from './operation.ts';
import { HOST_OF_STEP } from './runs.ts';
import type { Sql } from './sql.ts';

export const hostOperations: Operations<'listCircuits' | 'changeCircuit' | 'listHostWaits' | 'releaseHostWaits'> = {
  listCircuits: { lane: 'read', run: listCircuits },
  changeCircuit: { lane: 'write', run: changeCircuit },
  listHostWaits: { lane: 'read', run: listHostWaits },
  releaseHostWaits: { lane: 'write', run: releaseHostWaits },
};

async function listCircuits(sql: Sql): Promise<Answer<'listCircuits'>> {
  const rows = await sql.all<Omit<CircuitRecord, 'circuit'> & { circuit: string }>(
    'SELECT origin, version, circuit FROM sluice.host_circuits ORDER BY origin',
  );
  return rows.map(({ circuit, ...record }) => ({ ...record, circuit: fromJson(circuit) }));
}

async function changeCircuit(
  sql: Sql,
  { origin, version, next, circuit }: Given<'changeCircuit'>,
): Promise<Answer<'changeCircuit'>> {
  const changes = await (circuit === null
    ? sql.run('DELETE FROM sluice.host_circuits WHERE origin = $1 AND version = $2', [origin, version])
    : version === null
      ? sql.run(
          'INSERT INTO sluice.host_circuits (origin, version, circuit) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING',
          [origin, next, toJson(circuit)],
        )
      : sql.run('UPDATE sluice.host_circuits SET version = $1, circuit = $2 WHERE origin = $3 AND version = $4', [
          next,
          toJson(circuit),
          origin,
          version,
        ]));
  return changes > 0 ? 'changed' : 'outdated';
}

const WAITS = `status = 'Pending' AND strpos(wait, '"hostTurn":"') > 0`;

/** From one host to the next in the index, without reading the steps between. */
async function listHostWaits(sql: Sql, { now, most }: Given<'listHostWaits'>): Promise<Answer<'listHostWaits'>> {
  return sql.all<HostWait>(
    `WITH RECURSIVE hosts (origin) AS (
      (SELECT ${HOST_OF_STEP} FROM sluice.steps WHERE ${WAITS} ORDER BY ${HOST_OF_STEP} LIMIT 1)
      UNION ALL
      SELECT later.origin FROM hosts CROSS JOIN LATERAL (
        SELECT ${HOST_OF_STEP} AS origin FROM sluice.steps WHERE ${WAITS} AND ${HOST_OF_STEP} > hosts.origin
        ORDER BY ${HOST_OF_STEP} LIMIT 1
      ) later
    )
    SELECT hosts.origin, own.steps, own."nextDueAt" FROM (SELECT origin FROM hosts LIMIT 1000) hosts
    CROSS JOIN LATERAL (
      SELECT count(*)::integer AS steps, min(due_at) AS "nextDueAt" FROM (
        SELECT due_at FROM sluice.steps WHERE ${WAITS} AND ${HOST_OF_STEP} = hosts.origin AND due_at > $1
        ORDER BY due_at LIMIT $2
      ) waiting
    ) own
    WHERE own.steps > 0 ORDER BY hosts.origin`,
    [now, most],
  );
}

/** Steps that another replica releases, or that a stop ends, are left to it. */
async function releaseHostWaits(sql: Sql, release: Given<'releaseHostWaits'>): Promise<Answer<'releaseHostWaits'>> {
  const { origin, now, limit, everyMs } = release;
  return sql.run(
    `UPDATE sluice.steps SET due_at = least(due_at, $1::bigint + floor(next.n * $4::float8)::bigint) FROM (
      SELECT run_id, step_key, row_number() OVER (ORDER BY due_at) - 1 AS n FROM (
        SELECT run_id, step_key, due_at FROM sluice.steps WHERE ${WAITS} AND ${HOST_OF_STEP} = $2 AND due_at > $1
        ORDER BY due_at LIMIT $3 FOR UPDATE SKIP LOCKED) waiting
    ) next WHERE steps.run_id = next.run_id AND steps.step_key = next.step_key`,
    [now, origin, limit, everyMs],
  );
}
