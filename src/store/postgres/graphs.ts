import type { WiredGraph } from '../../flows/planner.ts';
import { GraphCache } from '../decisions/graphs.ts';
import type { Sql } from './sql.ts';

const emptyCache = () => new GraphCache();

/** The graph of a revision; rejects where the database has no such revision. */
export async function graphOf(sql: Sql, flowId: string, revision: number): Promise<WiredGraph> {
  const graphs = sql.kept(emptyCache);
  const kept = graphs.find(flowId, revision);
  if (kept !== undefined) return kept;
  const row = await sql.get<{ snapshot: string }>(
    'SELECT snapshot FROM sluice.revisions WHERE flow_id = $1 AND revision = $2',
    [flowId, revision],
  );
  return graphs.keep(flowId, revision, row?.snapshot);
}
