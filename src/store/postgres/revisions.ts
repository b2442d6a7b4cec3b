import { RevisionCache, type RunnableRevision } from '../decisions/revisions.ts';
import type { Sql } from './sql.ts';

const emptyCache = () => new RevisionCache();

/** A revision as its runs follow it; rejects where the database has no such revision. */
export async function revisionOf(sql: Sql, flowId: string, revision: number): Promise<RunnableRevision> {
  const revisions = sql.kept(emptyCache);
  const kept = revisions.find(flowId, revision);
  if (kept !== undefined) return kept;
  const row = await sql.get<{ snapshot: string }>(
    'SELECT snapshot FROM sluice.revisions WHERE flow_id = $1 AND revision = $2',
    [flowId, revision],
  );
  return revisions.keep(flowId, revision, row?.snapshot);
}
