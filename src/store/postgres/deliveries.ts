import { HOUR_MS, MINUTE_MS } from '../../model/clock.ts';
import type { DeliveryRecord } from '../../model/delivery.ts';
import { sealedBytes } from '../sealed-body.ts';
import type { DeliveryGroup, DeliveryQuery, Page, TimeSpan } from '../store.ts';
import { NewRows } from './new-rows.ts';
import type { Answer, Given, Operations } from './operation.ts';
import { type Condition, filter, keyFilters, keysOf, readPage, SEARCHED_ROWS, toSearchKeys } from './paging.ts';
import { boundLog } from './removal.ts';
import type { Sql } from './sql.ts';
import { uuidOf } from './uuids.ts';

export const deliveryOperations: Operations<
  'recordDelivery' | 'listDeliveries' | 'findDelivery' | 'findRedelivery' | 'summariseDeliveries'
> = {
  recordDelivery: { lane: 'accept', run: recordDelivery },
  listDeliveries: { lane: 'read', run: listDeliveries },
  findDelivery: { lane: 'read', run: findDelivery },
  findRedelivery: { lane: 'read', run: findRedelivery },
  summariseDeliveries: { lane: 'read', run: summariseDeliveries },
};

async function recordDelivery(sql: Sql, record: DeliveryRecord): Promise<void> {
  await recordAll(sql, [record]);
}

/** Stores the records of deliveries that start no run, and keeps the log within its bounds. */
export async function recordAll(sql: Sql, records: readonly DeliveryRecord[]): Promise<'recorded'[]> {
  const rows = new NewRows();
  for (const record of records) {
    rows.addDelivery(record, record.body);
    const { redeliveredFrom: source, id, runId } = record;
    if (source !== undefined && runId !== null) await claimRedelivery(sql, { source, deliveryId: id, runId });
  }
  rows.write(sql);
  if (records.some(({ runId }) => runId === null)) await boundLog(sql);
  return records.map(() => 'recorded');
}

/** Yields the run of the delivery that repeats the source: this one, unless another came first. */
export async function claimRedelivery(
  sql: Sql,
  { source, deliveryId, runId }: { source: string; deliveryId: string; runId: string },
): Promise<string> {
  return claimRow(() =>
    sql.get<{ runId: string }>(
      `WITH claimed AS (
        INSERT INTO sluice.redeliveries (source, delivery_id, run_id) VALUES ($1, $2, $3)
        ON CONFLICT (source) DO NOTHING RETURNING run_id
      )
      SELECT run_id AS "runId" FROM claimed
      UNION ALL SELECT run_id FROM sluice.redeliveries WHERE source = $1`,
      [source, deliveryId, runId],
    ),
  );
}

/**
 * Asks until there is an answer. A statement does not see a row that it waited for; the next one does, or finds that it
 * was deleted since and claims it.
 */
export async function claimRow(ask: () => Promise<{ readonly runId: string } | undefined>): Promise<string> {
  for (;;) {
    const row = await ask();
    if (row !== undefined) return row.runId;
  }
}

/** The body is stored with the run if the delivery started one, or with the held delivery. */
const body = 'coalesce(own.body, r.trigger_body, h.body)';

/** A list has so much of a body; a page of whole bodies could fill the memory. */
const listedBodyBytes = 64 * 1024;
// Of a sealed body, enough to open as much.
const listed = `CASE WHEN own.body_key IS NULL THEN ${listedBodyBytes} ELSE ${sealedBytes(listedBodyBytes)} END`;

type Optional = 'story' | 'requestUrl' | 'bodyKey' | 'redeliveredFrom' | 'isHeld' | 'searchKeys';

interface DeliveryRow extends Omit<DeliveryRecord, 'violations' | 'headers' | Optional> {
  readonly violations: string;
  readonly headers: string;
  readonly story: string | null;
  readonly requestUrl: string | null;
  readonly bodyKey: string | null;
  readonly redeliveredFrom: string | null;
  readonly isHeld: boolean;
  readonly searchKeys: string | null;
}

