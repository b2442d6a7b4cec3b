import { MINUTE_MS } from '../../model/clock.ts';
import type { DeliveryRecord, DeliveryShare } from '../../model/delivery.ts';
import { readGateResults } from '../new-rows.ts';
import { sealedBytes } from '../sealed-body.ts';
import type { DeliveryFilter, DeliveryQuery, TimeSpan } from '../store.ts';
import { columnsOf, selectedAs } from '../tables.ts';
import { uuidOf } from '../uuids.ts';
import type { Decision } from './decision.ts';
import {
  all,
  filter,
  keysOf,
  type ListKeys,
  type RowsRequest,
  readPage,
  rowsOf,
  SEARCHED_ROWS,
  toSearchKeys,
} from './lists.ts';
import { fixed, type KeyIndex, type Port, type Query, sql } from './port.ts';
import { inputOf, PLACE_OF_RUN } from './runs.ts';
import type { Answer, Verbs } from './verb.ts';

const place = fixed(PLACE_OF_RUN);

/** The run has the body if the delivery started or joined one, else a held delivery: the first of several flows. */
const body = 'coalesce(own.body, i.body, j.body, h.body)';

/** How much of a body a list has; a page of whole bodies could fill the memory. */
const listedBodyBytes = 64 * 1024;
// Of a sealed body, enough bytes to open as much.
const listed = `CASE WHEN own.body_key IS NULL THEN ${listedBodyBytes} ELSE ${sealedBytes(listedBodyBytes)} END`;
// Only a longer body is cut: SQLite's substr of an empty one is null.
const listedBody = `CASE WHEN octet_length(${body}) > ${listed} THEN substr(${body}, 1, ${listed}) ELSE ${body} END`;

/** A selected record: absent fields are null, and some fields are JSON text. */
type DeliveryRow = {
  readonly [Field in keyof DeliveryRecord]-?: Field extends 'violations' | 'headers'
    ? string
    : Field extends 'gateResults' | 'searchKeys' | 'shares'
      ? string | null
      : undefined extends DeliveryRecord[Field]
        ? Exclude<DeliveryRecord[Field], undefined> | null
        : DeliveryRecord[Field];
};

const plainColumns = selectedAs('own', columnsOf('deliveries', { without: ['headers', 'kept_bytes', 'body'] }));

const selectWith = (body: string) =>
  sql`${fixed(`SELECT ${plainColumns}, coalesce(own.headers, i.headers, h.headers, '{}') AS headers,
    (h.delivery_id IS NOT NULL)::boolean AS "isHeld",
    (SELECT s.status FROM sluice.runs AS s WHERE s.id = own.run_id) AS "runStatus",
    coalesce(nullif(${keysOf('delivery', 'own.id')}, '{}'),
      CASE WHEN own.body IS NULL AND coalesce(own.outcome, '') <> 'coalesced' THEN ${keysOf('run', 'own.run_id')} END)
      AS "searchKeys",
    (SELECT json_agg(json_build_array /*sqlite instead: json_array*/(s.flow_id, s.trigger_key, s.run_id, s.outcome) ORDER BY s.place)::text
      FROM sluice.delivery_shares AS s WHERE s.delivery_id = own.id) AS shares,
    ${body} AS body
  FROM sluice.deliveries AS own
  LEFT JOIN sluice.runs AS r ON own.body IS NULL AND r.id = own.run_id AND r.delivery_id = own.id
  LEFT JOIN ${inputOf('r')}
  LEFT JOIN sluice.run_deliveries AS j ON own.outcome = 'coalesced' AND j.run_id = own.run_id AND j.delivery_id = own.id
  LEFT JOIN sluice.held_deliveries AS h ON own.body IS NULL AND r.id IS NULL AND h.seq = (
    SELECT min(o.seq) FROM sluice.held_deliveries AS o WHERE o.delivery_id = own.id)`)}`;

const selectWhole = selectWith(body);

function toDelivery(row: DeliveryRow): DeliveryRecord {
  return {
    ...row,
    violations: JSON.parse(row.violations),
    headers: JSON.parse(row.headers),
    gateResults: row.gateResults === null ? undefined : readGateResults(row.gateResults),
    requestUrl: row.requestUrl ?? undefined,
    bodyKey: row.bodyKey ?? undefined,
    redeliveredFrom: row.redeliveredFrom ?? undefined,
    outcome: row.outcome ?? undefined,
    isHeld: row.isHeld ? true : undefined,
    runStatus: row.runStatus ?? undefined,
    searchKeys: toSearchKeys(row.searchKeys),
    shares: toShares(row.shares),
  };
}

type ShareValues = [string, string, string | null, DeliveryShare['outcome']];

