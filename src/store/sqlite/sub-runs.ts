import type { Database } from 'better-sqlite3';
import { type Answers, asking } from '../decisions/decision.ts';
import type { FoundRun, ParentStep, RunReads, RunWrites } from '../decisions/rows.ts';
import type { PinRows } from '../decisions/sub-runs.ts';
import type { Pins } from '../store.ts';
import { prepareRevisionOf } from './revisions.ts';

export function prepareFindNewest(db: Database): (flowIds: readonly string[]) => Pins {
  const find = db.prepare<[string], { id: string; revision: number }>(
    'SELECT id, revision FROM flows WHERE id IN (SELECT value FROM json_each(?)) AND draining_since IS NULL',
  );
  return (flowIds) => pinsIn(find.all(JSON.stringify(flowIds)));
}

function pinsIn(rows: readonly { readonly id: string; readonly revision: number }[]): Pins {
  return Object.fromEntries(rows.map(({ id, revision }) => [id, revision]));
}

/** What flows are pinned by as a run is stored. */
export function preparePinRows(db: Database): PinRows {
  return asking<Pick<RunReads, keyof PinRows>>({
    findNewest: prepareFindNewest(db),
    revisionOf: prepareRevisionOf(db),
  });
}

export function prepareInsertPins(db: Database): (runId: string, pins: Pins) => void {
  const insert = db.prepare<[string, string, number]>(
    'INSERT INTO run_pins (run_id, flow_id, revision) VALUES (?, ?, ?)',
  );
  return (runId, pins) => {
    for (const [flowId, revision] of Object.entries(pins)) insert.run(runId, flowId, revision);
  };
}

type ParentRow = Omit<ParentStep, 'isAwaited' | 'isOfFailure'> & {
  readonly isAwaited: number;
  readonly isOfFailure: number;
};

type Read = 'findNewest' | 'findPins' | 'findParent' | 'takeOrphans';

export function prepareSubRunReads(db: Database): Pick<Answers<RunReads>, Read> {
  const listPins = db.prepare<[string], { id: string; revision: number }>(
    'SELECT flow_id AS id, revision FROM run_pins WHERE run_id = ?',
  );
  const findParent = db.prepare<[string], ParentRow>(`
    SELECT parent_run_id AS runId, step_key AS stepKey, is_awaited AS isAwaited, depth,
      root_started_at AS rootStartedAt, is_of_failure AS isOfFailure
    FROM sub_runs WHERE run_id = ?`);
  const listOrphans = db.prepare<[number], FoundRun & { runId: string; seq: number }>(`
    SELECT o.seq, o.run_id AS runId, status, flow_id AS flowId, revision, trigger_type AS triggerType,
      started_at AS startedAt, timeout_at AS timeoutAt, cancel_requested_at AS cancelRequestedAt,
      timed_out_at AS timedOutAt
    FROM orphaned_runs o CROSS JOIN runs r ON r.id = o.run_id ORDER BY o.seq LIMIT ?`);
  const forget = db.prepare('DELETE FROM orphaned_runs WHERE seq = ?');
  return {
    findNewest: prepareFindNewest(db),
    findPins: (runId) => pinsIn(listPins.all(runId)),
    findParent(runId) {
      const row = findParent.get(runId);
      return row && { ...row, isAwaited: row.isAwaited === 1, isOfFailure: row.isOfFailure === 1 };
    },
    takeOrphans: (limit) =>
      listOrphans.all(limit).map(({ seq, ...run }) => {
        forget.run(seq);
        return run;
      }),
  };
}

type Write = 'insertParent' | 'wakeWaiting' | 'orphanSubRuns' | 'markUnordered';

export function prepareSubRunWrites(db: Database): Pick<RunWrites, Write> {
  const insert = db.prepare(`
    INSERT INTO sub_runs (run_id, parent_run_id, step_key, is_awaited, depth, root_started_at, is_of_failure)
    VALUES (?, ?, ?, ?, ?, ?, ?)`);
  const wake = db.prepare(`
    UPDATE steps SET due_at = ? WHERE run_id = ? AND step_key = ? AND status = 'Pending' AND instr(wait, ?) > 0`);
  const orphan = db.prepare(`
    INSERT INTO orphaned_runs (run_id)
    SELECT s.run_id FROM sub_runs s CROSS JOIN runs r ON r.id = s.run_id AND r.status = 'Running'
    WHERE s.parent_run_id = ? AND s.is_awaited = 1`);
  const mark = db.prepare('INSERT OR IGNORE INTO unordered_flows (flow_id) VALUES (?)');
  return {
    insertParent: (id, { runId, stepKey, isAwaited, depth, rootStartedAt, isOfFailure }) =>
      insert.run(id, runId, stepKey, Number(isAwaited), depth, rootStartedAt, Number(isOfFailure)),
    wakeWaiting: ({ runId, stepKey }, subRunId, at) => wake.run(at, runId, stepKey, waitsFor(subRunId)),
    orphanSubRuns: (runId) => orphan.run(runId),
    markUnordered: (flowId) => mark.run(flowId),
  };
}

/** What the wait of a step that waits for this run holds, as it is stored. */
function waitsFor(subRunId: string): string {
  return `"subRun":"${subRunId}"`;
}

/** Has the steps looked at again that wait for runs which an earlier release ended: it told nobody. */
export function prepareWakeForgotten(db: Database): (now: number) => void {
  const wake = db.prepare(`
    UPDATE steps SET due_at = ? WHERE rowid IN (
      SELECT s.rowid FROM steps s
      CROSS JOIN sub_runs c ON c.parent_run_id = s.run_id AND c.step_key = s.step_key
      CROSS JOIN runs r ON r.id = c.run_id AND r.status <> 'Running'
      WHERE s.status = 'Pending' AND s.due_at IS NULL AND instr(s.wait, '"subRun":"' || c.run_id || '"') > 0)`);
  return (now) => void wake.run(now);
}
