import type { Json } from '../../model/json.ts';
import type { TriggerName } from '../../model/trigger-name.ts';

/** When verified deliveries come to triggers, and what was found missing. */
export interface RhythmStore {
  /**
   * Deliveries of a trigger that started a run, are held or were filtered: those with `after < id <= upTo`. Repeated ones are left
   * out, and those that failed a gate. Of a busy flow only the newest 20 000 are counted, and by event the newest 2000.
   */
  countArrivals(query: ArrivalQuery): Promise<Arrivals>;
  readRhythm(trigger: TriggerName): Promise<StoredRhythm>;
  /** What is known of a trigger, by hour. */
  listArrivalHours(trigger: TriggerName): Promise<ArrivalHour[]>;
  /**
   * Adds the hours and replaces the state of the trigger, or does neither: `outdated` if the version changed because another
   * process was first.
   */
  commitRhythm(commit: RhythmCommit): Promise<'committed' | 'outdated'>;
  /** What is known of all triggers that are watched. */
  listRhythms(): Promise<RhythmRow[]>;
  /** Deletes at most `limit` hours before, and the oldest beyond `maxRows`; yields how many. */
  purgeArrivalHours(purge: { beforeHour: number; maxRows: number; limit: number }): Promise<number>;
  /** Times in which no process had the store, in their order, and from when on they are known. */
  listDowntimes(): Promise<Downtime[]>;
  /** Forgets those that ended before `keptSince`. The first one takes no time: it says from when on downtimes are known. */
  noteDowntime(downtime: Downtime & { readonly keptSince: number }): Promise<void>;
  /** Deliveries of one trigger by the hour and the reason, but for redeliveries, from one hour to another. */
  listRefusalHours(query: TriggerName & { readonly fromHour: number; readonly toHour: number }): Promise<RefusalHour[]>;
}

interface ArrivalQuery extends TriggerName {
  /** Ids of deliveries, or below and above all of them. */
  readonly after: string;
  readonly upTo: string;
  /** Whether they are counted by event too. */
  readonly byEvent: boolean;
}

/** What came in one hour. */
export interface ArrivalHour {
  /** Null for all of them together. */
  readonly event: string | null;
  /** Hours since the Unix epoch. */
  readonly hour: number;
  readonly count: number;
  readonly firstAt: number;
  readonly lastAt: number;
  /** Between two that came in this hour. */
  readonly longestGapMs: number;
}

interface Arrivals {
  readonly hours: readonly ArrivalHour[];
  /** Whether all were counted by event. */
  readonly isWhole: boolean;
  /** The newest delivery of the flow up to `upTo`, whatever became of it; null where there is none. */
  readonly lastId: string | null;
}

interface StoredRhythm {
  /** 0 where there is none. */
  readonly version: number;
  /** Deliveries up to this one were counted; below all ids where there is none. */
  readonly lastId: string;
  /** As the watch wrote it; null where there is none. */
  readonly state: Json;
}

interface RhythmCommit extends TriggerName, StoredRhythm {
  /** When the newest delivery came; null where none ever did. */
  readonly lastAt: number | null;
  /** What needs attention. */
  readonly found: readonly Json[];
  readonly hours: readonly ArrivalHour[];
}

export interface RhythmRow extends TriggerName {
  readonly lastAt: number | null;
  readonly found: readonly Json[];
}

export interface Downtime {
  readonly startedAt: number;
  readonly endedAt: number;
  /** How far the wall clock was ahead of the ledger when it ended: it grows by each downtime. */
  readonly offsetMs: number;
}

export interface RefusalHour {
  /** Hours since the Unix epoch. */
  readonly hour: number;
  /** Null where they were accepted. */
  readonly reason: string | null;
  readonly count: number;
}
