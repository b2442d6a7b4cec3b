import type { Finding, FindingClass, LiveFlow } from '../model/finding.ts';
import type { ManifestSource } from '../model/manifest.ts';
import type { FlowDeploy, FlowRecord, RevisionRecord } from './store.ts';

/** Changing a deployed flow while runs of it are in flight. */
export interface DeployStore {
  /** What bears on a change of the flow: its runs in flight, and the steps that kept runs know. */
  readLiveFlow(flowId: string): Promise<LiveFlow>;
  /**
   * Keeps the manifest as the newest revision if what the plan relied on still holds, in one transaction with asking
   * that; else nothing is written.
   */
  applyDeploy(deploy: PlannedDeploy): Promise<DeployResult>;
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
  | { readonly kind: 'applied'; readonly flow: FlowRecord }
  /** The newest revision has this manifest. */
  | { readonly kind: 'unchanged'; readonly flow: FlowRecord }
  | { readonly kind: 'busy'; readonly runsInFlight: number }
  /** What the findings were made from has changed: they have to be made anew. */
  | { readonly kind: 'outdated' };

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
