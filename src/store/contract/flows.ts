import type { Finding, FindingClass, LiveFlow } from '../../model/finding.ts';
import type { ManifestSnapshot, ManifestSource } from '../../model/manifest.ts';
import type { NewRun } from './runs.ts';

/** Deployed flows and their revisions, and changing them while runs are in flight. */
export interface FlowStore {
  /** Keeps the manifest as a new revision unless its hash equals the newest one's; a first deploy enables the flow. */
  deployFlow(deploy: FlowDeploy): Promise<FlowRecord>;
  /** Yields undefined for an unknown flow. Setting what is already set changes nothing. */
  setFlowEnabled(change: { flowId: string; isEnabled: boolean; at: number }): Promise<FlowRecord | undefined>;
  /** A flow that is drained starts no runs. Setting what is already set changes nothing. Undefined for an unknown flow. */
  setFlowDraining(change: { flowId: string; isDraining: boolean; at: number }): Promise<FlowRecord | undefined>;
  /** Every flow ever deployed, by name. */
  listFlows(): Promise<FlowRecord[]>;
  findFlow(flowId: string): Promise<FlowRecord | undefined>;
  findRevision(flowId: string, revision: number): Promise<RevisionRecord | undefined>;
  /** What bears on a change of the flow: its runs in flight, and the steps that kept runs know. */
  readLiveFlow(flowId: string): Promise<LiveFlow>;
  /**
   * Keeps each manifest as the newest revision of its flow if what the plans relied on still holds for all of them, in one
   * transaction with asking that; else nothing is written. At most one manifest of a flow.
   */
  applyDeploys(deploys: readonly PlannedDeploy[]): Promise<DeployResult>;
  /**
   * The newest revision with this manifest, where one that came over the API is newer. The order of keys is no
   * difference, nor is the name where the manifest leaves it to its file.
   */
  findSuperseded(
    manifest: Pick<FlowDeploy, 'id' | 'snapshot'> & { isNamedByFile: boolean },
  ): Promise<SupersededRevision | undefined>;
  /** Newest first; undefined for an unknown flow. */
  listRevisions(query: { flowId: string; skip: number; take: number }): Promise<RevisionPage | undefined>;
  /** Newest revisions of flows that this release deployed, by flow name. */
  listDeployed(): Promise<DeployedRevision[]>;
}

export interface FlowDeploy {
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
  /** Since when it starts no runs, so that those in flight run out; absent while it is not drained. */
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
  /** The change waits until no run of the flow is in flight. */
  readonly needsIdle: boolean;
  /** Step keys that no kept run had a row of when the findings were made. */
  readonly withoutHistory: readonly string[];
  /** All triggers of the manifest, and those that have the place of another: what was accepted under `from` counts for them. */
  readonly triggers: {
    readonly keys: readonly string[];
    readonly renamed: readonly { readonly from: string; readonly to: string }[];
  };
  readonly findings: readonly Finding[];
  /** Classes of findings that were allowed although they would have been refused. */
  readonly overrides: readonly FindingClass[];
}

export type DeployResult =
  /** The flows in the order of their manifests; one whose newest revision has the manifest already is as it was. */
  | { readonly kind: 'applied'; readonly flows: readonly FlowRecord[] }
  | { readonly kind: 'busy'; readonly flowId: string; readonly runsInFlight: number }
  /** What the findings of this flow were made from has changed: they have to be made again. */
  | { readonly kind: 'outdated'; readonly flowId: string };

export interface SupersededRevision {
  readonly revision: number;
  /** The newest that was deployed over the API. */
  readonly apiRevision: number;
}

/** A revision and how it came to be; without its manifest. */
export interface RevisionSummary extends Omit<RevisionRecord, 'snapshot'> {
  readonly findings: readonly Finding[];
  readonly overrides: readonly FindingClass[];
  /** Kept runs that are pinned to it; 10000 stands for that many or more. */
  readonly runs: number;
  readonly runsInFlight: number;
}

export interface RevisionPage {
  readonly items: readonly RevisionSummary[];
  readonly total: number;
}

export interface DeployedRevision {
  readonly flow: FlowRecord;
  readonly revision: RevisionRecord;
}

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

export type TickResult = 'fired' | 'passed' | 'outdated';

/** Keys of triggers that their publishers handed over in a handshake. */
export interface LearnedKeyStore {
  /** Keeps the key of a trigger that has none here, and leaves any other alone; yields the one that is kept. */
  learnKey(key: LearnedKey): Promise<LearnedKey>;
  /** In no particular order. */
  listLearnedKeys(): Promise<LearnedKey[]>;
  /** Yields whether there was one. */
  forgetKey(trigger: { flowId: string; triggerKey: string }): Promise<boolean>;
}

export interface LearnedKey {
  readonly flowId: string;
  readonly triggerKey: string;
  /** The scheme whose handshake brought it; it is no key of any other. */
  readonly scheme: string;
  /** Null where it is sealed with a key that this process has not. */
  readonly secret: Uint8Array | null;
  /** Names the key that the stored secret is sealed with; absent where it is plain, and so above the store. */
  readonly sealedWith?: string | undefined;
  readonly learnedAt: number;
}
