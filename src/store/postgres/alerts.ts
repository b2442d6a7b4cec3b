import { fromJson, toError, toJson } from '../json-columns.ts';
import type { FailedRunNotice } from '../store.ts';
import { NewRows } from './new-rows.ts';
import type { Answer, Given, Operations } from './operation.ts';
import type { Sql } from './sql.ts';

export const alertOperations: Operations<'readAlerts' | 'commitAlerts' | 'forgetAlerts'> = {
  readAlerts: { lane: 'read', run: readAlerts },
  commitAlerts: { lane: 'write', run: commitAlerts },
  forgetAlerts: { lane: 'write', run: forgetAlerts },
};

/** The version is read first: a notice that is taken by a later one is not told twice. */
async function readAlerts(sql: Sql, { limit }: Given<'readAlerts'>): Promise<Answer<'readAlerts'>> {
  const row = await sql.get<{ version: number; state: string }>('SELECT version, state FROM sluice.alert_state');
  const notices = await sql.all<Omit<FailedRunNotice, 'error'> & { error: string | null }>(
    `SELECT n.seq, r.id AS "runId", r.flow_id AS "flowId", r.flow_name AS "flowName", r.status,
      s.step_key AS "stepKey", s.error
    FROM sluice.failed_run_notices n
    JOIN sluice.runs r ON r.id = n.run_id
    LEFT JOIN LATERAL (
      SELECT step_key, error FROM sluice.steps WHERE run_id = r.id AND status = 'Failed'
      ORDER BY completed_at DESC, length(step_key) DESC LIMIT 1
    ) s ON true
    ORDER BY n.seq LIMIT $1`,
    [limit],
  );
  const failures = notices.map((notice): FailedRunNotice => ({ ...notice, error: toError(notice.error) }));
  return { version: row?.version ?? 0, state: fromJson(row?.state ?? null), failures };
}

async function commitAlerts(sql: Sql, commit: Given<'commitAlerts'>): Promise<Answer<'commitAlerts'>> {
  const { version, state, taken, runs } = commit;
  const text = toJson(state);
  const changes =
    version === 0
      ? await sql.run('INSERT INTO sluice.alert_state (id, version, state) VALUES (1, 1, $1) ON CONFLICT DO NOTHING', [
          text,
        ])
      : await sql.run('UPDATE sluice.alert_state SET version = version + 1, state = $1 WHERE version = $2', [
          text,
          version,
        ]);
  if (changes === 0) return 'outdated';
  if (taken.length > 0) sql.later('DELETE FROM sluice.failed_run_notices WHERE seq = ANY($1)', [taken]);
  const rows = new NewRows();
  for (const run of runs) rows.addRun(run, {});
  rows.write(sql);
  return 'committed';
}

async function forgetAlerts(sql: Sql): Promise<void> {
  sql.later('DELETE FROM sluice.alert_state');
  sql.later('DELETE FROM sluice.failed_run_notices');
}
