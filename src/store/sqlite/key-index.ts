import type { Database } from 'better-sqlite3';
import { type Port, sql } from '../decisions/port.ts';
import type { Job } from './batch.ts';

/**
 * How many runs' search keys enter the index together: 4 ms of the writer's time, and 300 segments for a million runs.
 *
 * Many keys are random, such as the id of a delivery: in one index of all keys each acceptance dirtied a page of its
 * own, and such pages were most of a commit. So keys are only appended, in the order of runs, and enter the index once
 * there are enough: sorted, as a segment that follows the one before. A search looks into each segment.
 */
const SEGMENT_RUNS = 2048;

/** Makes the function that indexes the next segment, if there are enough keys; yields how many runs are left. */
function prepareIndex(db: Database): () => number {
  const measure = db
    .prepare<[], number>(`
      SELECT max(0, coalesce((SELECT max(seq) FROM runs), 0) - coalesce((SELECT max(last_run) FROM run_key_segments), 0))`)
    .pluck();
  const begin = db.prepare<[], { segment: number; after: number }>(
    'SELECT coalesce(max(segment), 0) + 1 AS segment, coalesce(max(last_run), 0) AS after FROM run_key_segments',
  );
  const add = db.prepare(`
    INSERT OR IGNORE INTO run_key_index (segment, folded, run, name)
    SELECT ?, k.value ->> 1, i.seq, k.value ->> 0 FROM run_input_rows i CROSS JOIN json_each(i.search_keys) k
    WHERE i.seq > ? AND i.seq <= ? ORDER BY 2, 3, 4`);
  const end = db.prepare('INSERT INTO run_key_segments (segment, last_run) VALUES (?, ?)');
  const forget = db.prepare(`
    DELETE FROM run_key_segments
    WHERE last_run < (SELECT min(seq) FROM runs) AND segment < (SELECT max(segment) FROM run_key_segments)`);
  return () => {
    const left = measure.get() ?? 0;
    const next = begin.get();
    if (next === undefined || left < SEGMENT_RUNS) return left;
    const last = next.after + SEGMENT_RUNS;
    add.run(next.segment, next.after, last);
    end.run(next.segment, last);
    // A search looks into each segment, also into those whose runs are gone.
    forget.run();
    return left - SEGMENT_RUNS;
  };
}

/** Indexes all full segments, as after a copy; the remaining runs wait for more. */
export function indexAllKeys(db: Database): void {
  const index = db.transaction(prepareIndex(db));
  while (index.immediate() >= SEGMENT_RUNS);
}

/** Makes the function that yields the indexing to do with a batch of this many calls, nearly always none. */
export function prepareKeyIndexing(db: Database): (calls: number) => Job | undefined {
  const index = prepareIndex(db);
  let waiting = SEGMENT_RUNS;
  return (calls) => {
    // Hardly any call starts more than one run.
    waiting += calls;
    if (waiting < SEGMENT_RUNS) return undefined;
    return () => {
      waiting = index();
    };
  };
}

/** Removes runs from the index, before their rows and their keys are removed. */
export function forgetRunKeys({ later }: Port, runIds: readonly string[]): void {
  later(sql`
    DELETE FROM run_key_index WHERE (segment, folded, run, name) IN (
      SELECT (SELECT segment FROM run_key_segments WHERE last_run >= r.seq ORDER BY last_run LIMIT 1), k.folded, r.seq, k.name
      FROM runs r CROSS JOIN run_keys k ON k.run_id = r.id WHERE r.id = ANY (${runIds}))`);
}