/** Without shares, one database yields null and the other an empty list. */
function toShares(text: string | null): DeliveryShare[] | undefined {
  if (text === null || text === '[]') return undefined;
  const shares = JSON.parse(text) as ShareValues[];
  return shares.map(([flowId, triggerKey, runId, outcome]) => ({ flowId, triggerKey, runId, outcome }));
}

/** Search keys of deliveries and of this store's runs. With `ofSeen`, keys of other flows' deliveries find nothing. */
const keysWith = (runKeys: readonly KeyIndex[], ofSeen: Query | undefined): ListKeys[] => [
  {
    table: 'sluice.delivery_keys',
    owner: 'k.delivery_id',
    newest: 'k.delivery_id DESC',
    any: 'k.folded',
    follow: (deliveryIds) =>
      ofSeen === undefined
        ? deliveryIds
        : sql`SELECT id FROM sluice.deliveries WHERE id = ANY (ARRAY(${deliveryIds})) ${ofSeen}`,
    own: 'sluice.delivery_keys AS k WHERE k.delivery_id = newest.id',
  },
  ...runKeys.map((keys) => ({
    ...keys,
    follow: (runs: Query) =>
      sql`SELECT delivery_id FROM sluice.runs WHERE delivery_id IS NOT NULL AND ${place} = ANY (ARRAY(${runs})) ${ofSeen ?? sql``}`,
    own: 'sluice.run_keys AS k WHERE k.run_id = newest.run_id',
  })),
];

function listingWith(runKeys: readonly KeyIndex[], { flowIds }: DeliveryFilter) {
  const ofSeen = flowIds && sql`AND flow_id = ANY (${flowIds})`;
  return {
    table: 'sluice.deliveries',
    select: selectWith(listedBody),
    searched: {
      time: 'received_at',
      texts: ['client_ip', 'trigger_key', 'scheme', 'reason', 'detail'],
      ids: ['id', 'run_id'],
      byId: [
        (from: string, to: string) => sql`SELECT id FROM sluice.deliveries WHERE id BETWEEN ${from} AND ${to}`,
        (from: string, to: string) =>
          sql`SELECT delivery_id FROM sluice.runs WHERE id BETWEEN ${from} AND ${to} AND delivery_id IS NOT NULL ${ofSeen ?? sql``}`,
      ],
      byKey: keysWith(runKeys, ofSeen),
    },
    toItem: toDelivery,
  };
}

function isHeld({ heldOnly, flowId, flowIds }: DeliveryFilter): Query | undefined {
  if (heldOnly !== true) return undefined;
  const newest = fixed(String(SEARCHED_ROWS));
  const ofSome = all(sql`delivery_id IS NOT NULL`, filter.among('flow_id', flowIds));
  return flowId === undefined
    ? sql`id IN (
        SELECT delivery_id FROM sluice.held_deliveries WHERE ${ofSome} ORDER BY delivery_id DESC LIMIT ${newest})`
    : sql`id IN (
        SELECT delivery_id FROM sluice.held_deliveries WHERE delivery_id IS NOT NULL AND flow_id = ${flowId}
        ORDER BY seq DESC LIMIT ${newest})`;
}

/**
 * The ids of the deliveries in a span of time, so that others are not read. The counts say which ids a minute has; for
 * records older than the counts, only the condition on their time applies.
 */
export function* idsWithin(port: Port, { since, until }: TimeSpan): Decision<Query | undefined> {
  if (since === undefined && until === undefined) return undefined;
  const first = Math.floor((since ?? Number.MIN_SAFE_INTEGER) / MINUTE_MS);
  const last = Math.floor((until ?? Number.MAX_SAFE_INTEGER) / MINUTE_MS);
  const found = yield* port.get<{ oldest: number | null; firstId: string | null; lastId: string | null }>(
    // PostgreSQL compares UUIDs, but has no `min` for them.
    sql`
      SELECT (SELECT min(minute) FROM sluice.delivery_counts) AS oldest,
        min(first_id::text COLLATE "C") AS "firstId", max(last_id::text COLLATE "C") AS "lastId"
      FROM sluice.delivery_counts WHERE minute BETWEEN ${first} AND ${last}`,
  );
  const { oldest = null, firstId = null, lastId = null } = found ?? {};
  const isCounted = (minute: number) => oldest !== null && minute >= oldest;
  if (isCounted(first) && firstId === null) return sql`false`;
  const from = isCounted(first) && firstId !== null ? firstId : LEAST_ID;
  const to = isCounted(last) && lastId !== null ? lastId : GREATEST_ID;
  return sql`id >= ${from} AND id <= ${to}`;
}

