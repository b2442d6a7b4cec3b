import type { Json } from '../../model/json.ts';
import { planNext } from '../../model/planner.ts';
import { graphOfScope, type Iteration, parseRuntimeKey, scopeOfIteration } from '../../model/runtime-keys.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import type { AskedLoop, Follower, PlannedRun, RetriedRun } from '../../store/decisions/follower.ts';
import type { RunRows } from '../../store/decisions/rows.ts';
import type { StepOutcome } from '../../store/store.ts';
import { listFailures, loopEnd, type NamedLoop, type Rows } from './loop-end.ts';
import { findItems, type ItemChunk, loopRows } from './rows.ts';

/** Items are kept in chunks, so that a child is handed its own without the whole list being read. */
const CHUNK_CHARACTERS = 64 * 1024;

function* chunksOf(items: readonly Json[]): Generator<ItemChunk> {
  let texts: string[] = [];
  let characters = 0;
  for (const [index, item] of items.entries()) {
    const text = JSON.stringify(item);
    texts.push(text);
    characters += text.length;
    if (characters < CHUNK_CHARACTERS && index < items.length - 1) continue;
    yield { firstIndex: index - texts.length + 1, items: `[${texts.join(',')}]` };
    texts = [];
    characters = 0;
  }
}

function* withLoops(rows: RunRows): Decision<Rows> {
  return { ...rows, ...(yield* rows.port()).own(loopRows) };
}

/** Starts the first iterations of a loop; one without items ends at once. */
function* begin(
  run: PlannedRun,
  { stepKey: loopKey, input }: StepOutcome,
  { items, concurrency }: AskedLoop,
): Decision<void> {
  const { runId } = run;
  const rows = yield* withLoops(run.rows);
  rows.insertLoop(runId, { loopKey, total: items.length, concurrency }, input);
  for (const chunk of chunksOf(items)) rows.insertItems(runId, loopKey, chunk);
  yield* goOn(run, rows, { loopKey, items });
}

interface GoingOn {
  readonly loopKey: string;
  /** Of a loop that begins: what this transaction stores is not read, as it would stay in memory even if rolled back. */
  readonly items?: readonly Json[];
}

/** Starts as many iterations as may run at once, and none after a failure. Ends the loop when none is left. */
function* goOn(run: PlannedRun, rows: Rows, { loopKey, items }: GoingOn): Decision<void> {
  const { runId } = run;
  const found = yield* rows.findLoop(runId, loopKey);
  if (found === undefined) throw new Error(`The loop ${loopKey} of the run ${runId} is not in the database.`);
  const { failed, total, started, ended, concurrency } = found;
  const count = failed > 0 ? 0 : Math.max(0, Math.min(total - started, concurrency - (started - ended)));
  const graph = yield* run.graphIn(scopeOfIteration({ loopKey, index: 0 }));
  // Asked together: one after the other, a thousand iterations would be a thousand round trips.
  const scopes = Array.from({ length: count }, (_, n) => {
    const scope = scopeOfIteration({ loopKey, index: started + n });
    return { scope, states: rows.statesIn(runId, scope, graph), item: items?.[started + n] };
  });
  for (const scope of scopes) {
    rows.startIteration(runId, loopKey);
    yield* run.plan(scope);
  }
  const loop = { ...found, started: started + count };
  if (loop.ended === loop.started) yield* end(run, rows, { ...loop, runId, loopKey });
}

function* end(run: PlannedRun, rows: Rows, loop: NamedLoop): Decision<void> {
  const { runId, loopKey } = loop;
  const { output, error } = yield* loopEnd(rows, loop, yield* run.graphIn(scopeOfIteration({ loopKey, index: 0 })));
  const status = error === null ? 'Succeeded' : 'Failed';
  rows.endLoop({ runId, stepKey: loopKey, status, output, error, at: run.at });
  run.loops.push({ stepKey: loopKey, status, error });
  yield* run.plan({ ...parseRuntimeKey(loopKey), status });
}

/** The steps to retry: for a loop that ran, the children that made it fail; otherwise the step itself. */
function* causes(run: RetriedRun, rows: Rows, stepKey: string): Decision<string[]> {
  const { runId, graph } = run;
  const own = graphOfScope(graph, scopeOfIteration({ loopKey: stepKey, index: 0 }));
  const loop = own && (yield* rows.findLoop(runId, stepKey));
  if (own === undefined || loop === undefined || loop.total === 0) return [stepKey];
  const found: string[] = [];
  for (const key of yield* listFailures(rows, { runId, loopKey: stepKey, failed: loop.failed }, own)) {
    found.push(...(yield* causes(run, rows, key)));
  }
  return found;
}

/** Reverts the count of an iteration that ended, and does the same for the loops around its loop. */
function* reopen(run: RetriedRun, rows: Rows, { loopKey, index }: Iteration): Decision<string[]> {
  const { runId, graph } = run;
  const scope = scopeOfIteration({ loopKey, index });
  const own = graphOfScope(graph, scope);
  if (own === undefined) return [];
  const { end } = planNext(own, yield* rows.statesIn(runId, scope, own));
  if (end === null) return [];
  rows.uncountIteration(runId, loopKey, end === 'Failed');
  // Before the loop is open again, since that opens the iteration around it.
  const { iteration } = parseRuntimeKey(loopKey);
  const around = iteration === null ? [] : yield* reopen(run, rows, iteration);
  return (yield* rows.reopenLoop(runId, loopKey)) ? [...around, loopKey] : around;
}

export const loopsFollower: Follower = {
  name: 'loops',
  scopes: {
    begin,
    *ended(run, { loopKey }, status) {
      const rows = yield* withLoops(run.rows);
      rows.endIteration(run.runId, loopKey, status === 'Failed');
      yield* goOn(run, rows, { loopKey });
    },
    items: findItems,
    *causes(run, stepKey) {
      return yield* causes(run, yield* withLoops(run.rows), stepKey);
    },
    *reopen(run, iteration) {
      return yield* reopen(run, yield* withLoops(run.rows), iteration);
    },
  },
};
