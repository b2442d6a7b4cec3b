import type { NewRun } from './store.ts';

/** When cron triggers fire, and what operators changed about it. */
export interface ScheduleStore {
  listSchedules(): Promise<ScheduleRecord[]>;
  /** Keeps the state of a trigger's schedule as a whole. */
  saveSchedule(schedule: ScheduleRecord): Promise<void>;
  /**
   * Moves a schedule from the tick that is due to the next, and starts the run where there is one: both or nothing, so
   * that a tick starts one run whenever the process dies. Changes nothing where the result is not 'fired': 'passed' where
   * the schedule is no longer at that tick; 'outdated' where the run is not of the newest revision, or its flow starts no
   * runs now.
   */
  fireSchedule(tick: Tick): Promise<TickResult>;
}

export type TickResult = 'fired' | 'passed' | 'outdated';

export interface ScheduleRecord {
  readonly flowId: string;
  readonly triggerKey: string;
  /** The expression that `nextAt` was computed from. */
  readonly cron: string;
  readonly timeZone: string;
  /** An operator's expression in place of the manifest's. */
  readonly cronOverride: string | null;
  readonly isPaused: boolean;
  /** Null while paused, and where the expression names no time to come. */
  readonly nextAt: number | null;
  readonly lastAt: number | null;
}

export interface Tick {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly dueAt: number;
  readonly nextAt: number | null;
  /** Null where the tick is passed over; then `lastAt` stays. */
  readonly run: NewRun | null;
  readonly at: number;
}
