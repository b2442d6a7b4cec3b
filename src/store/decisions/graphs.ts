import { LRUCache } from 'lru-cache';
import { type WiredGraph, wire } from '../../flows/planner.ts';
import type { Graph } from '../../model/manifest.ts';

/** Graphs to keep, parsed and wired; a revision never changes. */
const KEPT_GRAPHS = 100;

/** The graphs of revisions that were read last, so that `graphOf` hardly ever reads. */
export class GraphCache {
  readonly #graphs = new LRUCache<string, WiredGraph>({ max: KEPT_GRAPHS });

  find(flowId: string, revision: number): WiredGraph | undefined {
    return this.#graphs.get(`${flowId}:${revision}`);
  }

  /** Keeps the graph of a revision's manifest, given as JSON text; throws where there is none. */
  keep(flowId: string, revision: number, snapshot: string | undefined): WiredGraph {
    if (snapshot === undefined) throw new Error(`Revision ${revision} of the flow ${flowId} is not in the database.`);
    const { steps } = JSON.parse(snapshot) as { steps: Graph };
    const graph = wire(steps);
    this.#graphs.set(`${flowId}:${revision}`, graph);
    return graph;
  }
}
