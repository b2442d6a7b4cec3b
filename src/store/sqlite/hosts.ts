import type { Database } from 'better-sqlite3';
import { fromJson, toJson } from '../json-columns.ts';
import type { CircuitRecord, HostWait } from '../store.ts';
import type { SqlValue } from './columns.ts';
import type { Member } from './messages.ts';
import { HOST_OF_STEP } from './runs.ts';

export const hostOperations = {
  listCircuits: { thread: 'reader', prepare: prepareListCircuits },
  changeCircuit: { thread: 'writer', prepare: prepareChangeCircuit },
  listHostWaits: { thread: 'reader', prepare: prepareListHostWaits },
  releaseHostWaits: { thread: 'writer', prepare: prepareReleaseHostWaits },
} as const;

function prepareListCircuits(db: Database): Member<'listCircuits'> {
  const list = db.prepare<[], Omit<CircuitRecord, 'circuit'> & { circuit: string }>(
    'SELECT origin, version, circuit FROM host_circuits ORDER BY origin',
  );
  return () => list.all().map(({ circuit, ...record }) => ({ ...record, circuit: fromJson(circuit) }));
}

function prepareChangeCircuit(db: Database): Member<'changeCircuit'> {
  const insert = db.prepare<SqlValue[]>(
    'INSERT INTO host_circuits (origin, version, circuit) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
  );
  const update = db.prepare<SqlValue[]>(
    'UPDATE host_circuits SET version = ?, circuit = ? WHERE origin = ? AND version = ?',
  );
  const forget = db.prepare<SqlValue[]>('DELETE FROM host_circuits WHERE origin = ? AND version = ?');
  return ({ origin, version, next, circuit }) => {
    if (circuit === null) return forget.run(origin, version).changes > 0 ? 'changed' : 'outdated';
    const text = toJson(circuit);
    const { changes } = version === null ? insert.run(origin, next, text) : update.run(next, text, origin, version);
    return changes > 0 ? 'changed' : 'outdated';
  };
}

const WAITS = `status = 'Pending' AND instr(wait, '"hostTurn":"') > 0`;

function prepareListHostWaits(db: Database): Member<'listHostWaits'> {
  // From one host to the next in the index, without reading the steps between.
  const listOrigins = db.prepare<[], { origin: string }>(
    `WITH RECURSIVE hosts (origin) AS (
        SELECT min(${HOST_OF_STEP}) FROM steps WHERE ${WAITS}
        UNION ALL
        SELECT (SELECT min(${HOST_OF_STEP}) FROM steps WHERE ${WAITS} AND ${HOST_OF_STEP} > hosts.origin)
        FROM hosts WHERE hosts.origin IS NOT NULL
      ) SELECT origin FROM hosts WHERE origin IS NOT NULL LIMIT 1000`,
  );
  const count = db.prepare<SqlValue[], { steps: number; nextDueAt: number | null }>(
    `SELECT count(*) AS steps, min(due_at) AS nextDueAt FROM (
      SELECT due_at FROM steps WHERE ${WAITS} AND ${HOST_OF_STEP} = ? AND due_at > ? ORDER BY due_at LIMIT ?)`,
  );
  return ({ now, most }) =>
    listOrigins.all().flatMap(({ origin }): HostWait[] => {
      const { steps = 0, nextDueAt = null } = count.get(origin, now, most) ?? {};
      return nextDueAt === null ? [] : [{ origin, steps, nextDueAt }];
    });
}

function prepareReleaseHostWaits(db: Database): Member<'releaseHostWaits'> {
  const release = db.prepare<SqlValue[]>(
    `UPDATE steps SET due_at = min(due_at, ? + CAST(next.n * ? AS INTEGER)) FROM (
      SELECT rowid AS row, row_number() OVER (ORDER BY due_at) - 1 AS n FROM (
        SELECT rowid, due_at FROM steps WHERE ${WAITS} AND ${HOST_OF_STEP} = ? AND due_at > ? ORDER BY due_at LIMIT ?)
    ) next WHERE steps.rowid = next.row`,
  );
  return ({ origin, now, limit, everyMs }) => release.run(now, everyMs, origin, now, limit).changes;
}
