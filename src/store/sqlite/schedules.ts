import type { Database } from 'better-sqlite3';
import type { ScheduleRecord, Tick, TickResult } from '../store.ts';
import { prepareInsertRun, prepareMayStart, type RunValues } from './accept.ts';

interface Row extends Omit<ScheduleRecord, 'isPaused'> {
  readonly isPaused: number;
}

export function prepareListSchedules(db: Database): () => ScheduleRecord[] {
  const list = db.prepare<[], Row>(`
    SELECT flow_id AS flowId, trigger_key AS triggerKey, cron, time_zone AS timeZone, cron_override AS cronOverride,
      paused AS isPaused, next_at AS nextAt, last_at AS lastAt
    FROM flow_schedules ORDER BY flow_id, trigger_key`);
  return () => list.all().map((row) => ({ ...row, isPaused: row.isPaused === 1 }));
}

export function prepareSaveSchedule(db: Database): (schedule: ScheduleRecord) => void {
  const save = db.prepare(`
    INSERT OR REPLACE INTO flow_schedules
      (flow_id, trigger_key, cron, time_zone, cron_override, paused, next_at, last_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)`);
  return ({ flowId, triggerKey, cron, timeZone, cronOverride, isPaused, nextAt, lastAt }) => {
    save.run(flowId, triggerKey, cron, timeZone, cronOverride, Number(isPaused), nextAt, lastAt);
  };
}

/** A tick whose run is sent as the values of its row, and its body apart. */
export interface SentTick extends Omit<Tick, 'run'> {
  readonly run: RunValues | null;
}

export function prepareFireSchedule(db: Database): (tick: SentTick, body: Uint8Array) => TickResult {
  const mayStart = prepareMayStart(db);
  const move = db.prepare(`
    UPDATE flow_schedules SET next_at = ?, last_at = CASE WHEN ? THEN ? ELSE last_at END
    WHERE flow_id = ? AND trigger_key = ? AND next_at = ? AND paused = 0`);
  const insertRun = prepareInsertRun(db);
  return ({ flowId, triggerKey, dueAt, nextAt, run, at }, body) => {
    if (run !== null && !mayStart(run)) return 'outdated';
    const isMoved = move.run(nextAt, Number(run !== null), at, flowId, triggerKey, dueAt).changes > 0;
    if (isMoved && run !== null) insertRun(run, null, body);
    return isMoved ? 'fired' : 'passed';
  };
}
