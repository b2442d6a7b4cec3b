import type { Answers } from '../decisions/decision.ts';
import type { RunReads, RunWrites, SignalRow } from '../decisions/rows.ts';
import { fromJson, toJson } from '../json-columns.ts';
import type { Sql, Write } from './sql.ts';

interface SignalText {
  readonly id: number;
  readonly body: string | null;
  readonly deliveredAt: number;
}

const toSignal = (row: SignalText | undefined): SignalRow | undefined => row && { ...row, body: fromJson(row.body) };

const COLUMNS = 'SELECT id, body, delivered_at AS "deliveredAt" FROM sluice.signals';

type Read = 'findSignal' | 'findLastSignal' | 'listSignals' | 'takeSignal' | 'hasSignal' | 'findWaiting';

export function signalReads(sql: Sql): Pick<Answers<RunReads>, Read> {
  return {
    async findSignal({ runId, stepKey }, name, used) {
      const row = await sql.get<SignalText>(
        `${COLUMNS} WHERE run_id = $1 AND step_key = $2 AND name = $3 AND id <> ALL ($4::bigint[]) ORDER BY id LIMIT 1`,
        [runId, stepKey, name, used],
      );
      return toSignal(row);
    },
    async findLastSignal({ runId, stepKey }) {
      const row = await sql.get<SignalText>(`${COLUMNS} WHERE run_id = $1 AND step_key = $2 ORDER BY id DESC LIMIT 1`, [
        runId,
        stepKey,
      ]);
      return toSignal(row);
    },
    async listSignals({ runId, stepKey }) {
      const rows = await sql.all<{ id: number }>(
        'SELECT id FROM sluice.signals WHERE run_id = $1 AND step_key = $2 ORDER BY id',
        [runId, stepKey],
      );
      return rows.map(({ id }) => id);
    },
    async takeSignal({ runId, stepKey }, name) {
      const taken = await sql.run(
        `UPDATE sluice.signals SET step_key = $3
        WHERE id = (SELECT min(id) FROM sluice.signals WHERE run_id = $1 AND name = $2 AND step_key IS NULL)`,
        [runId, name, stepKey],
      );
      return taken > 0;
    },
    async hasSignal(runId, name) {
      const row = await sql.get<{ has: boolean }>(
        'SELECT EXISTS (SELECT FROM sluice.signals WHERE run_id = $1 AND name = $2) AS has',
        [runId, name],
      );
      return row?.has === true;
    },
    async findWaiting(runId, name) {
      const row = await sql.get<{ stepKey: string }>(
        `SELECT step_key AS "stepKey" FROM sluice.steps WHERE run_id = $1 AND signal_name = $2
        ORDER BY started_at, step_key LIMIT 1`,
        [runId, name],
      );
      return row?.stepKey;
    },
  };
}

export function signalWrites(write: Write): Pick<RunWrites, 'insertSignal' | 'wakeStep'> {
  return {
    insertSignal: ({ runId, name, body, at, stepKey }) =>
      write('INSERT INTO sluice.signals (run_id, name, body, delivered_at, step_key) VALUES ($1, $2, $3, $4, $5)', [
        runId,
        name,
        toJson(body),
        at,
        stepKey,
      ]),
    wakeStep: ({ runId, stepKey }, at) =>
      write(
        `UPDATE sluice.steps SET due_at = $3, signal_name = NULL, limit_at = NULL
        WHERE run_id = $1 AND step_key = $2 AND signal_name IS NOT NULL`,
        [runId, stepKey, at],
      ),
  };
}
