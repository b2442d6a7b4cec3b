import type { Database } from 'better-sqlite3';
import type { RunStatus } from '../../model/manifest.ts';
import { roundDuration } from './durations.ts';
import type { SqlValue } from './sql-value.ts';

const HOUR_MS = 3_600_000;
const hourOf = (at: number) => Math.floor(at / HOUR_MS);

interface TalliedRun {
  readonly flowId: string;
  readonly status: RunStatus;
  readonly startedAt: number;
  readonly completedAt: number | null;
}

/** Keeps the counts of runs, in the transaction of what changes them. */
export interface RunTallies {
  added(run: TalliedRun): void;
  /** After a run in flight has ended. */
  ended(runId: string): void;
  /** Before a run, which may have ended, is in flight again. */
  reopening(runId: string): void;
}

/** Statements, not triggers: SQLite journals each statement that has one, which made an acceptance half as slow again. */
export function prepareRunTallies(db: Database): RunTallies {
  const add = (table: string, columns: number) =>
    db.prepare<SqlValue[]>(`
      INSERT INTO ${table} VALUES (${'?, '.repeat(columns)}?) ON CONFLICT DO UPDATE SET count = count + excluded.count`);
  const addTotal = add('run_totals', 2);
  const addStart = add('run_starts', 3);
  const addEnd = add('run_ends', 3);
  const addDuration = add('run_durations', 3);
  const find = db.prepare<[string], TalliedRun>(`
    SELECT flow_id AS flowId, status, started_at AS startedAt, completed_at AS completedAt FROM runs WHERE id = ?`);

  const addEnded = ({ flowId, status, startedAt, completedAt }: TalliedRun, by: 1 | -1) => {
    const endedAt = completedAt ?? startedAt;
    const startHour = hourOf(startedAt);
    const durationMs = roundDuration(endedAt - startedAt);
    addStart.run(startHour, flowId, status, by);
    addEnd.run(hourOf(endedAt), flowId, status, by);
    addDuration.run(flowId, startHour, durationMs, by);
    addDuration.run('', startHour, durationMs, by);
  };

  return {
    added(run) {
      addTotal.run(run.flowId, run.status, 1);
      if (run.status !== 'Running') addEnded(run, 1);
    },
    ended(runId) {
      const run = find.get(runId);
      if (run === undefined) return;
      addTotal.run(run.flowId, 'Running', -1);
      addTotal.run(run.flowId, run.status, 1);
      addEnded(run, 1);
    },
    reopening(runId) {
      const run = find.get(runId);
      if (run === undefined || run.status === 'Running') return;
      addTotal.run(run.flowId, run.status, -1);
      addTotal.run(run.flowId, 'Running', 1);
      addEnded(run, -1);
    },
  };
}
