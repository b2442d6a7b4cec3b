import { LRUCache } from 'lru-cache';
import { type Json, parseJson } from '../../model/json.ts';
import type { StepError } from '../../model/run.ts';
import type { Asks, Decision } from '../../store/decisions/decision.ts';
import type { RunIteration } from '../../store/decisions/follower.ts';
import { fixed, type Port, Rows, sql } from '../../store/decisions/port.ts';
import { toJson } from '../../store/json-columns.ts';
import type { StepAddress } from '../../store/store.ts';

/** The loops of runs; a transaction has them as it has `RunRows`. */
export type LoopRows = Asks<LoopReads> & LoopWrites;

/** How far a loop has come. */
export interface LoopRow {
  readonly total: number;
  readonly concurrency: number;
  readonly started: number;
  readonly ended: number;
  readonly failed: number;
}

/** The last steps of the iterations of a loop. */
interface Leaves {
  readonly runId: string;
  readonly loopKey: string;
  /** Iterations that have started: those before this index are looked at. */
  readonly started: number;
  /** Keys in the graph of the loop. */
  readonly keys: readonly string[];
}

interface LeafOutput {
  /** Index of the iteration. */
  readonly n: number;
  /** Index of the step's key among those asked for. */
  readonly leafIndex: number;
  /** JSON text. */
  readonly output: string;
}

interface NewLoop {
  readonly loopKey: string;
  readonly total: number;
  readonly concurrency: number;
}

/** Items of a loop that lie next to each other. */
export interface ItemChunk {
  readonly firstIndex: number;
  /** A list as JSON text. */
  readonly items: string;
}

/** A loop that ends with its last iteration. */
interface EndingLoop extends StepAddress {
  readonly status: 'Succeeded' | 'Failed';
  /** JSON text; null where it is not kept. */
  readonly output: string | null;
  readonly error: StepError | null;
  readonly at: number;
}

export interface LoopReads {
  findLoop(runId: string, loopKey: string): LoopRow | undefined;
  /** Runtime keys of failed steps within a loop, those of the loops in it included. To be iterated at once. */
  listFailed(runId: string, loopKey: string): Iterable<string>;
  /** Bytes of the leaves' outputs as JSON. */
  measureLeaves(leaves: Leaves): number;
  /** Outputs of those leaves that have one, in any order. To be iterated at once. */
  listLeaves(leaves: Leaves): Iterable<LeafOutput>;
  /** Opens a loop that has ended, and its last attempt, again; false where it had not ended. Writes. */
  reopenLoop(runId: string, loopKey: string): boolean;
}

export interface LoopWrites {
  /** The loop's step is neither due nor leased from here on. Replaces a loop of an earlier attempt and its items. */
  insertLoop(runId: string, loop: NewLoop, input: Json): void;
  insertItems(runId: string, loopKey: string, chunk: ItemChunk): void;
  startIteration(runId: string, loopKey: string): void;
  endIteration(runId: string, loopKey: string, isFailed: boolean): void;
  /** Ends the loop's step and its open attempt. */
  endLoop(loop: EndingLoop): void;
  /** Takes an iteration that had ended out of the counts. */
  uncountIteration(runId: string, loopKey: string, isFailed: boolean): void;
}

/** Outputs of leaves. By key, because other children and nested loops in between may have outputs too. */
const ofLeaves = ({ runId, loopKey, started, keys }: Leaves) => {
  const leaves = new Rows(keys.map((key, place) => ({ place, key })));
  return [
    sql`WITH RECURSIVE iteration (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM iteration WHERE n + 1 < ${started}::integer)`,
    sql`
      FROM iteration CROSS JOIN jsonb_to_recordset(${leaves}) AS leaf (place integer, key text)
      /*sqlite: CROSS */ JOIN sluice.steps AS s
        ON s.run_id = ${runId} AND s.step_key = ${`${loopKey}.`}::text || n || '.' || leaf.key
      WHERE s.output IS NOT NULL`,
  ] as const;
};