const LEAST_ID = '00000000-0000-0000-0000-000000000000';
const GREATEST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

function* listDeliveries(port: Port, query: DeliveryQuery): Decision<Answer<'listDeliveries'>> {
  const known = (yield* isShared(port, query)) ? undefined : yield* countKept(port, query);
  return yield* readPage(port, listingWith(port.runKeys, query), { ...(yield* requestOf(port, query)), query, known });
}

/** Whether records of other flows also belong to this one: then its own index does not find all. */
function* isShared(port: Port, { flowId, flowIds }: DeliveryFilter): Decision<boolean> {
  const of = flowId === undefined ? flowIds : [flowId];
  if (of === undefined) return false;
  const shared = yield* port.get(
    sql`SELECT 1 AS one FROM sluice.delivery_shares WHERE flow_id = ANY (${of}) AND place > 0 LIMIT 1`,
  );
  return shared !== undefined;
}

/**
 * Records of deliveries to the requested flow, and to one of the visible flows. Texts and outcome of a record belong to
 * its own flow: callers who may not see that flow find nothing by them.
 */
function ofFlows(query: DeliveryFilter, isShared: boolean): Query[] {
  const { flowId, flowIds, search = '', outcome } = query;
  const shared = (isOne: Query) => sql`flow_id ${isOne} OR id IN (
    SELECT delivery_id FROM sluice.delivery_shares WHERE flow_id ${isOne} AND place > 0)`;
  const isOfOwn = search !== '' || outcome !== undefined;
  const [asked, seen] = [flowId === undefined ? undefined : sql`= ${flowId}`, flowIds && sql`= ANY (${flowIds})`];
  return [
    ...(asked === undefined ? [] : [isShared ? shared(asked) : sql`flow_id ${asked}`]),
    ...(seen === undefined ? [] : [isShared && !isOfOwn ? shared(seen) : sql`flow_id ${seen}`]),
  ];
}

/** The request for the deliveries that match a filter. */
function* requestOf(port: Port, query: DeliveryFilter): Decision<RowsRequest> {
  return {
    search: query.search,
    searchKeys: query.searchKeys,
    filters: [
      yield* idsWithin(port, query),
      ...ofFlows(query, yield* isShared(port, query)),
      filter.equals('reason', query.reason),
      // Written exactly as in its index.
      filter.holds('rejected /*sqlite: = 1 */', query.rejectedOnly),
      filter.holds('rejected = false', query.acceptedOnly),
      filter.holds('run_id IS NULL AND outcome IS NULL AND status_code >= 400', query.refusedOnly),
      filter.equals('outcome', query.outcome),
      isHeld(query),
      filter.within('received_at', query),
    ],
  };
}

/** The deliveries that match a filter, as text after FROM: rows called `found`, with each id as `place`. */
export function* matchingDeliveries(port: Port, query: DeliveryFilter): Decision<Query> {
  return rowsOf(listingWith(port.runKeys, query), yield* requestOf(port, query));
}

/** Whether counts distinguish the criteria of a filter, except its time. */
export function countsDeliveries({ refusedOnly, heldOnly, outcome, search = '', searchKeys }: DeliveryFilter): boolean {
  const isFlagged = refusedOnly === true || heldOnly === true || outcome !== undefined;
  return !isFlagged && search === '' && searchKeys === undefined;
}

/** How many records a list has, from counters; undefined if the counters do not distinguish its filters. */
function* countKept(port: Port, query: DeliveryQuery): Decision<number | undefined> {
  const { flowId = null, flowIds, reason = null, rejectedOnly = false, acceptedOnly = false, since, until } = query;
  if (!countsDeliveries(query) || since !== undefined || until !== undefined) return undefined;
  const ofAll = sql`flow_id = coalesce(${flowId}, flow_id) AND reason = coalesce(${reason}, reason)
      AND (rejected OR NOT ${rejectedOnly}) AND (NOT rejected OR NOT ${acceptedOnly})`;
  const row = yield* port.get<{ total: number }>(sql`
    SELECT coalesce(sum(count), 0) AS total FROM sluice.delivery_totals
    WHERE ${all(ofAll, filter.among('flow_id', flowIds))}`);
  return row?.total;
}

type DeliveryReads = Verbs<'listDeliveries' | 'findDelivery'>;

export const deliveryVerbs: DeliveryReads = {
  listDeliveries: { access: 'log', decide: (port, query) => listDeliveries(port, query) },
  findDelivery: {
    access: 'log',
    *decide(port, id) {
      const row = yield* port.get<DeliveryRow>(sql`${selectWhole} WHERE own.id = ${uuidOf(id)}`);
      return row && toDelivery(row);
    },
  },
};
