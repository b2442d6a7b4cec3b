import type { Access, Finding, LiveFlow, Override } from '../../model/finding.ts';
import type { Json, JsonObject } from '../../model/json.ts';
import type { ManifestSnapshot, ManifestSource } from '../../model/manifest.ts';

/** Deployed flows and their revisions, and changing them while runs are in flight. */
export interface FlowStore extends LearnedKeyStore {
  /**
   * Keeps the manifest as a new revision, without a source, unless its hash equals the newest one's; a first deploy
   * enables the flow.
   */
  deployFlow(deploy: FlowDeploy): Promise<FlowRecord>;
  /**
   * Yields undefined for an unknown flow, or one that was deleted. Setting what is already set changes nothing but what
   * becomes of its deliveries: that is as the last disable or drain said.
   */
  setFlowEnabled(change: { isEnabled: boolean } & FlowSwitching): Promise<FlowRecord | undefined>;
  /** A flow that is drained starts no runs. Otherwise as above. */
  setFlowDraining(change: { isDraining: boolean } & FlowSwitching): Promise<FlowRecord | undefined>;
  /**
   * From now on the flow starts no runs but those that runs in flight have pinned, and its slugs are free. Its runs in flight
   * go on, and what is stored of it stays; the next deploy brings it back. Refused while it holds deliveries, and while
   * others start it by their newest revisions.
   */
  deleteFlow(change: { flowId: string; at: number }): Promise<FlowDeletion>;
  /**
   * Every flow ever deployed, those that were deleted included, by name. With names, those flows alone of which one is the id,
   * or a slug in lower case that they have or had.
   */
  listFlows(names?: readonly string[]): Promise<FlowRecord[]>;
  findFlow(flowId: string): Promise<FlowRecord | undefined>;
  findRevision(flowId: string, revision: number): Promise<RevisionRecord | RemovedRevision | undefined>;
  /**
   * What a change of the flow affects: what is deployed of it, its runs in flight, runs of other flows that have pinned it and may start it
   * now, and the steps of stored runs. A drained flow is started only by runs that were in flight when the drain began.
   */
  readLiveFlow(flowId: string): Promise<LiveFlow & { readonly deployed?: DeployedRevision }>;
  /**
   * Stores each manifest as the newest revision of its flow, or none of them. The same transaction checks that what the
   * plans relied on still holds, and that no flow comes to run itself, whatever others deploy at once. At most one manifest
   * for each flow.
   */
  applyDeploys(deploys: readonly PlannedDeploy[]): Promise<DeployResult>;
  /**
   * The newest revision with this manifest, if a later one was deployed or the flow was deleted, whether its manifest is
   * still kept or not. The order of keys does not matter, nor does the name if the manifest leaves it to its file.
   */
  findSuperseded(
    manifest: Pick<FlowDeploy, 'id' | 'name' | 'snapshot'> & { isNamedByFile: boolean },
  ): Promise<SupersededRevision | undefined>;
  /** Where slugs, in lower case, led last; nothing of one that no deployed trigger ever had. */
  listRoutes(slugs: readonly string[]): Promise<RouteRecord[]>;
  /** Keeps what a revision needs now in place of what it needed; nothing where it is not there. */
  renewNeeds(renewal: RevisionPlace & { readonly needs: RevisionNeeds }): Promise<void>;
  /** Newest revisions of the flows that have a source and are not deleted, by flow name. */
  listDeployed(): Promise<DeployedRevision[]>;
  /**
   * Removes the manifests of revisions that are neither among the newest `kept` of their flow nor used by a stored run or
   * pinned by one. What a revision was known by stays. Looks at no more than `limit`, in order, from `after` on.
   */
  purgeRevisions(request: { kept: number; after: RevisionPlace; limit: number }): Promise<RevisionPurge>;
}

interface FlowSwitching {
  readonly flowId: string;
  /** Whether its deliveries are held while it is closed; its triggers say if this does not. Nothing where it is opened. */
  readonly holdsDeliveries?: boolean | undefined;
  readonly at: number;
}

export interface FlowDeploy {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  /** SHA-256 of the snapshot and the files that it names, hex. */
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
  /** What was said when it was disabled or drained: whether its deliveries are held. Absent where its triggers say. */
  readonly holdsDeliveries?: boolean | undefined;
  /** When it was deleted; absent while it is deployed. */
  readonly deletedAt?: number | undefined;
  readonly createdAt: number;
  readonly updatedAt: number;
}

type FlowDeletion =
  | { readonly kind: 'deleted' }
  /** It was never deployed, or was deleted before. */
  | { readonly kind: 'unknown' }
  | { readonly kind: 'holding'; readonly held: number }
  | { readonly kind: 'needed'; readonly callers: readonly Pick<FlowRecord, 'id' | 'name'>[] };

export interface RevisionRecord {
  readonly flowId: string;
  readonly revision: number;
  readonly version: string;
  readonly hash: string;
  readonly snapshot: ManifestSnapshot;
  readonly createdAt: number;
  /** Null where the service deployed a flow of its own: that of the alerts. */
  readonly source: ManifestSource | null;
  /** Null where the service deployed a flow of its own. */
  readonly needs: RevisionNeeds | null;
}

