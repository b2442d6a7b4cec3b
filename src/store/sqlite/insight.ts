import type { Database } from 'better-sqlite3';
import type { RunStatus } from '../../model/manifest.ts';
import type { Run } from '../../model/run.ts';
import type { InsightStore, Lineage, RunStats, RunTime, SignalRecord } from '../store.ts';
import { runColumns } from './runs.ts';

export function prepareRunStats(db: Database): (since: number) => RunStats {
  const countActive = db.prepare<[], { count: number }>("SELECT count(*) AS count FROM runs WHERE status = 'Running'");
  // A run that ended in time cannot be found by its end without reading runs that began before.
  const countEnded = db.prepare<[number], { status: RunStatus; count: number }>(`
    SELECT status, count(*) AS count FROM runs WHERE completed_at >= ? GROUP BY status`);
  return (since) => ({
    active: countActive.get()?.count ?? 0,
    ended: Object.fromEntries(countEnded.all(since).map(({ status, count }) => [status, count])),
  });
}

export function prepareListRunTimes(db: Database): (query: Parameters<InsightStore['listRunTimes']>[0]) => RunTime[] {
  const columns = 'started_at AS startedAt, completed_at AS completedAt, status';
  const order = 'ORDER BY started_at LIMIT ?';
  const listAll = db.prepare<number[], RunTime>(
    `SELECT ${columns} FROM runs WHERE started_at >= ? AND started_at < ? ${order}`,
  );
  const listOfFlow = db.prepare<[string, number, number, number], RunTime>(
    `SELECT ${columns} FROM runs WHERE flow_id = ? AND started_at >= ? AND started_at < ? ${order}`,
  );
  return ({ since, until, flowId, limit }) =>
    flowId === undefined ? listAll.all(since, until, limit) : listOfFlow.all(flowId, since, until, limit);
}

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
  return ({ before, limit }) => {
    const runs = list.all(before, before, limit);
    for (const { id } of runs) for (const deletion of deletions) deletion.run(id);
    return runs.length;
  };
}
