import type { DeliveryRecord } from '../../model/delivery.ts';
import { decide } from '../decisions/decision.ts';
import { boundLog } from '../decisions/removal.ts';
import { NewRows } from './new-rows.ts';
import type { Operations } from './operation.ts';
import type { Sql } from './sql.ts';

export const deliveryOperations: Operations<'recordDelivery'> = {
  recordDelivery: { purpose: 'accept', run: recordDelivery },
};

async function recordDelivery(sql: Sql, record: DeliveryRecord): Promise<void> {
  await recordAll(sql, [record]);
}

/** Stores the records of deliveries that start no run, and keeps the log within its bounds. */
export async function recordAll(sql: Sql, records: readonly DeliveryRecord[]): Promise<'recorded'[]> {
  const rows = new NewRows(sql);
  for (const record of records) {
    rows.addDelivery(record, record.body);
    const { redeliveredFrom: source, id, runId } = record;
    if (source === undefined || runId === null) continue;
    sql.later(
      `INSERT INTO sluice.redeliveries (source, delivery_id, run_id) VALUES ($1, $2, $3)
      ON CONFLICT (source) DO NOTHING`,
      [source, id, runId],
    );
  }
  rows.write();
  if (records.some(({ runId }) => runId === null)) await decide(boundLog(sql.port, sql.bounds.log));
  return records.map(() => 'recorded');
}
