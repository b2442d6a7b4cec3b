import type { Database } from 'better-sqlite3';
import { isGuarded, isIdle, isMarkedRetired } from '../../manifest/retired.ts';
import type { LiveFlow, LiveRun } from '../../model/finding.ts';
import { prepareGraphOf } from './graphs.ts';

/** So many runs in flight are named; more than that nobody reads. */
const namedRuns = 200;
/** Runs of one revision that are asked for a step, the newest first. */
const askedRuns = 1000;

type Member<Name extends keyof LiveRun> = LiveRun[Name];

/** What a change of a flow has to know. Cheap however long the history is: it asks the newest runs of each revision. */
export function prepareReadLiveFlow(db: Database): (flowId: string) => LiveFlow {
  const runsInFlight = prepareCountInFlight(db);
  const listInFlight = prepareListInFlight(db);
  const lastRuns = prepareLastRuns(db);
  return (flowId) => {
    const lastRunOfStep = lastRuns(flowId);
    return {
      runsInFlight: runsInFlight(flowId),
      runs: listInFlight(flowId),
      stepsWithHistory: Object.keys(lastRunOfStep),
      lastRunOfStep,
    };
  };
}

// The index of all statuses but one is only used where the statement says so in the index's own words.
export function prepareCountInFlight(db: Database): (flowId: string) => number {
  const count = db.prepare<[string], { count: number }>(
    "SELECT count(*) AS count FROM runs INDEXED BY runs_by_status WHERE status = 'Running' AND status <> 'Succeeded' AND flow_id = ?",
  );
  return (flowId) => count.get(flowId)?.count ?? 0;
}

function prepareListInFlight(db: Database): (flowId: string) => LiveRun[] {
  const list = db.prepare<[string, number], Omit<LiveRun, 'steps'>>(`
    SELECT id, revision, trigger_key AS triggerKey, started_at AS startedAt
    FROM runs INDEXED BY runs_by_status WHERE status = 'Running' AND status <> 'Succeeded' AND flow_id = ? ORDER BY started_at LIMIT ?`);
  const listSteps = db.prepare<[string, string], { stepKey: string; status: string; isWaiting: number }>(`
    SELECT step_key AS stepKey, status, status = 'Pending' AND (wait IS NOT NULL OR attempt_count > 0) AS isWaiting
    FROM steps WHERE run_id = ? AND step_key IN (SELECT value FROM json_each(?))`);
  const graphOf = prepareGraphOf(db);
  // Named key by key: beside them a run may have thousands of children of loops.
  const stepsOf = (runId: string, keys: readonly string[]): Member<'steps'> => {
    const rows = listSteps.all(runId, JSON.stringify(keys));
    return Object.fromEntries(
      rows.map(({ stepKey, status, isWaiting }) => [stepKey, { status, isWaiting: isWaiting === 1 }]),
    );
  };
  return (flowId) =>
    list
      .all(flowId, namedRuns)
      .map((run) => ({ ...run, steps: stepsOf(run.id, Object.keys(graphOf(flowId, run.revision))) }));
}

/** When the newest kept run that did anything in a step was started, by top-level step key. */
function prepareLastRuns(db: Database): (flowId: string) => Record<string, number> {
  const listRevisions = prepareListRunRevisions(db);
  const graphOf = prepareGraphOf(db);
  const lastRunOf = prepareLastRunOf(db);
  const isRetired = prepareIsRetired(db);
  return (flowId) => {
    const lastRuns = new Map<string, number>();
    for (const revision of listRevisions(flowId)) {
      for (const stepKey of Object.keys(graphOf(flowId, revision))) {
        if (lastRuns.has(stepKey) || isRetired({ flowId, revision, stepKey })) continue;
        const startedAt = lastRunOf({ flowId, revision, stepKey });
        if (startedAt !== undefined) lastRuns.set(stepKey, startedAt);
      }
    }
    return Object.fromEntries(lastRuns);
  };
}

