import type { Finding, LiveFlow, Override } from '../../model/finding.ts';
import type { ManifestSnapshot, ManifestSource } from '../../model/manifest.ts';
import type { NewRun, TimeSpan } from './runs.ts';

/** Deployed flows and their revisions, and changing them while runs are in flight. */
export interface FlowStore extends ScheduleStore, LearnedKeyStore {
  /** Keeps the manifest as a new revision unless its hash equals the newest one's; a first deploy enables the flow. */
  deployFlow(deploy: FlowDeploy): Promise<FlowRecord>;
  /** Yields undefined for an unknown flow. Setting what is already set changes nothing. */
  setFlowEnabled(change: { flowId: string; isEnabled: boolean; at: number }): Promise<FlowRecord | undefined>;
  /**
   * A flow that is drained starts no runs. Setting what is already set changes nothing. Undefined for an unknown flow.
   */
  setFlowDraining(change: { flowId: string; isDraining: boolean; at: number }): Promise<FlowRecord | undefined>;
  /** Every flow ever deployed, by name. */
  listFlows(): Promise<FlowRecord[]>;
  findFlow(flowId: string): Promise<FlowRecord | undefined>;
  findRevision(flowId: string, revision: number): Promise<RevisionRecord | undefined>;
  /**
   * What a change of the flow affects: its runs in flight, runs of other flows that have pinned it and may start it
   * now, and the steps of stored runs. A drained flow is started only by runs that were in flight when the drain began.
   */
  readLiveFlow(flowId: string): Promise<LiveFlow>;
  /**
   * Stores each manifest as the newest revision of its flow, or none of them. The same transaction checks that what the
   * plans relied on still holds, and that no flow comes to run itself, whatever others deploy at once. At most one manifest
   * for each flow.
   */
  applyDeploys(deploys: readonly PlannedDeploy[]): Promise<DeployResult>;
  /**
   * The newest revision with this manifest, if a later one was deployed. The order of keys does not matter, nor does the
   * name if the manifest leaves it to its file.
   */
  findSuperseded(
    manifest: Pick<FlowDeploy, 'id' | 'snapshot'> & { isNamedByFile: boolean },
  ): Promise<SupersededRevision | undefined>;
  /** Newest first; undefined for an unknown flow. `since` and `until` are about the deploy. */
  listRevisions(query: { flowId: string; skip: number; take: number } & TimeSpan): Promise<RevisionPage | undefined>;
  /** Newest revisions of flows that this release deployed, by flow name. */
  listDeployed(): Promise<DeployedRevision[]>;
}

interface FlowDeploy {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  /** SHA-256 of the snapshot, hex. */
  readonly hash: string;
  readonly snapshot: ManifestSnapshot;
  readonly at: number;
}

export interface FlowRecord {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  /** Number of the newest revision, from 1. */
  readonly revision: number;
  readonly isEnabled: boolean;
  /** When it stopped starting runs so that those in flight run out; absent while it is not drained. */
  readonly drainingSince?: number | undefined;
  readonly createdAt: number;
  readonly updatedAt: number;
}

export interface RevisionRecord {
  readonly flowId: string;
  readonly revision: number;
  readonly version: string;
  readonly hash: string;
  readonly snapshot: ManifestSnapshot;
  readonly createdAt: number;
  /** Null where an earlier release deployed it, from the folder. */
  readonly source: ManifestSource | null;
}

export interface PlannedDeploy extends FlowDeploy {
  readonly source: ManifestSource;
  /** The revision that the findings compare with; null where the flow was not deployed. */
  readonly basedOn: number | null;
  /** The change has to wait until no run of the flow is in flight, nor one that may start it. */
  readonly needsIdle: boolean;
  /** Step keys that no kept run had a row of when the findings were made. */
  readonly withoutHistory: readonly string[];
  /** All triggers of the manifest, and renamed ones: deliveries accepted under `from` count for `to`. */
  readonly triggers: {
    readonly keys: readonly string[];
    readonly renamed: readonly { readonly from: string; readonly to: string }[];
  };
  readonly findings: readonly Finding[];
  /** What was allowed although it would have been refused. */
  readonly overrides: readonly Override[];
}

export type DeployResult =
  /** The flows in the order of their manifests; unchanged where the newest revision already has the manifest. */
  | { readonly kind: 'applied'; readonly flows: readonly FlowRecord[] }
  | { readonly kind: 'busy'; readonly flowId: string; readonly runsInFlight: number }
  /**
   * The findings of this flow rest on an older state: make them again. `cycle` has the ids of flows that run each other if
   * all is applied, from this one on: a plan may not have known their newest revisions.
   */
  | { readonly kind: 'outdated'; readonly flowId: string; readonly cycle?: readonly string[] };

interface SupersededRevision {
  readonly revision: number;
  /** The newest one, which is deployed. */
  readonly newest: number;
}

/** A revision and how it was deployed; without its manifest. */
export interface RevisionSummary extends Omit<RevisionRecord, 'snapshot'> {
  readonly findings: readonly Finding[];
  readonly overrides: readonly Override[];
  /** Kept runs that are pinned to it; 10000 means that many or more. */
  readonly runs: number;
  readonly runsInFlight: number;
}

interface RevisionPage {
  readonly items: readonly RevisionSummary[];
  readonly total: number;
}

export interface DeployedRevision {
  readonly flow: FlowRecord;
  readonly revision: RevisionRecord;
}

/** When cron triggers fire, and what operators changed about it. */
interface ScheduleStore {
  listSchedules(): Promise<ScheduleRecord[]>;
  /**
   * Stores the state of a trigger's schedule unless it has changed since it was read; a tick that fires changes it too.
   * Yields it as stored, or undefined if nothing was stored: then read again.
   */
  changeSchedule(schedule: ScheduleRecord): Promise<ScheduleRecord | undefined>;
  /**
   * Moves a schedule from the due tick to the next and starts the run, if there is one: both or nothing, so that a tick
   * starts one run whenever the process dies. Only 'fired' changes anything. 'passed': the schedule is no longer at
   * that tick. 'outdated': the run's revision is not the newest, or its flow starts no runs now.
   */
  fireSchedule(tick: Tick): Promise<TickResult>;
}

export interface ScheduleRecord {
  readonly flowId: string;
  readonly triggerKey: string;
  /** The expression that `nextAt` was computed from. */
  readonly cron: string;
  readonly timeZone: string;
  /** An operator's expression in place of the manifest's. */
  readonly cronOverride: string | null;
  readonly isPaused: boolean;
  /** Null while paused, and if the expression names no future time. */
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

/** Keys that publishers handed over in a handshake, by trigger. */
interface LearnedKeyStore {
  /** Stores the key unless the trigger has one; yields the stored one. */
  learnKey(key: LearnedKey): Promise<LearnedKey>;
  /** In no particular order. */
  listLearnedKeys(): Promise<LearnedKey[]>;
  /** Yields whether there was one. */
  forgetKey(trigger: { flowId: string; triggerKey: string }): Promise<boolean>;
}

export interface LearnedKey {
  readonly flowId: string;
  readonly triggerKey: string;
  /** The scheme whose handshake brought it; the key is valid only for that scheme. */
  readonly scheme: string;
  /** Null if it is sealed with a key that this process does not have. */
  readonly secret: Uint8Array | null;
  /** Names the key that the stored secret is sealed with; absent if it is plain, as callers of the store see it. */
  readonly sealedWith?: string | undefined;
  readonly learnedAt: number;
}
