import type { Database } from 'better-sqlite3';
import type { RunStatus } from '../../model/manifest.ts';
import { roundDuration } from './durations.ts';
import { prepareSums } from './sums.ts';

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
  /** Ends a run in flight. */
  end(runId: string, status: RunStatus, at: number): void;
  /** Before a run, which may have ended, is in flight again. */
  reopening(runId: string): void;
}

/** Statements, not triggers: SQLite journals each statement that has one, which made an acceptance half as slow again. */
export function prepareRunTallies(db: Database): RunTallies {
  const addTotal = prepareSums(db, 'run_totals (flow_id, status, count)');
  const addStart = prepareSums(db, 'run_starts (hour, flow_id, status, count)');
  const addEnd = prepareSums(db, 'run_ends (hour, flow_id, status, count)');
  const addDuration = prepareSums(db, 'run_durations (flow_id, hour, duration_ms, count)');
  const run = 'flow_id AS flowId, status, started_at AS startedAt, completed_at AS completedAt';
  const find = db.prepare<[string], TalliedRun>(`SELECT ${run} FROM runs WHERE id = ?`);
  const end = db.prepare<[RunStatus, number, string], TalliedRun>(
    `UPDATE runs SET status = ?, completed_at = ? WHERE id = ? RETURNING ${run}`,
  );

  const addEnded = ({ flowId, status, startedAt, completedAt }: TalliedRun, by: 1 | -1) => {
    const endedAt = completedAt ?? startedAt;
    const startHour = hourOf(startedAt);
    const durationMs = roundDuration(endedAt - startedAt);
    addStart([startHour, flowId, status], by);
    addEnd([hourOf(endedAt), flowId, status], by);
    addDuration([flowId, startHour, durationMs], by);
    addDuration(['', startHour, durationMs], by);
  };

  return {
    added(run) {
      addTotal([run.flowId, run.status], 1);
      if (run.status !== 'Running') addEnded(run, 1);
    },
    end(runId, status, at) {
      const run = end.get(status, at, runId);
      if (run === undefined) return;
      addTotal([run.flowId, 'Running'], -1);
      addTotal([run.flowId, run.status], 1);
      addEnded(run, 1);
    },
    reopening(runId) {
      const run = find.get(runId);
      if (run === undefined || run.status === 'Running') return;
      addTotal([run.flowId, run.status], -1);
      addTotal([run.flowId, 'Running'], 1);
      addEnded(run, -1);
    },
  };
}
