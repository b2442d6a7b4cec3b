import type { Database } from 'better-sqlite3';
import { fromJson, toError, toJson } from '../json-columns.ts';
import type { FailedRunNotice } from '../store.ts';
import { prepareInsertRun, runValues } from './acceptance.ts';
import type { Member } from './messages.ts';

export const alertOperations = {
  readAlerts: { thread: 'reader', prepare: prepareRead },
  commitAlerts: { thread: 'writer', prepare: prepareCommit },
  forgetAlerts: { thread: 'writer', prepare: prepareForget },
} as const;

function prepareRead(db: Database): Member<'readAlerts'> {
  const find = db.prepare<[], { version: number; state: string }>('SELECT version, state FROM alert_state');
  const list = db.prepare<[number], Omit<FailedRunNotice, 'error' | 'stepKey'>>(`
    SELECT n.seq, r.id AS runId, r.flow_id AS flowId, r.flow_name AS flowName, r.status
    FROM failed_run_notices n CROSS JOIN runs r ON r.id = n.run_id ORDER BY n.seq LIMIT ?`);
  const findStep = db.prepare<[string], { stepKey: string; error: string | null }>(`
    SELECT step_key AS stepKey, error FROM steps WHERE run_id = ? AND status = 'Failed'
    ORDER BY completed_at DESC, length(step_key) DESC LIMIT 1`);
  return ({ limit }) => {
    const row = find.get();
    const failures = list.all(limit).map((notice): FailedRunNotice => {
      const { stepKey = null, error = null } = findStep.get(notice.runId) ?? {};
      return { ...notice, stepKey, error: toError(error) };
    });
    return { version: row?.version ?? 0, state: fromJson(row?.state ?? null), failures };
  };
}

function prepareCommit(db: Database): Member<'commitAlerts'> {
  const insert = db.prepare('INSERT INTO alert_state (id, version, state) VALUES (1, 1, ?) ON CONFLICT DO NOTHING');
  const update = db.prepare('UPDATE alert_state SET version = version + 1, state = ? WHERE version = ?');
  const take = db.prepare('DELETE FROM failed_run_notices WHERE seq = ?');
  const insertRun = prepareInsertRun(db);
  return ({ version, state, taken, runs }) => {
    const text = toJson(state);
    const { changes } = version === 0 ? insert.run(text) : update.run(text, version);
    if (changes === 0) return 'outdated';
    for (const seq of taken) take.run(seq);
    for (const run of runs) insertRun(runValues(run), null, run.trigger.body);
    return 'committed';
  };
}

function prepareForget(db: Database): Member<'forgetAlerts'> {
  const forget = db.prepare('DELETE FROM alert_state');
  const forgetNotices = db.prepare('DELETE FROM failed_run_notices');
  return () => {
    forget.run();
    forgetNotices.run();
  };
}
