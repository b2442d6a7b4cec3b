import type { Reason } from '../model/delivery.ts';
import type { RunStatus } from '../model/manifest.ts';

/**
 * Figures that are counted as things happen, so that a look at a month costs no more than a look at an hour, however
 * much happened in it. All of them are by the hour: an instant stands for the whole hour around it.
 */
export interface FigureStore {
  /** Deliveries received since, by where they went and what was wrong. They outlive their records. */
  countDeliveries(query: { since: number; recentSince: number }): Promise<DeliveryCount[]>;
  /** Deliveries by buckets of whole hours, oldest first; an empty bucket is absent. They outlive their records. */
  deliveryTimeseries(range: BucketRange): Promise<DeliveryBucket[]>;
  /** Every run that is kept, by flow and status. */
  countRuns(): Promise<RunCount[]>;
  /** Runs that ended since, by flow and status. */
  countEndedRuns(since: number): Promise<RunCount[]>;
  /** Runs by buckets of whole hours in which they started, oldest first; an empty bucket is absent. */
  runTimeseries(range: BucketRange): Promise<RunBucket[]>;
}

/** `[since, until)` in buckets, both multiples of `bucketMs`, which is one of an hour. */
export interface BucketRange {
  readonly since: number;
  readonly until: number;
  readonly bucketMs: number;
  readonly flowId: string | undefined;
}

export interface DeliveryCount {
  readonly flowId: string | null;
  readonly triggerKey: string | null;
  readonly reason: Reason | null;
  readonly rejected: boolean;
  readonly count: number;
  /** Of them those received at `recentSince` or later. */
  readonly recent: number;
  /** Of them those that only the previous key verified. */
  readonly usedPreviousKey: number;
}

export interface DeliveryBucket {
  readonly at: number;
  readonly accepted: number;
  readonly rejected: number;
}

export interface RunCount {
  readonly flowId: string;
  readonly status: RunStatus;
  readonly count: number;
}

export interface RunBucket {
  readonly at: number;
  readonly counts: Readonly<Partial<Record<RunStatus, number>>>;
  /** Of runs that ended, nearest rank, within five per cent; null where none has. */
  readonly p50DurationMs: number | null;
  readonly p95DurationMs: number | null;
}
