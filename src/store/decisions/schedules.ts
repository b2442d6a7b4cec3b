import { mayStart, sharingFlowRows } from './acceptance.ts';
import { insertRun } from './new-runs.ts';
import { withOrder } from './order.ts';
import { orderRows } from './order-rows.ts';
import { sql } from './port.ts';
import { pinRows } from './sub-run-rows.ts';
import { withPins } from './sub-runs.ts';
import type { Verbs } from './verb.ts';

export const scheduleVerbs: Verbs<'listSchedules' | 'changeSchedule' | 'fireSchedule'> = {
  listSchedules: {
    access: 'read',
    *decide(port) {
      return yield* port.all(sql`
        SELECT flow_id AS "flowId", trigger_key AS "triggerKey", cron, time_zone AS "timeZone",
          cron_override AS "cronOverride", paused AS "isPaused", next_at AS "nextAt", last_at AS "lastAt", revision
        FROM sluice.flow_schedules ORDER BY flow_id, trigger_key`);
    },
  },
  changeSchedule: {
    access: 'write',
    changes: ({ flowId }) => [{ kind: 'schedule', flowId }],
    *decide(port, schedule) {
      const { flowId, triggerKey, cron, timeZone, cronOverride, isPaused, nextAt, lastAt, revision } = schedule;
      const changed = yield* port.run(
        revision === 0
          ? sql`
            INSERT INTO sluice.flow_schedules
              (flow_id, trigger_key, cron, time_zone, cron_override, paused, next_at, last_at, revision)
            VALUES (${flowId}, ${triggerKey}, ${cron}, ${timeZone}, ${cronOverride}, ${isPaused}, ${nextAt}, ${lastAt}, 1)
            ON CONFLICT DO NOTHING`
          : sql`
            UPDATE sluice.flow_schedules SET cron = ${cron}, time_zone = ${timeZone}, cron_override = ${cronOverride},
              paused = ${isPaused}, next_at = ${nextAt}, last_at = ${lastAt}, revision = revision + 1
            WHERE flow_id = ${flowId} AND trigger_key = ${triggerKey} AND revision = ${revision}`,
      );
      return changed === 0 ? undefined : { ...schedule, revision: revision + 1 };
    },
  },
  fireSchedule: {
    access: 'write',
    changes: ({ flowId }, result) => (result === 'fired' ? [{ kind: 'schedule', flowId }] : []),
    /** Of the replicas that see a tick, the first to move the schedule on starts the run; the others find it moved. */
    *decide(port, { flowId, triggerKey, dueAt, nextAt, run, at }) {
      if (run !== null && !(yield* mayStart(sharingFlowRows(port), run))) return 'outdated';
      const moved = yield* port.run(sql`
        UPDATE sluice.flow_schedules
        SET next_at = ${nextAt}, last_at = CASE WHEN ${run !== null}::boolean THEN ${at}::bigint ELSE last_at END,
          revision = revision + 1
        WHERE flow_id = ${flowId} AND trigger_key = ${triggerKey} AND next_at = ${dueAt} AND NOT paused`);
      if (moved === 0) return 'passed';
      if (run !== null) insertRun(port, yield* withOrder(orderRows(port), yield* withPins(pinRows(port), run)));
      return 'fired';
    },
  },
};
