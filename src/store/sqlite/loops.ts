import type { Database } from 'better-sqlite3';
import { LRUCache } from 'lru-cache';
import { planNext, unhandledFailures, type WiredGraph } from '../../flows/planner.ts';
import { graphOfScope, iterationOf, parseRuntimeKey, scopeOfIteration } from '../../flows/runtime-keys.ts';
import type { Json } from '../../model/json.ts';
import type { StepStatus } from '../../model/manifest.ts';
import { MAX_BYTES, type StepError } from '../../model/run.ts';
import type { EndedLoop } from '../store.ts';
import { fromJson, toJson } from './columns.ts';

/** How far a loop has come. */
interface LoopRow {
  readonly total: number;
  readonly concurrency: number;
  readonly started: number;
  readonly ended: number;
  readonly failed: number;
}

/** A loop with its runtime key. */
interface NamedLoop extends LoopRow {
  readonly loopKey: string;
}

interface NewLoop {
  readonly loopKey: string;
  readonly items: readonly Json[];
  readonly concurrency: number;
}

/** The rows of loops: their items, how far they have come, and how they end. */
export function prepareLoops(db: Database) {
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
    end({ runId, at }: { readonly runId: string; readonly at: number }, loop: NamedLoop, graph: WiredGraph): EndedLoop {
      const { loopKey } = loop;
      const { output, error } = endOf(runId, loop, graph);
      const status = error === null ? 'Succeeded' : 'Failed';
      endStep.run(status, output, toJson(error), at, runId, loopKey);
      endAttempt.run(status, toJson(error), at, runId, loopKey);
      return { stepKey: loopKey, status, error };
    },
  };
}

/** Items are kept in chunks, so that a child is handed its own without the whole list being read. */
const CHUNK_CHARACTERS = 64 * 1024;
/** Text of the parsed chunks that stay in memory, over all loops; parsed, they take several times as much. */
const KEPT_CHARACTERS = 8 * 1024 * 1024;

function prepareKeepItems(db: Database): (runId: string, loopKey: string, items: readonly Json[]) => void {
  const forget = db.prepare('DELETE FROM loop_items WHERE run_id = ? AND step_key = ?');
  const insert = db.prepare('INSERT INTO loop_items (run_id, step_key, first_index, items) VALUES (?, ?, ?, ?)');
  return (runId, loopKey, items) => {
    forget.run(runId, loopKey);
    let texts: string[] = [];
    let characters = 0;
    for (const [index, item] of items.entries()) {
      const text = JSON.stringify(item);
      texts.push(text);
      characters += text.length;
      if (characters < CHUNK_CHARACTERS && index < items.length - 1) continue;
      insert.run(runId, loopKey, index - texts.length + 1, `[${texts.join(',')}]`);
      texts = [];
      characters = 0;
    }
  };
}

export function prepareLoopItem(db: Database): (runId: string, loopKey: string, index: number) => Json {
  const findFirst = db.prepare<[string, string, number], { firstIndex: number }>(`
    SELECT max(first_index) AS firstIndex FROM loop_items WHERE run_id = ? AND step_key = ? AND first_index <= ?`);
  const find = db.prepare<[string, string, number], { items: string }>(
    'SELECT items FROM loop_items WHERE run_id = ? AND step_key = ? AND first_index = ?',
  );
  const chunks = new LRUCache<string, readonly Json[]>({ maxSize: KEPT_CHARACTERS });
  const chunkAt = (runId: string, loopKey: string, firstIndex: number): readonly Json[] => {
    const key = `${runId}/${loopKey}/${firstIndex}`;
    const kept = chunks.get(key);
    if (kept !== undefined) return kept;
    const text = find.get(runId, loopKey, firstIndex)?.items ?? '[]';
    const items = fromJson(text) as Json[];
    chunks.set(key, items, { size: text.length });
    return items;
  };
  return (runId, loopKey, index) => {
    const firstIndex = findFirst.get(runId, loopKey, index)?.firstIndex ?? 0;
    return chunkAt(runId, loopKey, firstIndex)[index - firstIndex] ?? null;
  };
}

/** How a loop ends: with the outputs of its iterations in their order, and with the first failure among them. */
interface LoopEnd {
  /** As JSON text; null if it is not kept. */
  readonly output: string | null;
  readonly error: StepError | null;
}

/** An iteration leaves the output of its last step, or of its last steps by key where it has several. */
function prepareLoopEnd(db: Database): (runId: string, loop: NamedLoop, graph: WiredGraph) => LoopEnd {
  const collect = prepareCollect(db);
  const listFailures = prepareListFailures(db);
  const findError = db.prepare<[string, string], { error: string | null }>(
    'SELECT error FROM steps WHERE run_id = ? AND step_key = ?',
  );
  const loopError = (runId: string, loop: NamedLoop, graph: WiredGraph): StepError => {
    const [first] = listFailures(runId, loop, graph);
    const error = first === undefined ? null : (findError.get(runId, first)?.error ?? null);
    const cause = error === null ? '' : `: ${(JSON.parse(error) as StepError).message}`;
    const others = loop.failed > 1 ? ` (${loop.failed} iterations failed)` : '';
    return { code: 'iteration_failed', message: `"${first}" failed${cause}${others}`, retryable: false };
  };

  return (runId, loop, graph) => {
    const left = collect(runId, loop, graph);
    const tooLarge = `the outputs of its iterations are ${left.bytes} bytes of JSON; the limit is ${MAX_BYTES.loop}`;
    if (loop.failed > 0) {
      const error = loopError(runId, loop, graph);
      if (left.text !== undefined) return { output: left.text, error };
      return { output: null, error: { ...error, message: `${error.message} (its output is not kept: ${tooLarge})` } };
    }
    if (left.text !== undefined) return { output: left.text, error: null };
    const message = `${tooLarge}; end each iteration with a step whose output is smaller, such as a Transform`;
    return { output: null, error: { code: 'output_too_large', message, retryable: false } };
  };
}