const columns = `
  own.id, own.flow_id AS "flowId", own.trigger_key AS "triggerKey", own.received_at AS "receivedAt",
  own.client_ip AS "clientIp", own.mode, own.scheme, own.rejected, own.enforced, own.status_code AS "statusCode",
  own.reason, own.violations, own.detail, own.body_bytes AS "bodyBytes", own.headers,
  own.processing_ms AS "processingMs", own.run_id AS "runId", own.used_previous_key AS "usedPreviousKey", own.story,
  own.request_url AS "requestUrl", own.body_key AS "bodyKey", own.redelivered_from AS "redeliveredFrom",
  h.delivery_id IS NOT NULL AS "isHeld",
  coalesce(${keysOf('delivery', 'own.id')}, CASE WHEN own.body IS NULL THEN ${keysOf('run', 'own.run_id')} END)
    AS "searchKeys"`;

const withRun = `
  LEFT JOIN sluice.runs r ON own.body IS NULL AND r.id = own.run_id AND r.delivery_id = own.id
  LEFT JOIN sluice.held_deliveries h ON own.body IS NULL AND r.id IS NULL AND h.delivery_id = own.id`;

async function findDelivery(sql: Sql, id: string): Promise<DeliveryRecord | undefined> {
  const row = await sql.get<DeliveryRow>(
    `SELECT ${columns}, ${body} AS body FROM sluice.deliveries own ${withRun} WHERE own.id = $1`,
    [uuidOf(id)],
  );
  return row && toDelivery(row);
}

const byKey = [
  {
    table: 'sluice.delivery_keys',
    owner: 'delivery_id',
    follow: (deliveryIds: string) => deliveryIds,
    own: 'k.delivery_id = newest.id',
  },
  {
    table: 'sluice.run_keys',
    owner: 'run_id',
    follow: (runIds: string) =>
      `SELECT delivery_id FROM sluice.runs WHERE delivery_id IS NOT NULL AND id = ANY(ARRAY(${runIds}))`,
    own: 'k.run_id = newest.run_id',
  },
];

const listing = {
  table: 'deliveries',
  order: ['id'],
  select: `SELECT ${columns}, substring(${body} FROM 1 FOR ${listed}) AS body FROM sluice.deliveries own ${withRun}`,
  searched: {
    texts: ['client_ip', 'scheme', 'reason', 'detail'],
    ids: ['id', 'run_id'],
    byId: [
      (from: string, to: string) => `SELECT id FROM sluice.deliveries WHERE id BETWEEN ${from} AND ${to}`,
      (from: string, to: string) =>
        `SELECT delivery_id FROM sluice.runs WHERE id BETWEEN ${from} AND ${to} AND delivery_id IS NOT NULL`,
    ],
    byKey,
  },
  toItem: toDelivery,
};

function isHeld({ heldOnly, flowId }: DeliveryQuery): Condition | undefined {
  if (heldOnly !== true) return undefined;
  return (bind) => `id IN (
    SELECT delivery_id FROM sluice.held_deliveries
    WHERE delivery_id IS NOT NULL AND (${bind(flowId ?? null)}::text IS NULL OR flow_id = ${bind(flowId ?? null)}) ORDER BY seq DESC LIMIT ${SEARCHED_ROWS})`;
}

/**
 * The ids of the deliveries of a span of time, so that those before and after it are not read. Records older than the
 * counts, which say which ids a minute has, are left to the condition on their time.
 */
async function idsWithin(sql: Sql, { since, until }: TimeSpan): Promise<Condition | undefined> {
  if (since === undefined && until === undefined) return undefined;
  const first = Math.floor((since ?? Number.MIN_SAFE_INTEGER) / MINUTE_MS);
  const last = Math.floor((until ?? Number.MAX_SAFE_INTEGER) / MINUTE_MS);
  const found = await sql.get<{ oldest: number | null; firstId: string | null; lastId: string | null }>(
    // PostgreSQL compares UUIDs, but has no least one of a group.
    `SELECT (SELECT min(minute) FROM sluice.delivery_counts) AS oldest,
      min(first_id::text COLLATE "C") AS "firstId", max(last_id::text COLLATE "C") AS "lastId"
    FROM sluice.delivery_counts WHERE minute BETWEEN $1 AND $2`,
    [first, last],
  );
  const { oldest = null, firstId = null, lastId = null } = found ?? {};
  const isCounted = (minute: number) => oldest === null || minute >= oldest;
  if (isCounted(first) && firstId === null) return () => 'false';
  const from = isCounted(first) && firstId !== null ? firstId : LEAST_ID;
  const to = isCounted(last) && lastId !== null ? lastId : GREATEST_ID;
  return (bind) => `id >= ${bind(from)} AND id <= ${bind(to)}`;
}

