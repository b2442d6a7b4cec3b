import type { Access, Finding, LiveFlow, Override } from '../../model/finding.ts';
import type { Json, JsonObject } from '../../model/json.ts';
import type { ManifestSnapshot, ManifestSource } from '../../model/manifest.ts';

/** Deployed flows and their revisions, and changes to them while runs are in flight. */
export interface FlowStore {
  /**
   * Stores the manifest as a new revision, without a source, unless its hash equals the newest one's; a first deploy
   * enables the flow.
   */
  deployFlow(deploy: FlowDeploy): Promise<FlowRecord>;
  /**
   * Yields undefined for a flow that is unknown or deleted. Repeating the present state changes only whether deliveries
   * are held: the last disable or drain decides that.
   */
  setFlowEnabled(change: { isEnabled: boolean } & FlowSwitching): Promise<FlowRecord | undefined>;
  /** A flow that is drained starts no runs. Otherwise as `setFlowEnabled`. */
  setFlowDraining(change: { isDraining: boolean } & FlowSwitching): Promise<FlowRecord | undefined>;
  /**
   * From now on the flow starts no runs except those that runs in flight have pinned, and its slugs are free. Its runs
   * in flight go on, and its stored data stays; the next deploy brings it back. Refused while it holds deliveries, and
   * while the newest revisions of other flows start it.
   */
  deleteFlow(change: { flowId: string; at: number }): Promise<FlowDeletion>;
  /**
   * Every flow ever deployed, by name, deleted ones included. With names, only flows whose id is one of them, or that
   * have or had a slug among them, in lower case.
   */
  listFlows(names?: readonly string[]): Promise<FlowRecord[]>;
  findFlow(flowId: string): Promise<FlowRecord | undefined>;
  findRevision(flowId: string, revision: number): Promise<RevisionRecord | RemovedRevision | undefined>;
  /**
   * What a change of the flow affects: its deployed revision, its runs in flight, runs of other flows that have pinned
   * it and may start it now, and the steps of stored runs. Only runs in flight when a drain began start a drained flow.
   */
  readLiveFlow(flowId: string): Promise<LiveFlow & { readonly deployed?: DeployedRevision }>;
  /**
   * Stores each manifest as the newest revision of its flow, or none of them. The same transaction checks that what the
   * plans relied on still holds, and that no flow comes to run itself, even if others deploy at once. At most one
   * manifest for each flow.
   */
  applyDeploys(deploys: readonly PlannedDeploy[]): Promise<DeployResult>;
  /**
   * The newest revision with this manifest, if a later one was deployed or the flow was deleted, whether its manifest
   * is still kept or not. The order of keys does not matter, nor does the name if the manifest leaves it to its file.
   */
  findSuperseded(
    manifest: Pick<FlowDeploy, 'id' | 'name' | 'snapshot'> & { isNamedByFile: boolean },
  ): Promise<SupersededRevision | undefined>;
  /**
   * The last triggers of slugs and ids of flows, given in lower case; nothing for a name that led to no deployed trigger.
   */
  listRoutes(names: readonly string[]): Promise<RouteRecord[]>;
  /** Replaces the stored needs of a revision; does nothing if the revision is not there. */
  renewNeeds(renewal: RevisionPlace & { readonly needs: RevisionNeeds }): Promise<void>;
  /** Newest revisions of the flows that have a source and are not deleted, by flow name. */
  listDeployed(): Promise<DeployedRevision[]>;
  /**
   * Removes the manifests of revisions that are neither among the newest `kept` of their flow nor used or pinned by a
   * stored run. The facts that identify a revision stay. Looks at no more than `limit`, in order, from `after` on.
   */
  purgeRevisions(request: { kept: number; after: RevisionPlace; limit: number }): Promise<RevisionPurge>;
}

interface FlowSwitching {
  readonly flowId: string;
  /** Whether its deliveries are held while it is closed; its triggers decide if absent. No effect when it is opened. */
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
  /** When a drain made it stop starting runs, so that runs in flight end; absent while it is not drained. */
  readonly drainingSince?: number | undefined;
  /** Whether its deliveries are held, as the disable or drain said. Absent if its triggers decide. */
  readonly holdsDeliveries?: boolean | undefined;
  /** When it was deleted; absent while it is deployed. */
  readonly deletedAt?: number | undefined;
  readonly createdAt: number;
  readonly updatedAt: number;
}