/** What the last steps of the iterations left; without the text where it would be larger than is kept. */
function prepareCollect(
  db: Database,
): (runId: string, loop: NamedLoop, graph: WiredGraph) => { readonly bytes: number; readonly text?: string } {
  // By key, because other children and nested loops in between may have outputs too.
  const leavesOf = (columns: string) => `
    WITH RECURSIVE iteration (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM iteration WHERE n + 1 < ?)
    SELECT ${columns} FROM iteration CROSS JOIN json_each(?) AS leaf
    CROSS JOIN steps AS s ON s.run_id = ? AND s.step_key = ? || n || '.' || leaf.value
    WHERE s.output IS NOT NULL`;
  const measure = db.prepare<[number, string, string, string], { bytes: number | null }>(
    leavesOf('sum(octet_length(s.output)) AS bytes'),
  );
  const list = db.prepare<[number, string, string, string], { n: number; leafIndex: number; output: string }>(
    leavesOf('n, leaf.key AS leafIndex, s.output AS output'),
  );
  return (runId, { loopKey, total, started }, graph) => {
    const leaves = leavesIn(graph);
    const request = [started, JSON.stringify(leaves), runId, `${loopKey}.`] as const;
    // Measures before it reads: the children of one loop can leave more than fits into memory.
    const bytes = measure.get(...request)?.bytes ?? 0;
    const framing = framingBytes(total, leaves);
    if (bytes + framing > MAX_BYTES.loop) return { bytes: bytes + framing };
    const outputs = Array.from({ length: total }, () => leaves.map(() => 'null'));
    for (const { n, leafIndex, output } of list.iterate(...request)) {
      const own = outputs[n];
      if (own !== undefined) own[leafIndex] = output;
    }
    const text = `[${outputs.map((own) => frame(own, leaves)).join(',')}]`;
    return { bytes: text.length, text };
  };
}

function leavesIn(graph: WiredGraph): string[] {
  return Object.entries(graph).flatMap(([key, { downstream }]) => (downstream.length === 0 ? [key] : []));
}

function frame(outputs: readonly string[], leaves: readonly string[]): string {
  if (leaves.length === 1) return outputs[0] ?? 'null';
  return `{${leaves.map((key, index) => `${JSON.stringify(key)}:${outputs[index]}`).join(',')}}`;
}

/** Bytes of a loop's output without the outputs in it, at most what is written. Step keys are ASCII. */
function framingBytes(total: number, leaves: readonly string[]): number {
  const empty = frame(
    leaves.map(() => ''),
    leaves,
  );
  return 2 + total * (empty.length + 1);
}

/** The steps that made iterations of a loop fail, in the order of the iterations. */
export function prepareListFailures(
  db: Database,
): (runId: string, loop: Pick<NamedLoop, 'loopKey' | 'failed'>, graph: WiredGraph) => string[] {
  const statesIn = prepareStatesIn(db);
  // "/" is the character after ".".
  const listFailed = db.prepare<[string, string, string], { stepKey: string }>(`
    SELECT step_key AS stepKey FROM steps WHERE run_id = ? AND step_key >= ? AND step_key < ? AND status = 'Failed'`);
  return (runId, { loopKey, failed }, graph) => {
    const indices = new Set<number>();
    for (const { stepKey } of listFailed.iterate(runId, `${loopKey}.`, `${loopKey}/`)) {
      const { iteration } = parseRuntimeKey(stepKey);
      if (iteration?.loopKey === loopKey) indices.add(iteration.index);
    }
    // From the end: a failure is the last that a loop starts after, and there may be thousands before it that were
    // handled.
    const found: string[][] = [];
    for (const index of [...indices].sort((a, b) => b - a)) {
      if (found.length >= failed) break;
      const scope = scopeOfIteration({ loopKey, index });
      const states = statesIn(runId, scope, graph);
      if (planNext(graph, states).end !== 'Failed') continue;
      found.push(unhandledFailures(graph, states).map((key) => `${scope}${key}`));
    }
    return found.reverse().flat();
  };
}

/** How the iteration of a scope ended, by the rows of its steps; null while it goes on. */
export function prepareIterationEnd(db: Database) {
  const statesIn = prepareStatesIn(db);
  return (runId: string, scope: string, graph: WiredGraph) => {
    const own = graphOfScope(graph, scope);
    if (own === undefined || iterationOf(scope) === null) return null;
    return planNext(own, statesIn(runId, scope, own)).end;
  };
}

/** Statuses of the steps of one scope of a run, by their keys in the graph of the scope. */
export function prepareStatesIn(
  db: Database,
): (runId: string, scope: string, graph: WiredGraph) => Map<string, StepStatus> {
  const listAll = db.prepare<[string], { stepKey: string; status: StepStatus }>(
    'SELECT step_key AS stepKey, status FROM steps WHERE run_id = ?',
  );
  const listSome = db.prepare<[string, string], { stepKey: string; status: StepStatus }>(`
    SELECT step_key AS stepKey, status FROM steps
    WHERE run_id = ? AND step_key IN (SELECT value FROM json_each(?))`);
  return (runId, scope, graph) => {
    // In a run with loops, reads only the scope's own rows: there may be thousands of others.
    const isWhole = scope === '' && Object.values(graph).every(({ steps }) => steps === undefined);
    const keys = () => JSON.stringify(Object.keys(graph).map((key) => `${scope}${key}`));
    const found = isWhole ? listAll.all(runId) : listSome.all(runId, keys());
    return new Map(found.map(({ stepKey, status }) => [stepKey.slice(scope.length), status]));
  };
}
