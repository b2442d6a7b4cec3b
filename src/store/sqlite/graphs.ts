import type { Database } from 'better-sqlite3';
import { LRUCache } from 'lru-cache';
import type { Graph } from '../../model/manifest.ts';

/** Parsed graphs; a revision never changes. */
const keptGraphs = 100;

export function prepareGraphOf(db: Database): (flowId: string, revision: number) => Graph {
  const find = db.prepare<[string, number], { snapshot: string }>(
    'SELECT snapshot FROM revisions WHERE flow_id = ? AND revision = ?',
  );
  const graphs = new LRUCache<string, Graph>({ max: keptGraphs });
  return (flowId, revision) => {
    const key = `${flowId}:${revision}`;
    const kept = graphs.get(key);
    if (kept !== undefined) return kept;
    const row = find.get(flowId, revision);
    if (row === undefined) throw new Error(`Revision ${revision} of the flow ${flowId} is not in the database.`);
    const { steps } = JSON.parse(row.snapshot) as { steps: Graph };
    graphs.set(key, steps);
    return steps;
  };
}
