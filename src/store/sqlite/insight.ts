import type { Database } from 'better-sqlite3';
import type { Run } from '../../model/run.ts';
import type { Lineage, SignalRecord } from '../store.ts';
import { runColumns } from './runs.ts';

const HOUR_MS = 3_600_000;

export function prepareFindLineage(db: Database): (runId: string) => Lineage | undefined {
  const find = db.prepare<[string], Run>(`SELECT ${runColumns} FROM runs WHERE id = ?`);
  const listDerived = db.prepare<[string], Run>(
    `SELECT ${runColumns} FROM runs WHERE source_run_id = ? ORDER BY started_at, id`,
  );
  return (runId) => {
    const run = find.get(runId);
    if (run === undefined) return undefined;
    const source = run.sourceRunId === null ? undefined : find.get(run.sourceRunId);
    return { source, derived: listDerived.all(runId) };
  };
}

export function prepareListSignals(db: Database): (runId: string) => SignalRecord[] {
  const list = db.prepare<[string], SignalRecord>(`
    SELECT name, delivered_at AS deliveredAt, step_key AS stepKey FROM signals WHERE run_id = ? ORDER BY id`);
  return (runId) => list.all(runId);
}

export function preparePurgeRuns(db: Database): (purge: { before: number; limit: number }) => number {
  const list = db.prepare<[number, number, number], { id: string }>(`
    SELECT id FROM runs WHERE started_at < ? AND completed_at < ? AND status <> 'Running'
    ORDER BY started_at LIMIT ?`);
  const deletions = [
    `DELETE FROM idempotency_keys WHERE (flow_id, trigger_key, key, run_id) IN (
      SELECT flow_id, trigger_key, idempotency_key, id FROM runs WHERE id = ?)`,
    'DELETE FROM attempts WHERE run_id = ?',
    'DELETE FROM steps WHERE run_id = ?',
    'DELETE FROM signals WHERE run_id = ?',
    'DELETE FROM loops WHERE run_id = ?',
    'DELETE FROM loop_items WHERE run_id = ?',
    'DELETE FROM runs WHERE id = ?',
  ].map((sql) => db.prepare(sql));
  const forget = [
    'DELETE FROM run_starts WHERE hour < ?',
    'DELETE FROM run_ends WHERE hour < ?',
    // Flow by flow: the hour stands behind it in the key.
    "DELETE FROM run_durations WHERE flow_id IN (SELECT DISTINCT flow_id FROM run_totals UNION SELECT '') AND hour < ?",
  ].map((sql) => db.prepare<[number]>(sql));
  return ({ before, limit }) => {
    for (const deletion of forget) deletion.run(Math.floor(before / HOUR_MS));
    const runs = list.all(before, before, limit);
    for (const { id } of runs) for (const deletion of deletions) deletion.run(id);
    return runs.length;
  };
}
