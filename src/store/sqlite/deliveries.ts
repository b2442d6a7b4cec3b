import type { Database } from 'better-sqlite3';
import { HOUR_MS, MINUTE_MS } from '../../model/clock.ts';
import type { DeliveryRecord, Reason } from '../../model/delivery.ts';
import { type SearchKeyRow, searchKeyRows } from '../../model/text.ts';
import { sealedBytes } from '../sealed-body.ts';
import type { DeliveryGroup, DeliveryQuery, TimeSpan } from '../store.ts';
import type { SqlValue } from './columns.ts';
import { type CountedDelivery, prepareCountDelivery } from './figures.ts';
import type { Member } from './messages.ts';
import {
  type Condition,
  filter,
  keysOf,
  preparePages,
  SEARCHED_ROWS,
  type Searchable,
  searchIn,
  toSearchKeys,
} from './paging.ts';

export const deliveryOperations = {
  recordDelivery: { thread: 'writer', prepare: prepareRecordDelivery },
  listDeliveries: { thread: 'reader', readsLog: true, prepare: prepareListDeliveries },
  findDelivery: { thread: 'reader', readsLog: true, prepare: prepareFindDelivery },
  findRedelivery: { thread: 'reader', readsLog: true, prepare: prepareFindRedelivery },
  summariseDeliveries: { thread: 'reader', readsLog: true, prepare: prepareSummariseDeliveries },
} as const;

/** What one row takes with its entries in the indexes, beyond the texts and bytes that are counted one by one. */
export const ROW_BYTES = 1024;

/** A delivery as the values of its row, body apart; see `AcceptanceValues`. */
export interface DeliveryValues extends CountedDelivery {
  readonly violations: readonly Reason[];
  /** The other columns, in the order of the statement that inserts them. */
  readonly rest: readonly SqlValue[];
  readonly keys: readonly SearchKeyRow[];
}

export function deliveryValues(record: DeliveryRecord): DeliveryValues {
  return {
    rejected: record.rejected ? 1 : 0,
    reason: record.reason,
    violations: record.violations,
    runId: record.runId,
    receivedAt: record.receivedAt,
    redeliveredFrom: record.redeliveredFrom ?? null,
    counted: {
      id: record.id,
      flowId: record.flowId,
      triggerKey: record.triggerKey,
      mode: record.mode,
      usedPreviousKey: record.usedPreviousKey ? 1 : 0,
    },
    rest: [
      record.id,
      record.flowId,
      record.triggerKey,
      record.clientIp,
      record.mode,
      record.scheme,
      Number(record.enforced),
      record.statusCode,
      record.detail,
      record.bodyBytes,
      record.processingMs,
      Number(record.usedPreviousKey),
      JSON.stringify(record.headers),
      record.story === undefined ? null : JSON.stringify(record.story),
      record.requestUrl ?? null,
      record.bodyKey ?? null,
    ],
    keys: searchKeyRows(record.searchKeys),
  };
}

type PackedDelivery = ReturnType<typeof packDelivery>;

/** The same as a list, to cross threads. */
export function packDelivery(values: DeliveryValues) {
  const { rejected, reason, violations, runId, receivedAt, redeliveredFrom, counted, rest, keys } = values;
  const { id, flowId, triggerKey, mode, usedPreviousKey } = counted;
  const own = [rejected, reason, violations, runId, receivedAt, redeliveredFrom] as const;
  return [...own, id, flowId, triggerKey, mode, usedPreviousKey, rest, keys] as const;
}

export function unpackDelivery(packed: PackedDelivery): DeliveryValues {
  const [rejected, reason, violations, runId, receivedAt, redeliveredFrom, ...others] = packed;
  const [id, flowId, triggerKey, mode, usedPreviousKey, rest, keys] = others;
  const counted = { id, flowId, triggerKey, mode, usedPreviousKey };
  return { rejected, reason, violations, runId, receivedAt, redeliveredFrom, counted, rest, keys };
}