/** Whether a kept run did anything in the step: only runs of a revision that has the step can. */
export function prepareHasHistory(db: Database): (flowId: string, stepKey: string) => boolean {
  const listRevisions = prepareListRunRevisions(db);
  const graphOf = prepareGraphOf(db);
  const lastRunOf = prepareLastRunOf(db);
  const isRetired = prepareIsRetired(db);
  return (flowId, stepKey) =>
    listRevisions(flowId).some(
      (revision) =>
        Object.hasOwn(graphOf(flowId, revision), stepKey) &&
        !isRetired({ flowId, revision, stepKey }) &&
        lastRunOf({ flowId, revision, stepKey }) !== undefined,
    );
}

/**
 * Whether a revision keeps a step for the sake of its records alone. Its own runs still leave a row, which says that they
 * skipped it or did nothing; if that were history, a step that was retired could never be removed.
 */
function prepareIsRetired(db: Database): (place: { flowId: string; revision: number; stepKey: string }) => boolean {
  const graphOf = prepareGraphOf(db);
  const findOtherType = db.prepare<[string, number, string], unknown>(`
    SELECT 1 FROM revisions WHERE flow_id = ? AND revision < ? AND json_extract(snapshot, ?) <> 'NoOp' LIMIT 1`);
  return ({ flowId, revision, stepKey }) => {
    const graph = graphOf(flowId, revision);
    const step = graph[stepKey];
    if (step === undefined) return false;
    if (isGuarded(step)) return true;
    if (!isIdle(graph, stepKey)) return false;
    // A step that was a NoOp all along was never retired, unless it says so.
    return isMarkedRetired(step) || findOtherType.get(flowId, revision, `$.steps."${stepKey}".type`) !== undefined;
  };
}

/** Revisions that kept runs are pinned to, newest first: one jump through the index for each. */
function prepareListRunRevisions(db: Database): (flowId: string) => number[] {
  const list = db.prepare<[string, string], { revision: number }>(`
    WITH RECURSIVE pinned (revision) AS (
      SELECT max(revision) FROM runs INDEXED BY runs_by_revision WHERE flow_id = ?
      UNION ALL
      SELECT (SELECT max(r.revision) FROM runs r INDEXED BY runs_by_revision WHERE r.flow_id = ? AND r.revision < pinned.revision)
      FROM pinned WHERE pinned.revision IS NOT NULL
    ) SELECT revision FROM pinned WHERE revision IS NOT NULL`);
  return (flowId) => list.all(flowId, flowId).map(({ revision }) => revision);
}

/**
 * When the newest run of a revision that has a row of the step was started. A run that ends has rows of all its steps,
 * unless it failed or was stopped on the way, so the first one asked has the answer as a rule. Where a thousand have
 * none it is taken for granted that an older one has: a step wrongly kept costs less than history wrongly lost.
 */
function prepareLastRunOf(db: Database) {
  const find = db.prepare<[string, number, number, string], { startedAt: number }>(`
    SELECT r.started_at AS startedAt
    FROM (
      SELECT id, started_at, rowid AS age FROM runs INDEXED BY runs_by_revision
      WHERE flow_id = ? AND revision = ? ORDER BY rowid DESC LIMIT ?
    ) r CROSS JOIN steps s ON s.run_id = r.id AND s.step_key = ?
    ORDER BY r.age DESC LIMIT 1`);
  const findFurther = db.prepare<[string, number, number], { startedAt: number }>(`
    SELECT started_at AS startedAt FROM runs INDEXED BY runs_by_revision
    WHERE flow_id = ? AND revision = ? ORDER BY rowid DESC LIMIT 1 OFFSET ?`);
  return ({ flowId, revision, stepKey }: { flowId: string; revision: number; stepKey: string }): number | undefined =>
    (find.get(flowId, revision, askedRuns, stepKey) ?? findFurther.get(flowId, revision, askedRuns))?.startedAt;
}
