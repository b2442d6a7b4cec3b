import type { Database } from 'better-sqlite3';
import { planNext } from '../../flows/planner.ts';
import { graphOfScope, iterationOf, parseRuntimeKey, scopeOfIteration } from '../../flows/runtime-keys.ts';
import type { Json } from '../../model/json.ts';
import type { Graph, RunStatus } from '../../model/manifest.ts';
import type { EndedLoop } from '../store.ts';
import { prepareGraphOf } from './graphs.ts';
import { toJson } from './json-column.ts';
import { type LoopRow, type NamedLoop, prepareKeepItems, prepareLoopEnd } from './loops.ts';
import { prepareRunTallies } from './run-tallies.ts';
import { prepareStatesIn } from './scope-states.ts';

/** The run that is planned further, and what that led to so far. */
export interface Progress {
  readonly runId: string;
  readonly flowId: string;
  readonly revision: number;
  readonly at: number;
  readonly dispatched: string[];
  readonly skipped: { readonly stepKey: string; readonly reason: string }[];
  readonly loops: EndedLoop[];
  /** How the run ended; null while it goes on. */
  end: RunStatus | null;
}

export interface NewLoop {
  readonly loopKey: string;
  readonly items: readonly Json[];
  readonly concurrency: number;
}

export interface Planning {
  /** Plans what follows in a scope whose steps changed, and in the scopes around it where this one ends. */
  planScope(progress: Progress, scope: string): void;
  /** Starts the first iterations of a loop; one without items ends at once. */
  startLoop(progress: Progress, loop: NewLoop): void;
}

export function preparePlanning(db: Database): Planning {
  const graphOf = prepareGraphOf(db);
  const rows = prepareRows(db);
  const loops = prepareLoops(db);
  const graphIn = ({ flowId, revision }: Progress, scope: string): Graph => {
    const graph = graphOfScope(graphOf(flowId, revision), scope);
    if (graph === undefined) throw new Error(`Revision ${revision} of the flow ${flowId} has no scope ${scope}`);
    return graph;
  };

  const planScope = (progress: Progress, scope: string): void => {
    const { runId, flowId, at } = progress;
    const graph = graphIn(progress, scope);
    const plan = planNext(graph, rows.statesIn(runId, scope, graph));
    const typeOf = (stepKey: string) => graph[stepKey]?.type;
    for (const localKey of plan.start) {
      rows.insertDue({ runId, flowId, stepKey: `${scope}${localKey}`, stepType: typeOf(localKey), at });
      progress.dispatched.push(`${scope}${localKey}`);
    }
    for (const { stepKey: localKey, reason } of plan.skip) {
      rows.insertSkipped({ runId, stepKey: `${scope}${localKey}`, stepType: typeOf(localKey), reason, at });
      progress.skipped.push({ stepKey: `${scope}${localKey}`, reason });
    }
    if (plan.end === null) return;
    const iteration = iterationOf(scope);
    if (iteration === null) {
      progress.end = plan.end;
      rows.endRun(runId, plan.end, at);
    } else {
      loops.endIteration(runId, iteration.loopKey, plan.end === 'Failed');
      goOn(progress, iteration.loopKey);
    }
  };

  /** Starts as many iterations as there is room for; after a failure no more. Ends the loop when none is left. */
  const goOn = (progress: Progress, loopKey: string): void => {
    const { runId } = progress;
    let loop = loops.find(runId, loopKey);
    while (loop.failed === 0 && loop.started < loop.total && loop.started - loop.ended < loop.concurrency) {
      loops.startIteration(runId, loopKey);
      planScope(progress, scopeOfIteration({ loopKey, index: loop.started }));
      loop = { ...loop, started: loop.started + 1 };
    }
    if (loop.ended === loop.started) endLoop(progress, loopKey, loop);
  };

  const endLoop = (progress: Progress, loopKey: string, loop: LoopRow): void => {
    const graph = graphIn(progress, scopeOfIteration({ loopKey, index: 0 }));
    progress.loops.push(loops.end(progress, { ...loop, loopKey }, graph));
    planScope(progress, parseRuntimeKey(loopKey).scope);
  };

  return {
    planScope,
    startLoop(progress, loop) {
      loops.insert(progress.runId, loop);
      goOn(progress, loop.loopKey);
    },
  };
}

function prepareRows(db: Database) {
  const statesIn = prepareStatesIn(db);
  const insertDue = db.prepare(
    "INSERT INTO steps (run_id, flow_id, step_key, step_type, status, due_at) VALUES (?, ?, ?, ?, 'Pending', ?)",
  );
  const insertSkipped = db.prepare(
    "INSERT INTO steps (run_id, step_key, step_type, status, skip_reason, completed_at) VALUES (?, ?, ?, 'Skipped', ?, ?)",
  );
  const tallies = prepareRunTallies(db);
  return {
    statesIn,
    insertDue: (due: { runId: string; flowId: string; stepKey: string; stepType: string | undefined; at: number }) =>
      insertDue.run(due.runId, due.flowId, due.stepKey, due.stepType, due.at),
    insertSkipped: (skip: {
      runId: string;
      stepKey: string;
      stepType: string | undefined;
      reason: string;
      at: number;
    }) => insertSkipped.run(skip.runId, skip.stepKey, skip.stepType, skip.reason, skip.at),
    endRun: tallies.end,
  };
}

function prepareLoops(db: Database) {
  const insertLoop = db.prepare(
    'INSERT OR REPLACE INTO loops (run_id, step_key, total, concurrency, started, ended, failed) VALUES (?, ?, ?, ?, 0, 0, 0)',
  );
  const keepItems = prepareKeepItems(db);
  const find = db.prepare<[string, string], LoopRow>(
    'SELECT total, concurrency, started, ended, failed FROM loops WHERE run_id = ? AND step_key = ?',
  );
  const start = db.prepare('UPDATE loops SET started = started + 1 WHERE run_id = ? AND step_key = ?');
  const endOne = db.prepare(
    'UPDATE loops SET ended = ended + 1, failed = failed + ? WHERE run_id = ? AND step_key = ?',
  );
  const endOf = prepareLoopEnd(db);
  const endStep = db.prepare(`
    UPDATE steps SET status = ?, output = ?, error = ?, completed_at = ? WHERE run_id = ? AND step_key = ?`);
  const endAttempt = db.prepare(`
    UPDATE attempts SET status = ?, error = ?, completed_at = ?
    WHERE run_id = ? AND step_key = ? AND status = 'Running'`);
  return {
    insert(runId: string, { loopKey, items, concurrency }: NewLoop) {
      insertLoop.run(runId, loopKey, items.length, concurrency);
      keepItems(runId, loopKey, items);
    },
    find(runId: string, loopKey: string): LoopRow {
      const row = find.get(runId, loopKey);
      if (row === undefined) throw new Error(`The loop ${loopKey} of the run ${runId} is not in the database.`);
      return row;
    },
    startIteration: (runId: string, loopKey: string) => start.run(runId, loopKey),
    endIteration: (runId: string, loopKey: string, isFailed: boolean) => endOne.run(Number(isFailed), runId, loopKey),
    end({ runId, at }: Progress, loop: NamedLoop, graph: Graph): EndedLoop {
      const { loopKey } = loop;
      const { output, error } = endOf(runId, loop, graph);
      const status = error === null ? 'Succeeded' : 'Failed';
      endStep.run(status, output, toJson(error), at, runId, loopKey);
      endAttempt.run(status, toJson(error), at, runId, loopKey);
      return { stepKey: loopKey, status, error };
    },
  };
}
