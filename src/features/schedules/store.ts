import { mayStart, sharingFlowRows } from '../../store/decisions/acceptance.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { insertRun } from '../../store/decisions/new-runs.ts';
import { storePart } from '../../store/decisions/part.ts';
import { pinRows, readyRun } from '../../store/decisions/pins.ts';
import { type Port, sql } from '../../store/decisions/port.ts';
import type { NewRun } from '../../store/store.ts';

export interface ScheduleRecord {
  readonly flowId: string;
  readonly triggerKey: string;
  /** The expression that `nextAt` was computed from. */
  readonly cron: string;
  readonly timeZone: string;
  /** An operator's expression that replaces the manifest's. */
  readonly cronOverride: string | null;
  readonly isPaused: boolean;
  /** Null while paused, or if the expression has no future time. */
  readonly nextAt: number | null;
  readonly lastAt: number | null;
  /** Grows with each change; 0 before it is stored. */
  readonly revision: number;
}

interface Tick {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly dueAt: number;
  readonly nextAt: number | null;
  /** Null to skip the tick; then `lastAt` stays. */
  readonly run: NewRun | null;
  readonly at: number;
}

type TickResult = 'fired' | 'passed' | 'outdated';

function* listSchedules(port: Port): Decision<ScheduleRecord[]> {
  return yield* port.all<ScheduleRecord>(sql`
    SELECT flow_id AS "flowId", trigger_key AS "triggerKey", cron, time_zone AS "timeZone",
      cron_override AS "cronOverride", paused AS "isPaused", next_at AS "nextAt", last_at AS "lastAt", revision
    FROM sluice.flow_schedules ORDER BY flow_id, trigger_key`);
}

/**
 * Stores a trigger's schedule, unless it changed after it was read; firing a tick is a change, too. Yields it as
 * stored, or undefined if nothing was stored: then read it again.
 */
function* changeSchedule(port: Port, schedule: ScheduleRecord): Decision<ScheduleRecord | undefined> {
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
}

/**
 * Moves a schedule from the due tick to the next and starts the run, if there is one. It does both or nothing, so a
 * tick starts exactly one run even if the process dies. Only 'fired' changes anything. 'passed': the schedule is no
 * longer at that tick. 'outdated': the run's revision is not the newest, or its flow starts no runs now. If several
 * replicas see a tick, the first to move the schedule starts the run; the others find it moved.
 */
function* fireSchedule(port: Port, { flowId, triggerKey, dueAt, nextAt, run, at }: Tick): Decision<TickResult> {
  if (run !== null && !(yield* mayStart(sharingFlowRows(port), run))) return 'outdated';
  const moved = yield* port.run(sql`
    UPDATE sluice.flow_schedules
    SET next_at = ${nextAt}, last_at = CASE WHEN ${run !== null}::boolean THEN ${at}::bigint ELSE last_at END,
      revision = revision + 1
    WHERE flow_id = ${flowId} AND trigger_key = ${triggerKey} AND next_at = ${dueAt} AND NOT paused`);
  if (moved === 0) return 'passed';
  if (run !== null) insertRun(port, yield* readyRun(pinRows(port), run));
  return 'fired';
}

/** When cron triggers fire, with the changes made by operators. */
export const schedulesStore = storePart({
  name: 'schedules',
  verbs: {
    listSchedules: { access: 'read', decide: listSchedules },
    changeSchedule: {
      access: 'write',
      changes: ({ flowId }: ScheduleRecord) => [{ kind: 'schedule', flowId }],
      decide: changeSchedule,
    },
    fireSchedule: {
      access: 'write',
      changes: ({ flowId }: Tick, result: TickResult) => (result === 'fired' ? [{ kind: 'schedule', flowId }] : []),
      decide: fireSchedule,
    },
  },
});
