import type { Database } from 'better-sqlite3';
import { LRUCache } from 'lru-cache';
import { iterationOf, scopeOfIteration } from '../../flows/runtime-keys.ts';
import type { Json } from '../../model/json.ts';
import type { Graph } from '../../model/manifest.ts';
import type { StepError } from '../../model/run.ts';
import { fromJson } from './json-column.ts';

/** How far a loop has come. */
export interface LoopRow {
  readonly total: number;
  readonly concurrency: number;
  readonly started: number;
  readonly ended: number;
  readonly failed: number;
}

/** A loop with its runtime key. */
export interface NamedLoop extends LoopRow {
  readonly loopKey: string;
}

/** Parsed lists of items: a list is read once for each iteration, and may be large. */
const keptLists = 16;
/** What the children of one loop may leave together. */
const maxOutputBytes = 8 * 1024 * 1024;

export function prepareLoopItem(db: Database): (runId: string, loopKey: string, index: number) => Json {
  const find = db.prepare<[string, string], { rowid: number; items: string }>(
    'SELECT rowid, items FROM loop_items WHERE run_id = ? AND step_key = ?',
  );
  const lists = new LRUCache<string, readonly Json[]>({ max: keptLists });
  return (runId, loopKey, index) => {
    const key = `${runId}/${loopKey}`;
    let items = lists.get(key);
    if (items === undefined) {
      items = JSON.parse(find.get(runId, loopKey)?.items ?? '[]') as Json[];
      lists.set(key, items);
    }
    return items[index] ?? null;
  };
}

/** How a loop ends: with what its iterations left, in their order, and with the first failure among them. */
export interface LoopEnd {
  readonly output: readonly Json[];
  readonly error: StepError | null;
}

/** An iteration leaves the output of its last step, or of its last steps by key where it has several. */
export function prepareLoopEnd(db: Database): (runId: string, loop: NamedLoop, graph: Graph) => LoopEnd {
  const list = db.prepare<
    [string, string, string],
    { stepKey: string; status: string; output: string | null; error: string | null }
  >(`
    SELECT step_key AS stepKey, status, output, error FROM steps
    WHERE run_id = ? AND step_key >= ? AND step_key < ? ORDER BY step_key`);

  return (runId, { loopKey, total, failed }, graph) => {
    const upstream = new Set(Object.values(graph).flatMap(({ runAfter }) => Object.keys(runAfter)));
    const leaves = Object.keys(graph).filter((key) => !upstream.has(key));
    const rows = new Map(list.all(runId, `${loopKey}.`, `${loopKey}/`).map((row) => [row.stepKey, row]));
    const output = Array.from({ length: total }, (_, index): Json => {
      const scope = scopeOfIteration({ loopKey, index });
      const left = leaves.map((key) => [key, fromJson(rows.get(`${scope}${key}`)?.output ?? null)] as const);
      return left.length === 1 ? (left[0]?.[1] ?? null) : Object.fromEntries(left);
    });
    if (failed > 0) return { output, error: loopError(loopKey, [...rows.values()], failed) };
    const bytes = Buffer.byteLength(JSON.stringify(output));
    if (bytes <= maxOutputBytes) return { output, error: null };
    const message = `the children left ${bytes} bytes as JSON; at most ${maxOutputBytes} are kept`;
    return { output: [], error: { code: 'output_too_large', message, retryable: false } };
  };
}

function loopError(
  loopKey: string,
  rows: readonly { stepKey: string; status: string; error: string | null }[],
  failed: number,
): StepError {
  const own = rows.filter(({ stepKey, status }) => status === 'Failed' && isChild(stepKey, loopKey));
  const first = own.toSorted((a, b) => indexOf(a.stepKey) - indexOf(b.stepKey))[0];
  const cause = first?.error == null ? '' : `: ${(JSON.parse(first.error) as StepError).message}`;
  const others = failed > 1 ? ` (${failed} iterations failed)` : '';
  return { code: 'iteration_failed', message: `"${first?.stepKey}" failed${cause}${others}`, retryable: false };
}

function isChild(stepKey: string, loopKey: string): boolean {
  return iterationOf(stepKey.slice(0, stepKey.lastIndexOf('.') + 1))?.loopKey === loopKey;
}

function indexOf(stepKey: string): number {
  return iterationOf(stepKey.slice(0, stepKey.lastIndexOf('.') + 1))?.index ?? 0;
}
