import { LRUCache } from 'lru-cache';
import { type Json, parseJson } from '../../model/json.ts';
import type { Sql } from './sql.ts';

/** An iteration of a loop, by the runtime key of the loop. */
interface Iteration {
  readonly runId: string;
  readonly loopKey: string;
  readonly index: number;
}

/** Text of the parsed chunks that stay in memory, over all loops; parsed, they take several times as much. */
const KEPT_CHARACTERS = 8 * 1024 * 1024;

const makeChunks = () => new LRUCache<string, readonly Json[]>({ maxSize: KEPT_CHARACTERS });

const nameOf = ({ runId, loopKey }: Omit<Iteration, 'index'>, firstIndex: number) =>
  `${runId}/${loopKey}/${firstIndex}`;

/** Reads the items of iterations; an iteration that has none reads as null. Reads nothing where nothing is asked for. */
export async function findItems(sql: Sql, iterations: readonly Iteration[]): Promise<(iteration: Iteration) => Json> {
  if (iterations.length === 0) return () => null;
  const firsts = await sql.all<{ n: number; firstIndex: number | null }>(
    `SELECT given.n, (
      SELECT max(i.first_index) FROM sluice.loop_items i
      WHERE i.run_id = given.run_id AND i.step_key = given.step_key AND i.first_index <= given.index
    ) AS "firstIndex"
    FROM unnest($1::uuid[], $2::text[], $3::integer[]) WITH ORDINALITY AS given (run_id, step_key, index, n)`,
    [
      iterations.map(({ runId }) => runId),
      iterations.map(({ loopKey }) => loopKey),
      iterations.map(({ index }) => index),
    ],
  );
  const kept = sql.kept(makeChunks);
  const chunks = new Map<string, readonly Json[]>();
  const missing = new Map<string, Omit<Iteration, 'index'> & { readonly firstIndex: number }>();
  const places = new Map<string, { readonly chunk: string; readonly at: number }>();
  for (const { n, firstIndex } of firsts) {
    const iteration = iterations[n - 1];
    if (iteration === undefined || firstIndex === null) continue;
    const chunk = nameOf(iteration, firstIndex);
    places.set(nameOf(iteration, iteration.index), { chunk, at: iteration.index - firstIndex });
    const known = kept.get(chunk);
    if (known === undefined) missing.set(chunk, { ...iteration, firstIndex });
    else chunks.set(chunk, known);
  }
  for (const { runId, loopKey, firstIndex, items } of await listChunks(sql, [...missing.values()])) {
    const chunk = parseJson(items) as Json[];
    kept.set(nameOf({ runId, loopKey }, firstIndex), chunk, { size: items.length });
    chunks.set(nameOf({ runId, loopKey }, firstIndex), chunk);
  }
  return (iteration) => {
    const place = places.get(nameOf(iteration, iteration.index));
    return (place && chunks.get(place.chunk)?.[place.at]) ?? null;
  };
}

interface Chunk {
  readonly runId: string;
  readonly loopKey: string;
  readonly firstIndex: number;
}

function listChunks(sql: Sql, chunks: readonly Chunk[]): Promise<(Chunk & { readonly items: string })[]> {
  if (chunks.length === 0) return Promise.resolve([]);
  return sql.all(
    `SELECT i.run_id AS "runId", i.step_key AS "loopKey", i.first_index AS "firstIndex", i.items
    FROM unnest($1::uuid[], $2::text[], $3::integer[]) AS given (run_id, step_key, first_index)
    JOIN sluice.loop_items i USING (run_id, step_key, first_index)`,
    [
      chunks.map(({ runId }) => runId),
      chunks.map(({ loopKey }) => loopKey),
      chunks.map(({ firstIndex }) => firstIndex),
    ],
  );
}
