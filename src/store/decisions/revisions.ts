import { LRUCache } from 'lru-cache';
import { entryOf, type WiredGraph, wire } from '../../flows/planner.ts';
import type { RunnableManifest } from '../../model/manifest.ts';

/** Revisions to keep, parsed and wired; a revision never changes. */
const KEPT_REVISIONS = 100;

/** What of a revision the runs of it follow. */
export interface RunnableRevision {
  /** As its manifest has them. */
  readonly name?: string | undefined;
  readonly version?: string | undefined;
  readonly graph: WiredGraph;
  /** How every run of it begins. */
  readonly entry: ReturnType<typeof entryOf>;
  /** Id of the flow that a failed run starts. */
  readonly onFailure: string | null;
}

/** The revisions that were read last, so that `revisionOf` hardly ever reads. */
export class RevisionCache {
  readonly #revisions = new LRUCache<string, RunnableRevision>({ max: KEPT_REVISIONS });

  find(flowId: string, revision: number): RunnableRevision | undefined {
    return this.#revisions.get(`${flowId}:${revision}`);
  }

  /** Keeps a revision's manifest, given as JSON text; throws where there is none. */
  keep(flowId: string, revision: number, snapshot: string | undefined): RunnableRevision {
    if (snapshot === undefined) throw new Error(`Revision ${revision} of the flow ${flowId} is not in the database.`);
    const manifest = JSON.parse(snapshot) as RunnableManifest & Pick<RunnableRevision, 'name' | 'version'>;
    const { name, version, onFailure = null } = manifest;
    const kept = { name, version, graph: wire(manifest.steps), entry: entryOf(manifest), onFailure };
    this.#revisions.set(`${flowId}:${revision}`, kept);
    return kept;
  }
}
