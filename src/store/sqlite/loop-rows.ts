import type { Database } from 'better-sqlite3';
import { LRUCache } from 'lru-cache';
import type { Json } from '../../model/json.ts';
import type { Answers } from '../decisions/decision.ts';
import type { LeafOutput, Leaves, LoopRow, RunReads, RunWrites } from '../decisions/rows.ts';
import { fromJson, toJson } from '../json-columns.ts';

type Read = 'findLoop' | 'findItem' | 'listFailed' | 'measureLeaves' | 'listLeaves' | 'reopenLoop';

export function prepareLoopReads(db: Database): Pick<Answers<RunReads>, Read> {
  const find = db.prepare<[string, string], LoopRow>(
    'SELECT total, concurrency, started, ended, failed FROM loops WHERE run_id = ? AND step_key = ?',
  );
  // "/" is the character after ".".
  const listFailed = db
    .prepare<[string, string, string], string>(`
      SELECT step_key FROM steps WHERE run_id = ? AND step_key >= ? AND step_key < ? AND status = 'Failed'`)
    .pluck();
  return {
    findLoop: (runId, loopKey) => find.get(runId, loopKey),
    findItem: prepareFindItem(db),
    listFailed: (runId, loopKey) => listFailed.iterate(runId, `${loopKey}.`, `${loopKey}/`),
    ...prepareLeafReads(db),
    reopenLoop: prepareReopenLoop(db),
  };
}

type Write = 'insertLoop' | 'insertItems' | 'startIteration' | 'endIteration' | 'endLoop' | 'uncountIteration';

export function prepareLoopWrites(db: Database): Pick<RunWrites, Write> {
  const holdStep = db.prepare(`
    UPDATE steps SET due_at = NULL, lease_token = NULL, wait = NULL, signal_name = NULL, input = ?
    WHERE run_id = ? AND step_key = ?`);
  const insert = db.prepare(
    'INSERT OR REPLACE INTO loops (run_id, step_key, total, concurrency, started, ended, failed) VALUES (?, ?, ?, ?, 0, 0, 0)',
  );
  const forgetItems = db.prepare('DELETE FROM loop_items WHERE run_id = ? AND step_key = ?');
  const insertItems = db.prepare('INSERT INTO loop_items (run_id, step_key, first_index, items) VALUES (?, ?, ?, ?)');
  const start = db.prepare('UPDATE loops SET started = started + 1 WHERE run_id = ? AND step_key = ?');
  const endOne = db.prepare(
    'UPDATE loops SET ended = ended + 1, failed = failed + ? WHERE run_id = ? AND step_key = ?',
  );
  const endStep = db.prepare(`
    UPDATE steps SET status = ?, output = ?, error = ?, completed_at = ? WHERE run_id = ? AND step_key = ?`);
  const endAttempt = db.prepare(`
    UPDATE attempts SET status = ?, error = ?, completed_at = ?
    WHERE run_id = ? AND step_key = ? AND status = 'Running'`);
  const uncount = db.prepare(
    'UPDATE loops SET ended = ended - 1, failed = failed - ? WHERE run_id = ? AND step_key = ?',
  );
  return {
    insertLoop(runId, { loopKey, total, concurrency }, input) {
      holdStep.run(toJson(input), runId, loopKey);
      insert.run(runId, loopKey, total, concurrency);
      forgetItems.run(runId, loopKey);
    },
    insertItems: (runId, loopKey, { firstIndex, items }) => insertItems.run(runId, loopKey, firstIndex, items),
    startIteration: (runId, loopKey) => start.run(runId, loopKey),
    endIteration: (runId, loopKey, isFailed) => endOne.run(Number(isFailed), runId, loopKey),
    endLoop({ runId, stepKey, status, output, error, at }) {
      endStep.run(status, output, toJson(error), at, runId, stepKey);
      endAttempt.run(status, toJson(error), at, runId, stepKey);
    },
    uncountIteration: (runId, loopKey, isFailed) => uncount.run(Number(isFailed), runId, loopKey),
  };
}

/** Text of the parsed chunks that stay in memory, over all loops; parsed, they take several times as much. */
const KEPT_CHARACTERS = 8 * 1024 * 1024;

function prepareFindItem(db: Database): (runId: string, loopKey: string, index: number) => Json {
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

function prepareLeafReads(db: Database): Pick<Answers<RunReads>, 'measureLeaves' | 'listLeaves'> {
  // By key, because other children and nested loops in between may have outputs too.
  const leavesOf = (columns: string) => `
    WITH RECURSIVE iteration (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM iteration WHERE n + 1 < ?)
    SELECT ${columns} FROM iteration CROSS JOIN json_each(?) AS leaf
    CROSS JOIN steps AS s ON s.run_id = ? AND s.step_key = ? || n || '.' || leaf.value
    WHERE s.output IS NOT NULL`;
  const measure = db.prepare<[number, string, string, string], { bytes: number | null }>(
    leavesOf('sum(octet_length(s.output)) AS bytes'),
  );
  const list = db.prepare<[number, string, string, string], LeafOutput>(
    leavesOf('n, leaf.key AS leafIndex, s.output AS output'),
  );
  const request = ({ runId, loopKey, started, keys }: Leaves) =>
    [started, JSON.stringify(keys), runId, `${loopKey}.`] as const;
  return {
    measureLeaves: (leaves) => measure.get(...request(leaves))?.bytes ?? 0,
    listLeaves: (leaves) => list.iterate(...request(leaves)),
  };
}

function prepareReopenLoop(db: Database): (runId: string, loopKey: string) => boolean {
  // A loop that succeeded opens again too: a failure in it may have been handled.
  const reopenStep = db.prepare(`
    UPDATE steps SET status = 'Running', output = NULL, error = NULL, completed_at = NULL
    WHERE run_id = ? AND step_key = ? AND status <> 'Running'`);
  const reopenAttempt = db.prepare(`
    UPDATE attempts SET status = 'Running', error = NULL, completed_at = NULL
    WHERE run_id = ? AND step_key = ? AND attempt = (SELECT attempt_count FROM steps WHERE run_id = ? AND step_key = ?)`);
  return (runId, loopKey) => {
    if (reopenStep.run(runId, loopKey).changes === 0) return false;
    reopenAttempt.run(runId, loopKey, runId, loopKey);
    return true;
  };
}
