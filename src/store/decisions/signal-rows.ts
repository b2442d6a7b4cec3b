import { fromJson, toJson } from '../json-columns.ts';
import type { Asks } from './decision.ts';
import { type Port, sql } from './port.ts';
import type { RunReads, RunWrites, SignalRow } from './rows.ts';

interface SignalText {
  readonly id: number;
  readonly body: string | null;
  readonly deliveredAt: number;
}

const toSignal = (row: SignalText | undefined): SignalRow | undefined => row && { ...row, body: fromJson(row.body) };

type Read = 'findSignal' | 'takeSignal' | 'awaitKey' | 'hasSignal' | 'findWaiting';

export function signalReads(port: Port): Pick<Asks<RunReads>, Read> {
  return {
    *findSignal({ runId, stepKey }, name, used) {
      const row = yield* port.get<SignalText>(sql`
        SELECT id, body, delivered_at AS "deliveredAt" FROM sluice.signals
        WHERE run_id = ${runId} AND step_key = ${stepKey} AND name = ${name} AND id <> ALL (${used}::bigint[])
        ORDER BY id LIMIT 1`);
      return toSignal(row);
    },
    *takeSignal({ runId, stepKey }, name) {
      const taken = yield* port.run(sql`
        UPDATE sluice.signals SET step_key = ${stepKey} WHERE id = (
          SELECT min(id) FROM sluice.signals WHERE run_id = ${runId} AND name = ${name} AND step_key IS NULL)`);
      return taken > 0;
    },
    *awaitKey(step) {
      return port.answering !== undefined && (yield* port.answering.await(port, step));
    },
    *hasSignal(runId, name) {
      const found = yield* port.get(
        sql`SELECT 1 AS found FROM sluice.signals WHERE run_id = ${runId} AND name = ${name} LIMIT 1`,
      );
      return found !== undefined;
    },
    *findWaiting(runId, name) {
      const row = yield* port.get<{ stepKey: string }>(sql`
        SELECT step_key AS "stepKey" FROM sluice.steps WHERE run_id = ${runId} AND signal_name = ${name}
        ORDER BY started_at, step_key LIMIT 1`);
      return row?.stepKey;
    },
  };
}

export function signalWrites({ later }: Port): Pick<RunWrites, 'insertSignal' | 'wakeStep'> {
  return {
    insertSignal: ({ runId, name, body, at, stepKey }) =>
      later(sql`
        INSERT INTO sluice.signals (run_id, name, body, delivered_at, step_key)
        VALUES (${runId}, ${name}, ${toJson(body)}, ${at}, ${stepKey})`),
    wakeStep: ({ runId, stepKey }, at) =>
      later(sql`
        UPDATE sluice.steps SET due_at = ${at}, signal_name = NULL, limit_at = NULL
        WHERE run_id = ${runId} AND step_key = ${stepKey} AND signal_name IS NOT NULL`),
  };
}
