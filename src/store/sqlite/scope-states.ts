import type { Database } from 'better-sqlite3';
import type { Graph, StepStatus } from '../../model/manifest.ts';

/** Where the steps of one scope of a run stand, by their keys in the graph of the scope. */
export function prepareStatesIn(db: Database): (runId: string, scope: string, graph: Graph) => Map<string, StepStatus> {
  const listAll = db.prepare<[string], { stepKey: string; status: StepStatus }>(
    'SELECT step_key AS stepKey, status FROM steps WHERE run_id = ?',
  );
  const listSome = db.prepare<[string, string], { stepKey: string; status: StepStatus }>(`
    SELECT step_key AS stepKey, status FROM steps
    WHERE run_id = ? AND step_key IN (SELECT value FROM json_each(?))`);
  const known = new WeakMap<Graph, boolean>();
  const hasLoops = (graph: Graph): boolean => {
    const answer = known.get(graph) ?? Object.values(graph).some(({ steps }) => steps !== undefined);
    known.set(graph, answer);
    return answer;
  };
  return (runId, scope, graph) => {
    // Of a run with loops only the scope's own rows are read: there may be thousands beside them.
    const isWhole = scope === '' && !hasLoops(graph);
    const keys = () => JSON.stringify(Object.keys(graph).map((key) => `${scope}${key}`));
    const found = isWhole ? listAll.all(runId) : listSome.all(runId, keys());
    return new Map(found.map(({ stepKey, status }) => [stepKey.slice(scope.length), status]));
  };
}