export function loopRows(port: Port): LoopRows {
  const { later } = port;
  return {
    findLoop: (runId, loopKey) =>
      port.get<LoopRow>(sql`
        SELECT total, concurrency, started, ended, failed FROM sluice.loops
        WHERE run_id = ${runId} AND step_key = ${loopKey}`),
    *listFailed(runId, loopKey) {
      // "/" is the character after ".".
      const rows = yield* port.all<{ stepKey: string }>(sql`
        SELECT step_key AS "stepKey" FROM sluice.steps
        WHERE run_id = ${runId} AND step_key >= ${`${loopKey}.`} AND step_key < ${`${loopKey}/`} AND status = 'Failed'
        ORDER BY step_key`);
      return rows.map(({ stepKey }) => stepKey);
    },
    *measureLeaves(leaves) {
      const [iterations, found] = ofLeaves(leaves);
      const row = yield* port.get<{ bytes: number | null }>(
        sql`${iterations} SELECT sum(octet_length(s.output)) AS bytes ${found}`,
      );
      return row?.bytes ?? 0;
    },
    listLeaves(leaves) {
      const [iterations, found] = ofLeaves(leaves);
      return port.all<LeafOutput>(sql`${iterations} SELECT n, leaf.place AS "leafIndex", s.output AS output ${found}`);
    },
    *reopenLoop(runId, loopKey) {
      // A loop that succeeded opens again too: a failure in it may have been handled.
      const reopened = yield* port.run(sql`
        UPDATE sluice.steps SET status = 'Running', output = NULL, error = NULL, completed_at = NULL
        WHERE run_id = ${runId} AND step_key = ${loopKey} AND status <> 'Running'`);
      if (reopened === 0) return false;
      later(sql`
        UPDATE sluice.attempts SET status = 'Running', error = NULL, completed_at = NULL
        WHERE run_id = ${runId} AND step_key = ${loopKey} AND attempt = (
          SELECT attempt_count FROM sluice.steps WHERE run_id = ${runId} AND step_key = ${loopKey})`);
      return true;
    },
    insertLoop(runId, { loopKey, total, concurrency }, input) {
      later(sql`
        UPDATE sluice.steps SET due_at = NULL, lease_token = NULL, wait = NULL, signal_name = NULL, input = ${toJson(input)}
        WHERE run_id = ${runId} AND step_key = ${loopKey}`);
      later(sql`
        INSERT INTO sluice.loops (run_id, step_key, total, concurrency, started, ended, failed)
        VALUES (${runId}, ${loopKey}, ${total}, ${concurrency}, 0, 0, 0)
        ON CONFLICT (run_id, step_key) DO UPDATE SET total = excluded.total, concurrency = excluded.concurrency,
          started = 0, ended = 0, failed = 0`);
      later(sql`DELETE FROM sluice.loop_items WHERE run_id = ${runId} AND step_key = ${loopKey}`);
    },
    insertItems: (runId, loopKey, { firstIndex, items }) =>
      later(sql`
        INSERT INTO sluice.loop_items (run_id, step_key, first_index, items)
        VALUES (${runId}, ${loopKey}, ${firstIndex}, ${items})`),
    startIteration: (runId, loopKey) =>
      later(sql`UPDATE sluice.loops SET started = started + 1 WHERE run_id = ${runId} AND step_key = ${loopKey}`),
    endIteration: (runId, loopKey, isFailed) =>
      later(sql`
        UPDATE sluice.loops SET ended = ended + 1, failed = failed + ${Number(isFailed)}
        WHERE run_id = ${runId} AND step_key = ${loopKey}`),
    endLoop({ runId, stepKey, status, output, error, at }) {
      later(sql`
        UPDATE sluice.steps SET status = ${status}, output = ${output}, error = ${toJson(error)}, completed_at = ${at}
        WHERE run_id = ${runId} AND step_key = ${stepKey}`);
      later(sql`
        UPDATE sluice.attempts SET status = ${status}, error = ${toJson(error)}, completed_at = ${at}
        WHERE run_id = ${runId} AND step_key = ${stepKey} AND status = 'Running'`);
    },
    uncountIteration: (runId, loopKey, isFailed) =>
      later(sql`
        UPDATE sluice.loops SET ended = ended - 1, failed = failed - ${Number(isFailed)}
        WHERE run_id = ${runId} AND step_key = ${loopKey}`),
  };
}

