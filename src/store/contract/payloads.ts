import type { CountedType, PathDrift } from '../../model/payload.ts';
import type { StepError } from '../../model/run.ts';
import type { TriggerName } from '../../model/trigger-name.ts';

/** What deliveries to triggers had at the paths that their flows read. No value of a delivery is kept. */
export interface PayloadStore {
  /**
   * Deliveries of a trigger that passed all of its gates and whose bytes are kept, newest first: those with
   * `after < id <= upTo`. Where there are more than `limit`, the newest of each event, and of each event whose runs failed, in
   * turn. Repeated ones are left out: handshakes, redeliveries, duplicates. Bodies are read up to `maxBytes` together, in that
   * order, and are null beyond. Of a busy flow only the newest 2000 are searched.
   */
  sampleDeliveries(query: SampleQuery): Promise<DeliverySamples>;
  readPayloadWatch(trigger: TriggerName): Promise<PayloadWatch>;
  /** What is known of the paths of a trigger, by event, hour and type. */
  listPathCounts(trigger: TriggerName): Promise<PathCount[]>;
  /** The same of all triggers of a flow, all hours together: each count has the last of its hours. */
  sumPathCounts(flowId: string): Promise<PathCount[]>;
  /**
   * Adds the counts and replaces the state of the trigger, or does neither: `outdated` if the version changed because
   * another process was first.
   */
  commitPayloadWatch(commit: PayloadCommit): Promise<'committed' | 'outdated'>;
  /** Triggers that have drifts. */
  listPathDrifts(): Promise<(TriggerName & { readonly drifts: readonly PathDrift[] })[]>;
  /** Deletes at most `limit` counts of hours before, and the oldest beyond `maxRows`; yields how many. */
  purgePathCounts(purge: { beforeHour: number; maxRows: number; limit: number }): Promise<number>;
}

interface SampleQuery extends TriggerName {
  /** Ids of deliveries, or below and above all of them. */
  readonly after: string;
  readonly upTo: string;
  readonly limit: number;
  readonly maxBytes: number;
}

interface DeliverySamples {
  readonly samples: readonly DeliverySample[];
  /** The newest delivery of the flow up to `upTo`, whatever became of it; null where there is none. */
  readonly lastId: string | null;
}

export interface DeliverySample {
  readonly id: string;
  readonly receivedAt: number;
  /** Its search key `event`; null where it has none. */
  readonly event: string | null;
  readonly contentType: string | null;
  /** As its run reads them. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | null;
  /** Why its run failed: the error of the step that failed first; null where it did not fail, or not by a step. */
  readonly failure: StepError | null;
}

export interface PayloadWatch {
  /** 0 where there is none. */
  readonly version: number;
  /** Deliveries up to this one were looked at; below all ids where there is none. */
  readonly lastId: string;
  readonly drifts: readonly PathDrift[];
}

export interface PathCount {
  readonly triggerKey: string;
  /** Null where deliveries have no event, or their event makes no difference to the path. */
  readonly event: string | null;
  readonly path: string;
  /** Hours since the Unix epoch. */
  readonly hour: number;
  readonly type: CountedType;
  readonly count: number;
  readonly firstId: string;
  readonly lastId: string;
}

interface PayloadCommit extends TriggerName, PayloadWatch {
  readonly counts: readonly Omit<PathCount, 'triggerKey'>[];
}
