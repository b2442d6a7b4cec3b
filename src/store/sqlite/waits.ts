import type { Database } from 'better-sqlite3';
import type { Json } from '../../model/json.ts';
import type { ReceivedSignal } from '../store.ts';
import { fromJson } from './json-column.ts';

/** What a waiting step keeps between two looks. */
export interface Wait {
  readonly state: Json;
  /** The signal that is waited for, null for a time alone; absent in rows of earlier releases. */
  readonly name?: string | null;
  /** Signals that this attempt has gone on with, by id; absent in rows of earlier releases. */
  readonly used?: readonly number[];
}

export interface TakenSignal extends ReceivedSignal {
  readonly id: number;
}

/**
 * A signal belongs to the step that took it until that goes on: an attempt gets each at most once, and one that failed or
 * was interrupted leaves it to the next.
 */
export interface SignalsOfStep {
  /** What came for the wait that ended; null where its time came instead. */
  findCame(runId: string, stepKey: string, wait: Wait): TakenSignal | null;
  /** What an attempt has gone on with once it has looked at how its wait ended. */
  listUsed(runId: string, stepKey: string, wait: Wait | null): readonly number[];
  /** Whether one is there for a wait that begins: the step's own of an earlier attempt, else one that nobody took. */
  take(runId: string, stepKey: string, wait: { readonly name: string; readonly used: readonly number[] }): boolean;
}

export function readWait(text: string | null): Wait | null {
  return text === null ? null : (fromJson(text) as unknown as Wait);
}

export function prepareSignalsOfStep(db: Database): SignalsOfStep {
  const columns = 'SELECT id, body, delivered_at AS deliveredAt FROM signals';
  const unused = 'run_id = ? AND step_key = ? AND name = ? AND id NOT IN (SELECT value FROM json_each(?))';
  const find = db.prepare<[string, string, string, string], Row>(`${columns} WHERE ${unused} ORDER BY id LIMIT 1`);
  const findLast = db.prepare<[string, string], Row>(
    `${columns} WHERE run_id = ? AND step_key = ? ORDER BY id DESC LIMIT 1`,
  );
  const listOwn = db.prepare<[string, string], { id: number }>(
    'SELECT id FROM signals WHERE run_id = ? AND step_key = ?',
  );
  const takeFree = db.prepare(`
    UPDATE signals SET step_key = ?
    WHERE id = (SELECT min(id) FROM signals WHERE run_id = ? AND name = ? AND step_key IS NULL)`);

  const findCame: SignalsOfStep['findCame'] = (runId, stepKey, { name, used = [] }) => {
    if (name === null) return null;
    const row =
      name === undefined ? findLast.get(runId, stepKey) : find.get(runId, stepKey, name, JSON.stringify(used));
    return row === undefined ? null : { ...row, body: fromJson(row.body) };
  };
  return {
    findCame,
    listUsed(runId, stepKey, wait) {
      if (wait === null) return [];
      if (wait.used === undefined) return listOwn.all(runId, stepKey).map(({ id }) => id);
      const came = findCame(runId, stepKey, wait);
      return came === null ? wait.used : [...wait.used, came.id];
    },
    take: (runId, stepKey, { name, used }) =>
      find.get(runId, stepKey, name, JSON.stringify(used)) !== undefined ||
      takeFree.run(stepKey, runId, name).changes > 0,
  };
}

interface Row {
  readonly id: number;
  readonly body: string | null;
  readonly deliveredAt: number;
}
