import type { Database } from 'better-sqlite3';
import type { StepStatus } from '../../model/manifest.ts';
import type { ChildCount, LoopProgress, StepMoment, StepMoments, StepOutline, Store } from '../store.ts';
import { SLOT_WAIT, toError } from './runs.ts';

type OutlineAttempt = StepOutline['attempts'][number];
type StepRow = Omit<StepOutline, 'error' | 'attempts'> & { readonly error: string | null };

export function prepareOutlineSteps(db: Database): (runId: string, stepKeys: readonly string[]) => StepOutline[] {
  const named = 'run_id = ? AND step_key IN (SELECT value FROM json_each(?)) ORDER BY step_key';
  const listSteps = db.prepare<[string, string], StepRow>(`
    SELECT step_key AS stepKey, step_type AS stepType, status, error, skip_reason AS skipReason, due_at AS dueAt,
      started_at AS startedAt, completed_at AS completedAt, signal_name AS signalName
    FROM steps WHERE ${named}`);
  const listAttempts = db.prepare<[string, string], OutlineAttempt & { readonly stepKey: string }>(`
    SELECT step_key AS stepKey, attempt, status, ${SLOT_WAIT}, started_at AS startedAt, completed_at AS completedAt
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
      error: toError(row.error),
      attempts: attempts.get(row.stepKey) ?? [],
    }));
  };
}

export function prepareListMoments(db: Database): (query: { runId: string; limit: number }) => StepMoments {
  // An attempt that failed was retried where another followed it, or where its step is not Failed now.
  const list = db.prepare<[string, string, string, number], StepMoment>(`
    SELECT step_key AS stepKey, attempt, kind, at, reason FROM (
      SELECT step_key, attempt, 'started' AS kind, started_at AS at, 1 AS rank, NULL AS reason
      FROM attempts WHERE run_id = ?
      UNION ALL
      SELECT a.step_key, a.attempt,
        CASE WHEN a.status <> 'Failed' THEN 'completed'
          WHEN a.attempt < s.attempt_count OR s.status <> 'Failed' THEN 'retried' ELSE 'failed' END,
        a.completed_at, 2, a.error ->> '$.message'
      FROM attempts a JOIN steps s USING (run_id, step_key) WHERE run_id = ? AND a.completed_at IS NOT NULL
      UNION ALL
      SELECT step_key, 0, 'skipped', completed_at, 3, skip_reason
      FROM steps WHERE run_id = ? AND status = 'Skipped' AND completed_at IS NOT NULL
    ) ORDER BY at DESC, rank DESC, step_key DESC, attempt DESC LIMIT ?`);
  const countAll = db.prepare<[string, string], { total: number }>(`
    SELECT (SELECT count(*) + count(completed_at) FROM attempts WHERE run_id = ?) +
      (SELECT count(completed_at) FROM steps WHERE run_id = ? AND status = 'Skipped') AS total`);
  return ({ runId, limit }) => {
    const items = list.all(runId, runId, runId, limit).reverse();
    return { items, total: countAll.get(runId, runId)?.total ?? 0 };
  };
}

export function prepareListLoops(db: Database): (runId: string) => LoopProgress[] {
  const list = db.prepare<[string], LoopProgress>(`
    SELECT step_key AS stepKey, total, started, ended, failed FROM loops WHERE run_id = ? ORDER BY step_key`);
  return (runId) => list.all(runId);
}

export function prepareCountChildren(db: Database): (runId: string) => ChildCount[] {
  const list = db.prepare<[string], { stepKey: string; status: StepStatus }>(
    "SELECT step_key AS stepKey, status FROM steps WHERE run_id = ? AND instr(step_key, '.') > 0",
  );
  return (runId) => {
    const counts = new Map<string, { path: string; status: StepStatus; count: number }>();
    for (const { stepKey, status } of list.iterate(runId)) {
      const path = stepKey.replace(/\.\d+\./g, '.');
      const known = counts.get(`${path} ${status}`);
      if (known === undefined) counts.set(`${path} ${status}`, { path, status, count: 1 });
      else known.count += 1;
    }
    return [...counts.values()];
  };
}

export function prepareFindIterations(db: Database): (query: Parameters<Store['findIterations']>[0]) => number[] {
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
