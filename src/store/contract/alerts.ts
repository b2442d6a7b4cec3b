import type { Json } from '../../model/json.ts';
import type { StepError } from '../../model/run.ts';
import type { NewRun } from './runs.ts';

/** What those who tell people of failures have to remember, so that a crash neither loses nor repeats an alert. */
export interface AlertStore {
  /** What was stored last, and the failed runs that are noted, the oldest first. */
  readAlerts(query: { limit: number }): Promise<AlertRecord>;
  /**
   * Replaces the state of that version, forgets the notices that are taken, and starts the runs, or does nothing of it:
   * `outdated` if the version is another. From the first commit on, the transaction in which a run ends as Failed or
   * TimedOut notes it; the runs are of flows that are deployed.
   */
  commitAlerts(commit: AlertCommit): Promise<'committed' | 'outdated'>;
  /** Forgets the state and the notices. Failed runs are not noted until the next commit. */
  forgetAlerts(): Promise<void>;
}

interface AlertRecord {
  /** 0 where there is none. */
  readonly version: number;
  /** Null where there is none. */
  readonly state: Json;
  readonly failures: readonly FailedRunNotice[];
}

interface AlertCommit {
  /** As it was read. */
  readonly version: number;
  readonly state: Json;
  readonly taken: readonly number[];
  readonly runs: readonly NewRun[];
}

/** A run that failed. */
export interface FailedRunNotice {
  readonly seq: number;
  readonly runId: string;
  readonly flowId: string;
  readonly flowName: string;
  readonly triggerKey: string;
  readonly startedAt: number;
  readonly completedAt: number;
  readonly status: 'Failed' | 'TimedOut';
  /** The step that failed last, a child before its loop; null where none did. */
  readonly stepKey: string | null;
  readonly error: StepError | null;
}
