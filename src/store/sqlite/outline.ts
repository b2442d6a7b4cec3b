import type { Database } from 'better-sqlite3';
import type { StepStatus } from '../../model/manifest.ts';
import type { LoopSummary, OutlineStore, StepOutline } from '../store.ts';

type OutlineAttempt = StepOutline['attempts'][number];

export function prepareOutlineSteps(db: Database): (runId: string, stepKeys: readonly string[]) => StepOutline[] {
  type Row = Omit<StepOutline, 'error' | 'attempts'> & { readonly error: string | null };
  const named = 'run_id = ? AND step_key IN (SELECT value FROM json_each(?)) ORDER BY step_key';
  const listSteps = db.prepare<[string, string], Row>(`
    SELECT step_key AS stepKey, step_type AS stepType, status, error, skip_reason AS skipReason, due_at AS dueAt,
      started_at AS startedAt, completed_at AS completedAt, signal_name AS signalName
    FROM steps WHERE ${named}`);
  const listAttempts = db.prepare<[string, string], OutlineAttempt & { readonly stepKey: string }>(`
    SELECT step_key AS stepKey, attempt, status, started_at AS startedAt, completed_at AS completedAt
    FROM attempts WHERE ${named}, attempt`);
  return (runId, stepKeys) => {
    const keys = JSON.stringify(stepKeys);
    const attempts = new Map<string, OutlineAttempt[]>();
    for (const { stepKey, ...attempt } of listAttempts.iterate(runId, keys)) {
      const earlier = attempts.get(stepKey);
      if (earlier === undefined) attempts.set(stepKey, [attempt]);
      else earlier.push(attempt);
    }
    return listSteps.all(runId, keys).map((row) => ({
      ...row,
      error: row.error === null ? null : JSON.parse(row.error),
      attempts: attempts.get(row.stepKey) ?? [],
    }));
  };
}

export function prepareSummariseLoops(db: Database): (runId: string) => LoopSummary {
  const listLoops = db.prepare<[string], LoopSummary['loops'][number]>(`
    SELECT step_key AS stepKey, total, started, ended, failed FROM loops WHERE run_id = ? ORDER BY step_key`);
  const listChildren = db.prepare<[string], { stepKey: string; status: StepStatus }>(
    "SELECT step_key AS stepKey, status FROM steps WHERE run_id = ? AND instr(step_key, '.') > 0",
  );
  return (runId) => {
    const loops = listLoops.all(runId);
    if (loops.length === 0) return { loops, children: [] };
    const counts = new Map<string, { path: string; status: StepStatus; count: number }>();
    for (const { stepKey, status } of listChildren.iterate(runId)) {
      const path = stepKey.replace(/\.\d+\./g, '.');
      const known = counts.get(`${path} ${status}`);
      if (known === undefined) counts.set(`${path} ${status}`, { path, status, count: 1 });
      else known.count += 1;
    }
    return { loops, children: [...counts.values()] };
  };
}

export function prepareFindIterations(
  db: Database,
): (query: Parameters<OutlineStore['findIterations']>[0]) => number[] {
  const list = db.prepare<[string, string, string, string], { stepKey: string }>(`
    SELECT step_key AS stepKey FROM steps WHERE run_id = ? AND step_key >= ? AND step_key < ? AND status = ?`);
  return ({ runId, loopKey, status, limit }) => {
    const found = new Set<number>();
    // "/" is the character after ".".
    for (const { stepKey } of list.iterate(runId, `${loopKey}.`, `${loopKey}/`, status)) {
      found.add(Number.parseInt(stepKey.slice(loopKey.length + 1), 10));
    }
    return [...found].sort((a, b) => a - b).slice(0, limit);
  };
}
