import type { ScheduleRecord } from '../store.ts';
import { mayStart } from './acceptance.ts';
import { NewRows } from './new-rows.ts';
import type { Answer, Given, Operations } from './operation.ts';
import type { Sql } from './sql.ts';
import { pinned } from './sub-runs.ts';

export const scheduleOperations: Operations<'listSchedules' | 'changeSchedule' | 'fireSchedule'> = {
  listSchedules: { lane: 'read', run: listSchedules },
  changeSchedule: { lane: 'write', run: changeSchedule },
  fireSchedule: { lane: 'write', run: fireSchedule },
};

async function listSchedules(sql: Sql): Promise<ScheduleRecord[]> {
  return sql.all(
    `SELECT flow_id AS "flowId", trigger_key AS "triggerKey", cron, time_zone AS "timeZone",
      cron_override AS "cronOverride", paused AS "isPaused", next_at AS "nextAt", last_at AS "lastAt", revision
    FROM sluice.flow_schedules ORDER BY flow_id, trigger_key`,
  );
}

async function changeSchedule(sql: Sql, schedule: ScheduleRecord): Promise<ScheduleRecord | undefined> {
  const { flowId, triggerKey, cron, timeZone, cronOverride, isPaused, nextAt, lastAt, revision } = schedule;
  const values = [flowId, triggerKey, cron, timeZone, cronOverride, isPaused, nextAt, lastAt];
  const changed =
    revision === 0
      ? await sql.run(
          `INSERT INTO sluice.flow_schedules
            (flow_id, trigger_key, cron, time_zone, cron_override, paused, next_at, last_at, revision)
          VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1) ON CONFLICT DO NOTHING`,
          values,
        )
      : await sql.run(
          `UPDATE sluice.flow_schedules SET cron = $3, time_zone = $4, cron_override = $5, paused = $6, next_at = $7,
            last_at = $8, revision = revision + 1
          WHERE flow_id = $1 AND trigger_key = $2 AND revision = $9`,
          [...values, revision],
        );
  return changed === 0 ? undefined : { ...schedule, revision: revision + 1 };
}

/** Of the replicas that see a tick, the first to move the schedule on starts the run; the others find it moved. */
async function fireSchedule(sql: Sql, tick: Given<'fireSchedule'>): Promise<Answer<'fireSchedule'>> {
  const { flowId, triggerKey, dueAt, nextAt, run, at } = tick;
  if (run !== null && !(await mayStart(sql, run))) return 'outdated';
  const moved = await sql.run(
    `UPDATE sluice.flow_schedules
    SET next_at = $1, last_at = CASE WHEN $2 THEN $3::bigint ELSE last_at END, revision = revision + 1
    WHERE flow_id = $4 AND trigger_key = $5 AND next_at = $6 AND NOT paused`,
    [nextAt, run !== null, at, flowId, triggerKey, dueAt],
  );
  if (moved === 0) return 'passed';
  if (run !== null) {
    const rows = new NewRows();
    rows.addRun(await pinned(sql, run), {});
    rows.write(sql);
  }
  return 'fired';
}