const LEAST_ID = '00000000-0000-0000-0000-000000000000';
const GREATEST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

async function listDeliveries(sql: Sql, query: DeliveryQuery): Promise<Page<DeliveryRecord>> {
  return readPage<DeliveryRow, DeliveryRecord>(sql, listing, {
    query,
    search: query.search,
    known: await countKept(sql, query),
    filters: [
      await idsWithin(sql, query),
      filter.equals('flow_id', query.flowId),
      filter.equals('reason', query.reason),
      filter.holds('rejected', query.rejectedOnly),
      filter.holds('NOT rejected', query.acceptedOnly),
      filter.holds('run_id IS NULL AND status_code >= 400', query.refusedOnly),
      isHeld(query),
      filter.within('received_at', query),
      ...keyFilters(byKey, query.searchKeys),
    ],
  });
}

/** How many records a list has, from counters; undefined if the counters do not distinguish its filters. */
async function countKept(sql: Sql, query: DeliveryQuery): Promise<number | undefined> {
  const { flowId, reason, rejectedOnly, acceptedOnly, search = '', searchKeys } = query;
  const { refusedOnly, heldOnly, since, until } = query;
  if (refusedOnly === true || heldOnly === true || since !== undefined || until !== undefined) return undefined;
  if (search !== '' || searchKeys !== undefined) return undefined;
  const row = await sql.get<{ total: number }>(
    `SELECT coalesce(sum(count), 0) AS total FROM sluice.delivery_totals
    WHERE ($1::text IS NULL OR flow_id = $1) AND ($2::text IS NULL OR reason = $2)
      AND (rejected OR NOT $3) AND (NOT rejected OR NOT $4)`,
    [flowId ?? null, reason ?? null, rejectedOnly === true, acceptedOnly === true],
  );
  return row?.total;
}

function toDelivery(row: DeliveryRow): DeliveryRecord {
  return {
    ...row,
    violations: JSON.parse(row.violations),
    headers: JSON.parse(row.headers),
    story: row.story === null ? undefined : JSON.parse(row.story),
    requestUrl: row.requestUrl ?? undefined,
    bodyKey: row.bodyKey ?? undefined,
    redeliveredFrom: row.redeliveredFrom ?? undefined,
    isHeld: row.isHeld ? true : undefined,
    searchKeys: toSearchKeys(row.searchKeys),
  };
}

async function findRedelivery(sql: Sql, deliveryId: string): Promise<Answer<'findRedelivery'>> {
  return sql.get<{ deliveryId: string; runId: string }>(
    'SELECT delivery_id AS "deliveryId", run_id AS "runId" FROM sluice.redeliveries WHERE source = $1',
    [uuidOf(deliveryId)],
  );
}

async function summariseDeliveries(
  sql: Sql,
  { since, flowId }: Given<'summariseDeliveries'>,
): Promise<DeliveryGroup[]> {
  const rows = await sql.all<Omit<DeliveryGroup, 'violations'> & { violations: string }>(
    `SELECT g.flow_id AS "flowId", g.trigger_key AS "triggerKey", g.mode, g.violations, g.count,
      g.first_at AS "firstAt", coalesce(d.id, g.last_id) AS "firstId", g.last_id AS "lastId"
    FROM (
      SELECT flow_id, trigger_key, mode, violations, sum(count) AS count, min(first_at) AS first_at,
        -- PostgreSQL compares UUIDs, but has no least one of a group.
        min(first_id::text COLLATE "C")::uuid AS first_id, max(last_id::text COLLATE "C")::uuid AS last_id
      FROM sluice.delivery_hours
      WHERE hour >= $1 AND ($2::text IS NULL OR flow_id = $2) AND flow_id <> '' AND NOT redelivered
      GROUP BY flow_id, trigger_key, mode, violations
    ) AS g
    -- Counts outlive records: a deleted record cannot serve as the example.
    LEFT JOIN sluice.deliveries d ON d.id = g.first_id
    ORDER BY g.first_id`,
    [Math.floor(since / HOUR_MS), flowId ?? null],
  );
  return rows.map((row) => ({ ...row, violations: JSON.parse(row.violations) }));
}
