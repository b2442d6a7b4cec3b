import type { Database } from 'better-sqlite3';
import { RevisionCache, type RunnableRevision } from '../decisions/revisions.ts';

export function prepareRevisionOf(db: Database): (flowId: string, revision: number) => RunnableRevision {
  const find = db.prepare<[string, number], { snapshot: string }>(
    'SELECT snapshot FROM revisions WHERE flow_id = ? AND revision = ?',
  );
  const revisions = new RevisionCache();
  return (flowId, revision) =>
    revisions.find(flowId, revision) ?? revisions.keep(flowId, revision, find.get(flowId, revision)?.snapshot);
}