/** Text of the parsed chunks that stay in memory, over all loops; parsed, they take several times as much. */
const KEPT_CHARACTERS = 8 * 1024 * 1024;

const recentChunks = () => new LRUCache<string, readonly Json[]>({ maxSize: KEPT_CHARACTERS });

const nameOf = ({ runId, loopKey }: Omit<RunIteration, 'index'>, firstIndex: number) =>
  `${runId}/${loopKey}/${firstIndex}`;

/** Reads the items of iterations; an iteration that has none reads as null. Reads nothing where nothing is asked for. */
export function* findItems(
  port: Port,
  iterations: readonly RunIteration[],
): Decision<(iteration: RunIteration) => Json> {
  if (iterations.length === 0) return () => null;
  const given = new Rows(
    iterations.map(({ runId, loopKey, index }, n) => ({ n, run_id: runId, step_key: loopKey, at: index })),
  );
  const firsts = yield* port.all<{ n: number; firstIndex: number | null }>(sql`
    SELECT given.n, (
      SELECT max(i.first_index) FROM sluice.loop_items AS i
      WHERE i.run_id = given.run_id AND i.step_key = given.step_key AND i.first_index <= given.at
    ) AS "firstIndex"
    FROM jsonb_to_recordset(${given}) AS given (n integer, run_id uuid, step_key text, at integer)`);
  const recent = port.kept(recentChunks);
  const chunks = new Map<string, readonly Json[]>();
  const missing = new Map<
    string,
    { readonly run_id: string; readonly step_key: string; readonly first_index: number }
  >();
  const places = new Map<string, { readonly chunk: string; readonly at: number }>();
  for (const { n, firstIndex } of firsts) {
    const iteration = iterations[n];
    if (iteration === undefined || firstIndex === null) continue;
    const { runId, loopKey, index } = iteration;
    const chunk = nameOf(iteration, firstIndex);
    places.set(nameOf(iteration, index), { chunk, at: index - firstIndex });
    const known = recent.get(chunk);
    if (known === undefined) missing.set(chunk, { run_id: runId, step_key: loopKey, first_index: firstIndex });
    else chunks.set(chunk, known);
  }
  for (const { items, ...chunk } of yield* listChunks(port, new Rows([...missing.values()]))) {
    const parsed = parseJson(items) as Json[];
    recent.set(nameOf(chunk, chunk.firstIndex), parsed, { size: items.length });
    chunks.set(nameOf(chunk, chunk.firstIndex), parsed);
  }
  return (iteration) => {
    const place = places.get(nameOf(iteration, iteration.index));
    return (place && chunks.get(place.chunk)?.[place.at]) ?? null;
  };
}

interface Chunk extends Omit<RunIteration, 'index'> {
  readonly firstIndex: number;
  readonly items: string;
}

function* listChunks(port: Port, wanted: Rows): Decision<Chunk[]> {
  if (wanted.rows.length === 0) return [];
  const columns = fixed(`i.run_id AS "runId", i.step_key AS "loopKey", i.first_index AS "firstIndex", i.items`);
  return yield* port.all<Chunk>(sql`
    SELECT ${columns}
    FROM jsonb_to_recordset(${wanted}) AS given (run_id uuid, step_key text, first_index integer)
    /*sqlite: CROSS */ JOIN sluice.loop_items AS i
      ON i.run_id = given.run_id AND i.step_key = given.step_key AND i.first_index = given.first_index`);
}
