import type { Database } from 'better-sqlite3';
import { LRUCache } from 'lru-cache';
import { planNext } from '../../flows/planner.ts';
import type { Graph, RunStatus, StepStatus } from '../../model/manifest.ts';
import type { Advance, StepOutcome } from '../store.ts';
import { toJson } from './json-column.ts';

/** Parsed graphs; a revision never changes. */
const keptGraphs = 100;

interface HeldStep {
  readonly attempt: number;
  readonly runStatus: RunStatus;
  readonly flowId: string;
  readonly revision: number;
  readonly startedAt: number;
}

export function prepareAdvance(db: Database): (outcome: StepOutcome) => Advance | undefined {
  const findHeld = db.prepare<[string, string, string], HeldStep>(`
    SELECT s.attempt_count AS attempt, r.status AS runStatus, r.flow_id AS flowId, r.revision, r.started_at AS startedAt
    FROM steps s JOIN runs r ON r.id = s.run_id WHERE s.run_id = ? AND s.step_key = ? AND s.lease_token = ?`);
  const endAttempt = prepareEndAttempt(db);
  const planFurther = preparePlanFurther(db);

  return (outcome) => {
    const held = findHeld.get(outcome.runId, outcome.stepKey, outcome.token);
    if (held === undefined) return undefined;
    const isRunning = held.runStatus === 'Running';
    // A run that was ended meanwhile tries nothing again: there the attempt's failure is the step's.
    const retryAt = isRunning && outcome.result.kind === 'retry' ? outcome.result.dueAt : null;
    endAttempt(outcome, held.attempt, retryAt);

    const nothing = { runStatus: held.runStatus, endedRun: null, dispatched: [], skipped: [] };
    if (!isRunning) return nothing;
    if (retryAt !== null) return { ...nothing, dispatched: [outcome.stepKey] };
    return planFurther(outcome, held);
  };
}

/** Closes the attempt, and its step too unless that is due again. */
function prepareEndAttempt(db: Database): (outcome: StepOutcome, attempt: number, retryAt: number | null) => void {
  const endAttempt = db.prepare(`
    UPDATE attempts SET status = ?, input = ?, output = ?, error = ?, completed_at = ?
    WHERE run_id = ? AND step_key = ? AND attempt = ?`);
  const endStep = db.prepare(`
    UPDATE steps SET status = ?, due_at = ?, lease_token = NULL, input = ?, output = ?, error = ?, completed_at = ?
    WHERE run_id = ? AND step_key = ?`);
  return ({ runId, stepKey, at, input, result }, attempt, retryAt) => {
    const status: StepStatus = result.kind === 'succeeded' ? 'Succeeded' : 'Failed';
    const record = [toJson(input), toJson(result.output), result.kind === 'succeeded' ? null : toJson(result.error)];
    endAttempt.run(status, ...record, at, runId, stepKey, attempt);
    const step = retryAt === null ? { status, completedAt: at } : { status: 'Pending', completedAt: null };
    endStep.run(step.status, retryAt, ...record, step.completedAt, runId, stepKey);
  };
}

/** Plans what follows now that a step has ended, and stores it. */
function preparePlanFurther(db: Database): (outcome: StepOutcome, held: HeldStep) => Advance {
  const graphOf = prepareGraphOf(db);
  const listStates = db.prepare<[string], { stepKey: string; status: StepStatus }>(
    'SELECT step_key AS stepKey, status FROM steps WHERE run_id = ?',
  );
  const insertDue = db.prepare(
    "INSERT INTO steps (run_id, step_key, step_type, status, due_at) VALUES (?, ?, ?, 'Pending', ?)",
  );
  const insertSkipped = db.prepare(
    "INSERT INTO steps (run_id, step_key, step_type, status, skip_reason, completed_at) VALUES (?, ?, ?, 'Skipped', ?, ?)",
  );
  const endRun = db.prepare('UPDATE runs SET status = ?, completed_at = ? WHERE id = ?');

  return ({ runId, at }, { flowId, revision, startedAt, runStatus }) => {
    const graph = graphOf(flowId, revision);
    const states = new Map(listStates.all(runId).map(({ stepKey, status }) => [stepKey, status]));
    const plan = planNext(graph, states);
    const typeOf = (stepKey: string) => graph[stepKey]?.type;
    for (const stepKey of plan.start) insertDue.run(runId, stepKey, typeOf(stepKey), at);
    for (const { stepKey, reason } of plan.skip) insertSkipped.run(runId, stepKey, typeOf(stepKey), reason, at);
    if (plan.end !== null) endRun.run(plan.end, at, runId);
    return {
      runStatus: plan.end ?? runStatus,
      endedRun: plan.end === null ? null : { flowId, startedAt, completedAt: at },
      dispatched: plan.start,
      skipped: plan.skip,
    };
  };
}

function prepareGraphOf(db: Database): (flowId: string, revision: number) => Graph {
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
