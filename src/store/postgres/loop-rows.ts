import type { Answers } from '../decisions/decision.ts';
import type { LeafOutput, Leaves, LoopRow, RunReads, RunWrites } from '../decisions/rows.ts';
import { toJson } from '../json-columns.ts';
import { findItems } from './loop-items.ts';
import type { Sql, SqlValue, Write } from './sql.ts';

type Read = 'findLoop' | 'findItem' | 'listFailed' | 'measureLeaves' | 'listLeaves' | 'reopenLoop';

// By key, because other children and nested loops in between may have outputs too.
const leavesOf = (columns: string) => `
  SELECT ${columns}
  FROM generate_series(0, $1::integer - 1) AS iteration (n)
  CROSS JOIN unnest($2::text[]) WITH ORDINALITY AS leaf (key, place)
  JOIN sluice.steps s ON s.run_id = $3 AND s.step_key = $4 || n || '.' || leaf.key
  WHERE s.output IS NOT NULL`;

const requestOf = ({ runId, loopKey, started, keys }: Leaves): SqlValue[] => [started, keys, runId, `${loopKey}.`];

export function loopReads(sql: Sql): Pick<Answers<RunReads>, Read> {
  return {
    findLoop: (runId, loopKey) =>
      sql.get<LoopRow>(
        'SELECT total, concurrency, started, ended, failed FROM sluice.loops WHERE run_id = $1 AND step_key = $2',
        [runId, loopKey],
      ),
    async findItem(runId, loopKey, index) {
      const iteration = { runId, loopKey, index };
      return (await findItems(sql, [iteration]))(iteration);
    },
    async listFailed(runId, loopKey) {
      // "/" is the character after ".".
      const rows = await sql.all<{ stepKey: string }>(
        `SELECT step_key AS "stepKey" FROM sluice.steps
        WHERE run_id = $1 AND step_key >= $2 AND step_key < $3 AND status = 'Failed' ORDER BY step_key`,
        [runId, `${loopKey}.`, `${loopKey}/`],
      );
      return rows.map(({ stepKey }) => stepKey);
    },
    async measureLeaves(leaves) {
      const row = await sql.get<{ bytes: number | null }>(
        leavesOf('sum(octet_length(s.output)) AS bytes'),
        requestOf(leaves),
      );
      return row?.bytes ?? 0;
    },
    listLeaves: (leaves) =>
      sql.all<LeafOutput>(leavesOf('n, leaf.place - 1 AS "leafIndex", s.output AS output'), requestOf(leaves)),
    async reopenLoop(runId, loopKey) {
      // A loop that succeeded opens again too: a failure in it may have been handled.
      const reopened = await sql.get(
        `WITH reopened AS (
          UPDATE sluice.steps SET status = 'Running', output = NULL, error = NULL, completed_at = NULL
          WHERE run_id = $1 AND step_key = $2 AND status <> 'Running' RETURNING attempt_count
        ), attempt AS (
          UPDATE sluice.attempts SET status = 'Running', error = NULL, completed_at = NULL
          WHERE run_id = $1 AND step_key = $2 AND attempt = (SELECT attempt_count FROM reopened)
        )
        SELECT 1 FROM reopened`,
        [runId, loopKey],
      );
      return reopened !== undefined;
    },
  };
}

type LoopWrite = 'insertLoop' | 'insertItems' | 'startIteration' | 'endIteration' | 'endLoop' | 'uncountIteration';

const THIS_LOOP = 'WHERE run_id = $1 AND step_key = $2';

export function loopWrites(write: Write): Pick<RunWrites, LoopWrite> {
  return {
    insertLoop(runId, { loopKey, total, concurrency }, input) {
      write(
        `UPDATE sluice.steps SET due_at = NULL, lease_token = NULL, wait = NULL, signal_name = NULL, input = $3
        ${THIS_LOOP}`,
        [runId, loopKey, toJson(input)],
      );
      write(
        `INSERT INTO sluice.loops (run_id, step_key, total, concurrency, started, ended, failed)
        VALUES ($1, $2, $3, $4, 0, 0, 0)
        ON CONFLICT (run_id, step_key) DO UPDATE SET total = excluded.total, concurrency = excluded.concurrency,
          started = 0, ended = 0, failed = 0`,
        [runId, loopKey, total, concurrency],
      );
      write(`DELETE FROM sluice.loop_items ${THIS_LOOP}`, [runId, loopKey]);
    },
    insertItems: (runId, loopKey, { firstIndex, items }) =>
      write('INSERT INTO sluice.loop_items (run_id, step_key, first_index, items) VALUES ($1, $2, $3, $4)', [
        runId,
        loopKey,
        firstIndex,
        items,
      ]),
    startIteration: (runId, loopKey) =>
      write(`UPDATE sluice.loops SET started = started + 1 ${THIS_LOOP}`, [runId, loopKey]),
    endIteration: (runId, loopKey, isFailed) =>
      write(`UPDATE sluice.loops SET ended = ended + 1, failed = failed + $3 ${THIS_LOOP}`, [
        runId,
        loopKey,
        Number(isFailed),
      ]),
    endLoop({ runId, stepKey, status, output, error, at }) {
      write(`UPDATE sluice.steps SET status = $3, output = $4, error = $5, completed_at = $6 ${THIS_LOOP}`, [
        runId,
        stepKey,
        status,
        output,
        toJson(error),
        at,
      ]);
      write(
        `UPDATE sluice.attempts SET status = $3, error = $4, completed_at = $5 ${THIS_LOOP} AND status = 'Running'`,
        [runId, stepKey, status, toJson(error), at],
      );
    },
    uncountIteration: (runId, loopKey, isFailed) =>
      write(`UPDATE sluice.loops SET ended = ended - 1, failed = failed - $3 ${THIS_LOOP}`, [
        runId,
        loopKey,
        Number(isFailed),
      ]),
  };
}