function prepareRecordDelivery(db: Database): (packed: PackedDelivery, body?: Uint8Array) => void {
  const insert = prepareInsertDelivery(db);
  return (packed, body) => insert(unpackDelivery(packed), body);
}

export function prepareInsertDelivery(db: Database): (delivery: DeliveryValues, body?: Uint8Array) => void {
  const insert = db.prepare<unknown[]>(`
    INSERT INTO deliveries (
      id, flow_id, trigger_key, client_ip, mode, scheme, enforced, status_code, detail, body_bytes, processing_ms,
      used_previous_key, headers, facts, request_url, body_key, received_at, redelivered_from, rejected, reason,
      violations, run_id, body, kept_bytes
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  const insertKeys = prepareInsertKeys(db, 'delivery');
  const count = prepareCountDelivery(db);
  return (delivery, body) => {
    const { rejected, reason, runId, receivedAt, redeliveredFrom, counted, rest, keys } = delivery;
    const violations = JSON.stringify(delivery.violations);
    const own = [receivedAt, redeliveredFrom, rejected, reason, violations, runId];
    const keptBytes = bytesOf(rest) + bytesOf(own) + bytesOf(keys.flat()) + (body?.byteLength ?? 0) + ROW_BYTES;
    insert.run(rest, own, body ?? null, keptBytes);
    insertKeys(counted.id, keys);
    count(delivery, violations, keptBytes);
  };
}

/** Stores the search keys of a run or a delivery. */
export function prepareInsertKeys(
  db: Database,
  owner: 'run' | 'delivery',
): (ownerId: string, keys: readonly SearchKeyRow[]) => void {
  const insert = db.prepare<SqlValue[]>(
    `INSERT INTO ${owner}_keys (${owner}_id, name, folded, value) VALUES (?, ?, ?, ?)`,
  );
  return (ownerId, keys) => {
    for (const key of keys) insert.run(ownerId, ...key);
  };
}

function bytesOf(values: readonly SqlValue[]): number {
  return values.reduce<number>((sum, value) => sum + (typeof value === 'string' ? Buffer.byteLength(value) : 0), 0);
}

/** The body is stored with the run if the delivery started one, or with the held delivery. */
const body = 'coalesce(d.body, r.trigger_body, h.body)';

/** A list has so much of a body; a page of whole bodies could fill the memory. */
const listedBodyBytes = 64 * 1024;
// Of a sealed body, enough to open as much. Only a longer body is cut: SQLite's substr of an empty one is null.
const listed = `iif(d.body_key IS NULL, ${listedBodyBytes}, ${sealedBytes(listedBodyBytes)})`;
const listedBody = `iif(length(${body}) > ${listed}, substr(${body}, 1, ${listed}), ${body})`;

type Optional = 'story' | 'requestUrl' | 'bodyKey' | 'redeliveredFrom' | 'isHeld' | 'searchKeys';

interface DeliveryRow
  extends Omit<DeliveryRecord, 'rejected' | 'enforced' | 'violations' | 'headers' | 'usedPreviousKey' | Optional> {
  readonly rejected: number;
  readonly enforced: number;
  readonly violations: string;
  readonly headers: string;
  readonly usedPreviousKey: number;
  readonly story: string | null;
  readonly requestUrl: string | null;
  readonly bodyKey: string | null;
  readonly redeliveredFrom: string | null;
  readonly isHeld: number;
  readonly searchKeys: string | null;
}

const columns = `
  d.id, d.flow_id AS flowId, d.trigger_key AS triggerKey, d.received_at AS receivedAt, d.client_ip AS clientIp, d.mode,
  d.scheme, d.rejected, d.enforced, d.status_code AS statusCode, d.reason, d.violations, d.detail,
  d.body_bytes AS bodyBytes, d.headers, d.processing_ms AS processingMs, d.run_id AS runId,
  d.used_previous_key AS usedPreviousKey, d.facts AS story, d.request_url AS requestUrl, d.body_key AS bodyKey,
  d.redelivered_from AS redeliveredFrom, h.delivery_id IS NOT NULL AS isHeld,
  coalesce(nullif(${keysOf('delivery', 'd.id')}, '{}'), iif(d.body IS NULL, ${keysOf('run', 'd.run_id')}, NULL)) AS searchKeys`;

const withRun = `
  LEFT JOIN runs r ON d.body IS NULL AND r.id = d.run_id AND r.delivery_id = d.id
  LEFT JOIN held_deliveries h ON d.body IS NULL AND r.id IS NULL AND h.delivery_id = d.id`;

function prepareFindDelivery(db: Database): Member<'findDelivery'> {
  const find = db.prepare<[string], DeliveryRow>(
    `SELECT ${columns}, ${body} AS body FROM deliveries d ${withRun} WHERE d.id = ?`,
  );
  return (id) => {
    const row = find.get(id);
    return row && toDelivery(row);
  };
}

function prepareListDeliveries(db: Database): Member<'listDeliveries'> {
  const pages = preparePages<DeliveryRow, DeliveryRecord>(db, {
    page: `
      SELECT ${columns}, ${listedBody} AS body FROM deliveries d ${withRun}
      WHERE d.id IN (SELECT id FROM deliveries %where% ORDER BY id %order% LIMIT ? OFFSET ?) ORDER BY d.id DESC`,
    table: 'deliveries',
    toItem: toDelivery,
  });
  const countKept = prepareCountKept(db);
  const idsWithin = prepareIdsWithin(db);
  return (query) => {
    const condition = searchIn(searchable, query, [
      idsWithin(query),
      filter.equals('flow_id', query.flowId),
      filter.equals('reason', query.reason),
      filter.holds('rejected = 1', query.rejectedOnly),
      filter.holds('rejected = 0', query.acceptedOnly),
      filter.holds('run_id IS NULL AND status_code >= 400', query.refusedOnly),
      isHeld(query),
      filter.within('received_at', query),
    ]);
    return pages({ query, condition, known: countKept(query) });
  };
}

function isHeld({ heldOnly, flowId }: DeliveryQuery): Condition | undefined {
  if (heldOnly !== true) return undefined;
  const newest = (where: string, order: string) => `id IN (
    SELECT delivery_id FROM held_deliveries WHERE delivery_id IS NOT NULL ${where}
    ORDER BY ${order} DESC LIMIT ${SEARCHED_ROWS})`;
  if (flowId === undefined) return { sql: newest('', 'delivery_id'), values: [] };
  return { sql: newest('AND flow_id = ?', 'seq'), values: [flowId] };
}

/**
 * The ids of the deliveries of a span of time, so that those before and after it are not read. Records older than the
 * counts, which say which ids a minute has, are left to the condition on their time.
 */
function prepareIdsWithin(db: Database): (span: TimeSpan) => Condition | undefined {
  const findOldest = db.prepare<[], { minute: number | null }>('SELECT min(minute) AS minute FROM delivery_counts');
  const find = db.prepare<[number, number], { firstId: string | null; lastId: string | null }>(`
    SELECT min(first_id) AS firstId, max(last_id) AS lastId FROM delivery_counts WHERE minute BETWEEN ? AND ?`);
  return ({ since, until }) => {
    if (since === undefined && until === undefined) return undefined;
    const first = Math.floor((since ?? Number.MIN_SAFE_INTEGER) / MINUTE_MS);
    const last = Math.floor((until ?? Number.MAX_SAFE_INTEGER) / MINUTE_MS);
    const oldest = findOldest.get()?.minute ?? Number.POSITIVE_INFINITY;
    const { firstId = null, lastId = null } = find.get(first, last) ?? {};
    if (first >= oldest && firstId === null) return { sql: '0', values: [] };
    return {
      sql: 'id >= ? AND id <= ?',
      values: [first < oldest || firstId === null ? '' : firstId, last < oldest || lastId === null ? 'g' : lastId],
    };
  };
}

const searchable: Searchable = {
  table: 'deliveries',
  key: 'id',
  order: 'id DESC',
  columns: ['id', 'client_ip', 'scheme', 'reason', 'detail', 'run_id'],
  byId: [
    'SELECT id FROM deliveries WHERE id >= ? AND id < ?',
    'SELECT delivery_id FROM runs WHERE id >= ? AND id < ? AND delivery_id IS NOT NULL',
  ],
  byKey: [
    {
      table: 'delivery_keys',
      select: 'SELECT k.delivery_id FROM delivery_keys k',
      order: 'k.delivery_id',
      own: 'k.delivery_id = newest.id',
    },
    {
      table: 'run_keys',
      select: 'SELECT r.delivery_id FROM run_keys k CROSS JOIN runs r ON r.id = k.run_id AND r.delivery_id IS NOT NULL',
      order: 'k.run_id',
      own: 'k.run_id = newest.run_id',
    },
  ],
  lookUp: '',
};

/** How many records a list has, from counters; undefined if the counters do not distinguish its filters. */
function prepareCountKept(db: Database): (query: DeliveryQuery) => number | undefined {
  const count = db.prepare<SqlValue[], { total: number }>(`
    SELECT coalesce(sum(count), 0) AS total FROM delivery_totals
    WHERE flow_id = coalesce(?, flow_id) AND reason = coalesce(?, reason) AND rejected >= ? AND rejected <= ?`);
  return ({
    flowId,
    reason,
    rejectedOnly,
    acceptedOnly,
    refusedOnly,
    heldOnly,
    since,
    until,
    search = '',
    searchKeys,
  }) => {
    if (refusedOnly === true || heldOnly === true || since !== undefined || until !== undefined) return undefined;
    if (search !== '' || searchKeys !== undefined) return undefined;
    return count.get(flowId ?? null, reason ?? null, Number(rejectedOnly ?? false), Number(acceptedOnly !== true))
      ?.total;
  };
}

function toDelivery(row: DeliveryRow): DeliveryRecord {
  return {
    ...row,
    rejected: row.rejected === 1,
    enforced: row.enforced === 1,
    violations: JSON.parse(row.violations),
    headers: JSON.parse(row.headers),
    usedPreviousKey: row.usedPreviousKey === 1,
    story: row.story === null ? undefined : JSON.parse(row.story),
    requestUrl: row.requestUrl ?? undefined,
    bodyKey: row.bodyKey ?? undefined,
    redeliveredFrom: row.redeliveredFrom ?? undefined,
    isHeld: row.isHeld === 1 ? true : undefined,
    searchKeys: toSearchKeys(row.searchKeys),
  };
}

function prepareFindRedelivery(db: Database): Member<'findRedelivery'> {
  const find = db.prepare<SqlValue[], { deliveryId: string; runId: string }>(
    'SELECT id AS deliveryId, run_id AS runId FROM deliveries WHERE redelivered_from = ?',
  );
  return (id) => find.get(id);
}

function prepareSummariseDeliveries(db: Database): Member<'summariseDeliveries'> {
  const summarise = db.prepare<SqlValue[], Omit<DeliveryGroup, 'violations'> & { violations: string }>(`
    SELECT flow_id AS flowId, trigger_key AS triggerKey, mode, violations, sum(count) AS count,
      min(first_at) AS firstAt, min(first_id) AS firstId, max(last_id) AS lastId
    FROM delivery_hours
    WHERE hour >= ? AND flow_id = coalesce(?, flow_id) AND flow_id <> '' AND redelivered = 0
    GROUP BY flow_id, trigger_key, mode, violations
    ORDER BY min(first_id)`);
  const isKept = db.prepare('SELECT 1 FROM deliveries WHERE id = ?');
  return ({ since, flowId }) =>
    summarise.all(Math.floor(since / HOUR_MS), flowId ?? null).map((row) => ({
      ...row,
      violations: JSON.parse(row.violations),
      // Counts outlive records: a deleted record cannot serve as the example.
      firstId: isKept.get(row.firstId) === undefined ? row.lastId : row.firstId,
    }));
}