/** What decides who gets in by a revision, and what its steps need, and the snapshot does not say. */
export interface RevisionNeeds {
  /** The contents of files that are no secrets, by reference. */
  readonly files: Readonly<Record<string, string>>;
  /** Secrets that are written out in the manifest: JSON by place, sealed, base64. Null without a key to seal with. */
  readonly sealed: { readonly keyId: string; readonly bytes: number; readonly text: string } | null;
  /** What the digests were made with: the id of a key, or a salt. */
  readonly digestedWith: { readonly keyId: string } | { readonly salt: string };
  /** Of each secret that is written out, by its place, and of each other one that decides who gets in, by its reference. */
  readonly digests: Readonly<Record<string, string>>;
  /** Keys of the triggers whose signatures were checked: their schemes were known. */
  readonly signed: readonly string[];
  /** Settings by name, as they were when the revision was last put in force. */
  readonly settings: JsonObject;
  /** What the operator's code judged each trigger by, then. Absent where an earlier build put it in force. */
  readonly judges?: Readonly<Record<string, OperatorsJudges>>;
}

/** What an operator registered that decides who gets in by a trigger. */
export interface OperatorsJudges {
  /** Names of the gates that are asked. */
  readonly gates: readonly string[];
  /** The scheme, as data; null where it is built in, or there is none. */
  readonly scheme: Json;
}

/** One whose manifest was removed. */
export interface RemovedRevision extends Omit<RevisionRecord, 'snapshot'> {
  readonly snapshot: undefined;
}

export interface RevisionPlace {
  readonly flowId: string;
  readonly revision: number;
}

interface RevisionPurge {
  /** How many manifests were removed. */
  readonly removed: number;
  /** Where to go on; null where all were looked at. */
  readonly next: RevisionPlace | null;
}

interface RouteRecord {
  readonly slug: string;
  readonly flowId: string;
  readonly triggerKey: string;
  /** The last one of the flow that gave the trigger the slug; its manifest is kept. */
  readonly revision: number;
}

export interface PlannedDeploy extends FlowDeploy {
  readonly source: ManifestSource;
  /** Who deploys, why, and what it does to who gets in. */
  readonly actor: string;
  readonly reason: string | null;
  readonly access: Access;
  /** The manifest and what it needs are those of the revision that it is based on: no new one is stored. */
  readonly isUnchanged: boolean;
  /** Stored with a new revision. */
  readonly needs: RevisionNeeds | null;
  /** The revision that the findings compare with; null where the flow was not deployed. */
  readonly basedOn: number | null;
  /** The change has to wait until no run of the flow is in flight, nor one that may start it. */
  readonly needsIdle: boolean;
  /** Step keys that no kept run had a row of when the findings were made. */
  readonly withoutHistory: readonly string[];
  /** All triggers of the manifest, and where routes moved: deliveries accepted so far under `from` count for `to`. */
  readonly triggers: {
    readonly keys: readonly string[];
    readonly moved: readonly { readonly from: string; readonly to: string }[];
  };
  readonly findings: readonly Finding[];
  /** What was allowed although it would have been refused. */
  readonly overrides: readonly Override[];
  /** The revisions of all flows that the plan knew; without it, who else has its slugs is not asked. */
  readonly known?: ReadonlyMap<string, number>;
}

export type DeployResult =
  /** The flows in the order of their manifests. */
  | { readonly kind: 'applied'; readonly flows: readonly FlowRecord[] }
  | { readonly kind: 'busy'; readonly flowId: string; readonly runsInFlight: number }
  /**
   * The findings of this flow rest on an older state: make them again. A plan may not have known `others` as they are: flows
   * that run each other if all is applied, from this one on; one that it starts and that was deleted; one that has its slug.
   */
  | { readonly kind: 'outdated'; readonly flowId: string; readonly others?: readonly string[] };

interface SupersededRevision {
  readonly revision: number;
  /** The newest one, which is deployed unless the flow was deleted. */
  readonly newest: number;
  /** Its manifest is no longer kept. */
  readonly isRemoved: boolean;
}

/** A revision and how it was deployed; without its manifest. */
export interface RevisionSummary extends Omit<RevisionRecord, 'snapshot' | 'needs'> {
  /** Its manifest is no longer kept, nor are its findings, which quote the manifest. */
  readonly isRemoved: boolean;
  /** Who deployed it, and why; null where nobody said so. */
  readonly actor: string | null;
  readonly reason: string | null;
  /** What it did to who gets in. */
  readonly access: Access;
  readonly findings: readonly Finding[];
  readonly overrides: readonly Override[];
  /** Kept runs that are pinned to it; 10000 means that many or more. */
  readonly runs: number;
  readonly runsInFlight: number;
}

export interface DeployedRevision {
  readonly flow: FlowRecord;
  readonly revision: RevisionRecord;
}

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
