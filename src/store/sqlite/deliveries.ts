import type { Database, Statement } from 'better-sqlite3';
import type { DeliveryRecord, DeliveryShare } from '../../model/delivery.ts';
import { type SearchKeyRow, searchKeyRows } from '../../model/text.ts';
import { countDelivery } from '../decisions/counts.ts';
import { decideNow } from '../decisions/decision.ts';
import { boundLog } from '../decisions/removal.ts';
import {
  DELIVERY_COLUMNS,
  deliveryRow,
  placesOf,
  ROW_BYTES,
  type SentValue,
  SHARE_COLUMNS,
  shareRows,
  valuesOf,
} from '../new-rows.ts';
import type { StoreOptions } from './messages.ts';
import { portOf } from './port.ts';

export const deliveryOperations = {
  recordDelivery: { thread: 'writer', prepare: prepareRecordDelivery },
} as const;

/** A delivery as it is sent to the writer, without its body. */
export type SentDelivery = readonly [
  row: readonly SentValue[],
  keys: readonly SearchKeyRow[],
  shares?: readonly DeliveryShare[] | undefined,
];

export const DELIVERY = placesOf(DELIVERY_COLUMNS);

export function sentDelivery(record: DeliveryRecord): SentDelivery {
  const sent = [valuesOf(DELIVERY_COLUMNS, deliveryRow(record)), searchKeyRows(record.searchKeys)] as const;
  return record.shares === undefined ? sent : [...sent, record.shares];
}

function prepareRecordDelivery(db: Database): (sent: SentDelivery, body?: Uint8Array) => void {
  const insert = prepareInsertDelivery(db);
  return (sent, body = undefined) => insert(sent, body ?? null);
}

export function prepareInsertDelivery(db: Database): (sent: SentDelivery, body: Uint8Array | null) => void {
  const insert = db.prepare<unknown[]>(`
    INSERT INTO deliveries (${DELIVERY_COLUMNS.join(', ')}, body, kept_bytes) VALUES (${DELIVERY_COLUMNS.map(() => '?').join(', ')}, ?, ?)`);
  const insertKeys = prepareInsertKeys(db);
  const insertShare = db.prepare<SentValue[]>(
    `INSERT INTO delivery_shares (${SHARE_COLUMNS.join(', ')}) VALUES (${SHARE_COLUMNS.map(() => '?').join(', ')})`,
  );
  const { count } = portOf(db);
  return ([row, keys, shares], body) => {
    const id = row[DELIVERY.id] as string;
    const rowsOfShares = shareRows(id, shares).map((share) => valuesOf(SHARE_COLUMNS, share));
    const keptBytes =
      bytesOf(row) + bytesOf(keys.flat()) + bytesOf(rowsOfShares.flat()) + (body?.byteLength ?? 0) + ROW_BYTES;
    insert.run(row, body, keptBytes);
    insertKeys(id, keys);
    for (const share of rowsOfShares) insertShare.run(...share);
    const delivery = {
      id,
      flowId: row[DELIVERY.flow_id] as string | null,
      triggerKey: row[DELIVERY.trigger_key] as string | null,
      receivedAt: row[DELIVERY.received_at] as number,
      mode: row[DELIVERY.mode] as DeliveryRecord['mode'],
      reason: row[DELIVERY.reason] as DeliveryRecord['reason'],
      rejected: row[DELIVERY.rejected] === 1,
      violations: row[DELIVERY.violations] as string,
      usedPreviousKey: row[DELIVERY.used_previous_key] === 1,
      isRedelivered: row[DELIVERY.redelivered_from] !== null,
      runId: row[DELIVERY.run_id] as string | null,
      outcome: row[DELIVERY.outcome] as string | null,
    };
    countDelivery(count, delivery, keptBytes);
  };
}

/** Stores the search keys of a delivery. */
function prepareInsertKeys(db: Database): (deliveryId: string, keys: readonly SearchKeyRow[]) => void {
  const ofCount: Statement<SentValue[]>[] = [];
  return (deliveryId, keys) => {
    // OR FAIL: otherwise SQLite copies each page first, in case the second key cannot be stored.
    if (keys.length === 0) return;
    ofCount[keys.length] ??= db.prepare<SentValue[]>(
      `INSERT OR FAIL INTO delivery_keys (delivery_id, name, folded, value) VALUES ${keys.map(() => '(?, ?, ?, ?)').join(', ')}`,
    );
    ofCount[keys.length]?.run(...keys.flatMap<SentValue>((key) => [deliveryId, ...key]));
  };
}

function bytesOf(values: readonly SentValue[]): number {
  return values.reduce<number>((sum, value) => sum + (typeof value === 'string' ? Buffer.byteLength(value) : 0), 0);
}

/** Rows deleted in each transaction at the start. */
const CHUNK_ROWS = 500;

/** Keeps the delivery log within its bounds at every commit. */
export function keepLogBounded(
  db: Database,
  { inMemory: includesStarted, maxRows, maxBytes }: StoreOptions['log'],
): void {
  const bounds = { maxRows, maxBytes, includesStarted };
  const trim = (most?: number) => decideNow(boundLog(portOf(db), bounds, most));
  // If the bounds are lower than the last process had, the log is trimmed before any call waits for the writer.
  const trimAtOnce = db.transaction(() => trim(CHUNK_ROWS));
  while (trimAtOnce.immediate());
  portOf(db).counters.add({ undo() {}, write: () => void trim() });
}
