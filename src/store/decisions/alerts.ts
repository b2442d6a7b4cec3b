import { fromJson, toError, toJson } from '../json-columns.ts';
import type { FailedRunNotice } from '../store.ts';
import { insertRun } from './new-runs.ts';
import { sql } from './port.ts';
import { pinRows } from './sub-run-rows.ts';
import { withPins } from './sub-runs.ts';
import type { Verbs } from './verb.ts';

export const alertVerbs: Verbs<'readAlerts' | 'commitAlerts' | 'forgetAlerts'> = {
  readAlerts: {
    access: 'read',
    /** The version is read first: a notice that is taken by a later one is not told twice. */
    *decide(port, { limit }) {
      const row = yield* port.get<{ version: number; state: string }>(
        sql`SELECT version, state FROM sluice.alert_state`,
      );
      const notices = yield* port.all<Omit<FailedRunNotice, 'error'> & { error: string | null }>(sql`
        SELECT n.seq, r.id AS "runId", r.flow_id AS "flowId", r.flow_name AS "flowName",
          r.trigger_key AS "triggerKey", r.started_at AS "startedAt", r.completed_at AS "completedAt", r.status,
          s.step_key AS "stepKey", s.error
        FROM sluice.failed_run_notices AS n /*sqlite: CROSS */ JOIN sluice.runs AS r ON r.id = n.run_id
        LEFT JOIN sluice.steps AS s ON s.run_id = r.id AND s.step_key = (
          SELECT step_key FROM sluice.steps WHERE run_id = r.id AND status = 'Failed'
          ORDER BY completed_at DESC, length(step_key) DESC LIMIT 1)
        ORDER BY n.seq LIMIT ${limit}`);
      const failures = notices.map((notice): FailedRunNotice => ({ ...notice, error: toError(notice.error) }));
      return { version: row?.version ?? 0, state: fromJson(row?.state ?? null), failures };
    },
  },
  commitAlerts: {
    access: 'write',
    changes: null,
    *decide(port, { version, state, taken, runs }) {
      const text = toJson(state);
      const changes = yield* port.run(
        version === 0
          ? sql`INSERT INTO sluice.alert_state (id, version, state) VALUES (1, 1, ${text}) ON CONFLICT DO NOTHING`
          : sql`UPDATE sluice.alert_state SET version = version + 1, state = ${text} WHERE version = ${version}`,
      );
      if (changes === 0) return 'outdated';
      port.later(sql`DELETE FROM sluice.failed_run_notices WHERE seq = ANY (${taken})`);
      for (const run of runs) insertRun(port, yield* withPins(pinRows(port), run));
      return 'committed';
    },
  },
  forgetAlerts: {
    access: 'write',
    changes: null,
    *decide(port) {
      yield* port.run(sql`DELETE FROM sluice.alert_state`);
      yield* port.run(sql`DELETE FROM sluice.failed_run_notices`);
    },
  },
};
