import type { Database } from 'better-sqlite3';
import type { Run } from '../../model/run.ts';
import type { Lineage, SignalRecord } from '../store.ts';
import { runColumns } from './runs.ts';

/** More runs that repeat one than anybody looks through. */
const MAX_DERIVED = 500;

export function prepareFindLineage(db: Database): (runId: string) => Lineage | undefined {
  const find = db.prepare<[string], Run>(`SELECT ${runColumns} FROM runs WHERE id = ?`);
  const listDerived = db.prepare<[string], Run>(
    `SELECT ${runColumns} FROM runs WHERE source_run_id = ? ORDER BY started_at DESC, id DESC LIMIT ${MAX_DERIVED}`,
  );
  return (runId) => {
    const run = find.get(runId);
    if (run === undefined) return undefined;
    const source = run.sourceRunId === null ? undefined : find.get(run.sourceRunId);
    return { source, derived: listDerived.all(runId).reverse() };
  };
}

export function prepareListSignals(db: Database): (runId: string) => SignalRecord[] {
  const list = db.prepare<[string], SignalRecord>(`
    SELECT name, delivered_at AS deliveredAt, step_key AS stepKey FROM signals WHERE run_id = ? ORDER BY id`);
  return (runId) => list.all(runId);
}
