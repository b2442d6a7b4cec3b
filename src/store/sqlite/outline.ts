import type { Database } from 'better-sqlite3';
import type { StepStatus } from '../../model/manifest.ts';
import type { LoopSummary, OutlineStore, StepOutline } from '../store.ts';
import { toError } from './runs.ts';

type OutlineAttempt = StepOutline['attempts'][number];
type StepRow = Omit<StepOutline, 'error' | 'attempts'> & { readonly error: string | null };
type AttemptRow = Omit<OutlineAttempt, 'error'> & { readonly stepKey: string; readonly error: string | null };

export function prepareOutlineSteps(db: Database): (runId: string, stepKeys?: readonly string[]) => StepOutline[] {
  const listSteps = (which: string) =>
    db.prepare<string[], StepRow>(`
      SELECT step_key AS stepKey, step_type AS stepType, status, error, skip_reason AS skipReason, due_at AS dueAt,
        started_at AS startedAt, completed_at AS completedAt, signal_name AS signalName
      FROM steps WHERE run_id = ? ${which} ORDER BY step_key`);
  const listAttempts = (which: string) =>
    db.prepare<string[], AttemptRow>(`
      SELECT step_key AS stepKey, attempt, status, error, started_at AS startedAt, completed_at AS completedAt
      FROM attempts WHERE run_id = ? ${which} ORDER BY step_key, attempt`);
  const isNamed = 'AND step_key IN (SELECT value FROM json_each(?))';
  const named = { steps: listSteps(isNamed), attempts: listAttempts(isNamed) };
  const all = { steps: listSteps(''), attempts: listAttempts('') };
  return (runId, stepKeys) => {
    const values = stepKeys === undefined ? [runId] : [runId, JSON.stringify(stepKeys)];
    const lists = stepKeys === undefined ? all : named;
    const attempts = new Map<string, OutlineAttempt[]>();
    for (const { stepKey, error, ...row } of lists.attempts.iterate(...values)) {
      const attempt = { ...row, error: toError(error) };
      const earlier = attempts.get(stepKey);
      if (earlier === undefined) attempts.set(stepKey, [attempt]);
      else earlier.push(attempt);
    }
    return lists.steps.all(...values).map((row) => ({
      ...row,
      error: toError(row.error),
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
