import type { Finding, FindingClass, LiveFlow } from '../model/finding.ts';
import type { ManifestSource } from '../model/manifest.ts';
import type { FlowDeploy, FlowRecord, RevisionRecord } from './store.ts';

/** Changing a deployed flow while runs of it are in flight. */
export interface DeployStore {
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
  /** A flow that is drained starts no runs. Setting what is already set changes nothing. Undefined for an unknown flow. */
  setFlowDraining(change: { flowId: string; isDraining: boolean; at: number }): Promise<FlowRecord | undefined>;
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