type FlowDeletion =
  | { readonly kind: 'deleted' }
  /** The flow was never deployed, or was deleted before. */
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
  /** Null if the service deployed a flow of its own, which is that of the alerts. */
  readonly source: ManifestSource | null;
  /** Null if the service deployed a flow of its own. */
  readonly needs: RevisionNeeds | null;
}

/** Facts outside the snapshot that decide who gets in by a revision, and that its steps need. */
export interface RevisionNeeds {
  /** The contents of files that are not secret, by reference. */
  readonly files: Readonly<Record<string, string>>;
  /** Secrets written out in the manifest: JSON by place, sealed, base64. Null without a key to seal with. */
  readonly sealed: { readonly keyId: string; readonly bytes: number; readonly text: string } | null;
  /** The id of the key, or the salt, that the digests were made with. */
  readonly digestedWith: { readonly keyId: string } | { readonly salt: string };
  /** Digests of each secret written out, by its place, and of each other one that decides who gets in, by reference. */
  readonly digests: Readonly<Record<string, string>>;
  /** Keys of the triggers whose signatures were checked, since their schemes were known. */
  readonly signed: readonly string[];
  /** Settings by name, as they were when the revision was last put in force. */
  readonly settings: JsonObject;
  /** The operator's code that judged each trigger then. Absent if an earlier build put the revision in force. */
  readonly judges?: Readonly<Record<string, OperatorsJudges>>;
}

/** An operator's registrations that decide who gets in by a trigger. */
export interface OperatorsJudges {
  /** Names of the gates that the trigger asks. */
  readonly gates: readonly string[];
  /** The scheme, as data; null if it is built in, or there is none. */
  readonly scheme: Json;
}

/** A revision whose manifest was removed. */
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
  /** Where to continue; null if all were looked at. */
  readonly next: RevisionPlace | null;
}

export interface RouteRecord {
  /** Or the id of the flow, for its first webhook trigger. */
  readonly slug: string;
  readonly flowId: string;
  readonly triggerKey: string;
  /** The flow's last revision that gave the trigger the name; its manifest is kept. */
  readonly revision: number;
}

export interface PlannedDeploy extends FlowDeploy {
  readonly source: ManifestSource;
  /** Who deploys, why, and how this changes who gets in. */
  readonly actor: string;
  readonly reason: string | null;
  readonly access: Access;
  /** Manifest and needs are those of the revision that it is based on: no new revision is stored. */
  readonly isUnchanged: boolean;
  /** Stored with a new revision. */
  readonly needs: RevisionNeeds | null;
  /** The revision that the findings compare with; null where the flow was not deployed. */
  readonly basedOn: number | null;
  /** The change has to wait until no run of the flow is in flight, nor any run that may start it. */
  readonly needsIdle: boolean;
  /** Step keys without a row in any kept run when the findings were made. */
  readonly withoutHistory: readonly string[];
  /** All triggers of the manifest, and moved routes: deliveries accepted so far under `from` count for `to`. */
  readonly triggers: {
    readonly keys: readonly string[];
    readonly moved: readonly { readonly from: string; readonly to: string }[];
  };
  readonly findings: readonly Finding[];
  /** Refusals that the caller overrode. */
  readonly overrides: readonly Override[];
  /** The revisions of all flows that the plan knew; without it, the deploy does not check who else has its slugs. */
  readonly known?: ReadonlyMap<string, number>;
}

export type DeployResult =
  /** The flows in the order of their manifests. */
  | { readonly kind: 'applied'; readonly flows: readonly FlowRecord[] }
  | { readonly kind: 'busy'; readonly flowId: string; readonly runsInFlight: number }
  /**
   * The findings of this flow rest on an older state: make them again. The plan may not have known these `others`:
   * flows that would run each other, from this one on; one that it starts and that was deleted; one with its slug.
   */
  | { readonly kind: 'outdated'; readonly flowId: string; readonly others?: readonly string[] };

interface SupersededRevision {
  readonly revision: number;
  /** The newest revision, which is deployed unless the flow was deleted. */
  readonly newest: number;
  /** Its manifest is no longer kept. */
  readonly isRemoved: boolean;
}

/** A revision and how it was deployed, without its manifest. */
export interface RevisionSummary extends Omit<RevisionRecord, 'snapshot' | 'needs'> {
  /** Its manifest is no longer kept, nor are its findings, which quote the manifest. */
  readonly isRemoved: boolean;
  /** Who deployed it, and why; null if not given. */
  readonly actor: string | null;
  readonly reason: string | null;
  /** How it changed who gets in. */
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
