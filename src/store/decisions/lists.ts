import { readSearchKey, type SearchKeys } from '../../model/search-keys.ts';
import { endOfPrefix, foldSearchValue } from '../../model/text.ts';
import type { Page, PageQuery, TimeSpan } from '../store.ts';
import { uuidRange } from '../uuids.ts';
import type { Decision } from './decision.ts';
import { type FixedText, fixed, joined, type KeyIndex, type Port, type Query, sql } from './port.ts';

/** Conditions of a list's filters; undefined if the filter is not given. */
export const filter = {
  equals: (column: string, value: string | null | undefined): Query | undefined =>
    value === undefined ? undefined : sql`${fixed(column)} = ${value}`,
  among: (column: string, values: readonly string[] | undefined): Query | undefined =>
    values === undefined ? undefined : sql`${fixed(column)} = ANY (${values})`,
  within: (column: string, { since, until }: TimeSpan): Query | undefined => {
    if (since === undefined && until === undefined) return undefined;
    const [from, to] = [since ?? Number.MIN_SAFE_INTEGER, until ?? Number.MAX_SAFE_INTEGER];
    return sql`${fixed(column)} >= ${from} AND ${fixed(column)} < ${to}`;
  },
  holds: (condition: string, isWanted: boolean | undefined): Query | undefined =>
    isWanted === true ? sql`${fixed(condition)}` : undefined,
};

/** Joins conditions to a WHERE clause, or to nothing if there are none. */
export const all = (...conditions: (Query | undefined)[]): Query =>
  joined(
    conditions.filter((condition) => condition !== undefined),
    ' AND ',
  );

export function where(conditions: readonly (Query | undefined)[]): Query {
  const given = conditions.filter((condition) => condition !== undefined).map((condition) => sql`(${condition})`);
  return given.length === 0 ? joined([], '') : sql`WHERE ${joined(given, ' AND ')}`;
}

/**
 * How many of the newest rows that match the other filters a search reads: searching all takes seconds, and every other
 * query waits meanwhile. In SQLite it takes 14 ms among a million, half of it per 5000.
 */
export const SEARCHED_ROWS = 10_000;

/** How many rows are counted if counters do not know: as many as a search reads. */
const COUNTED_ROWS = SEARCHED_ROWS;

/**
 * How many entries of the index of search keys are followed to their rows: in SQLite 15 ms among a million, because
 * they are scattered.
 */
const FOLLOWED_KEYS = 3000;
const [mostSearched, mostFollowed] = [fixed(String(SEARCHED_ROWS)), fixed(String(FOLLOWED_KEYS))];

/** What a list reads, and how. */
interface Listing<Row, Item> {
  /** The table, with its schema, in which `id` identifies a row. */
  readonly table: string;
  /** Selects the columns of items; the table is called `own` in it. */
  readonly select: Query;
  /** Columns that order its rows before `place` does; the newest have the greatest values. */
  readonly order?: readonly string[];
  /** A column that identifies rows and grows; their ids by default. */
  readonly place?: string;
  /** A hint that rows with given places are looked up by them. */
  readonly lookUp?: string;
  readonly searched?: Searched;
  toItem(row: Row): Item;
}

/** Columns and indexes that a search looks into. */
interface Searched {
  /** The column with the time at which a row began. */
  readonly time: string;
  readonly texts: readonly string[];
  readonly ids: readonly string[];
  /** Select places of rows through an index, by an id between two bounds: these are found at any age. */
  readonly byId: readonly ((from: string, to: string) => Query)[];
  readonly byKey: readonly ListKeys[];
}

/** Search keys that lead to rows of a list. */
export interface ListKeys extends KeyIndex {
  /** Selects the rows' places, given a statement that selects owners. */
  readonly follow: (owners: Query) => Query;
  /** The keys of a searched row, which is called `newest`, as text after FROM. */
  readonly own: string;
}

/** Selects the rows of a list. */
export interface RowsRequest {
  readonly filters: readonly (Query | undefined)[];
  readonly search?: string | undefined;
  /** As in `DeliveryQuery`. */
  readonly searchKeys?: SearchKeys | undefined;
  /** Rows that a search also finds: for each condition the newest in this order, up to the same limit. */
  readonly alsoFound?: readonly { readonly condition: Query; readonly order: string }[];
  /** Whether a filter yields the places of all matching rows. */
  readonly isLookedUp?: boolean;
  /** A hint for the first column of the order. */
  readonly orderHint?: string;
}

interface PageRequest extends RowsRequest {
  readonly query: PageQuery;
  /** How many rows match, if counters know it. */
  readonly known?: number | undefined;
}

/** Reads one page, newest first. Its statements are planned for their values, which decide which index is best. */
export function* readPage<Row, Item>(
  port: Port,
  listing: Listing<Row, Item>,
  request: PageRequest,
): Decision<Page<Item>> {
  const {
    query: { skip, take, includeTotal },
    known,
    orderHint = '',
  } = request;
  const rows = rowsOf(listing, request);
  const total = includeTotal === true ? (known ?? (yield* countRows(port, rows))) : undefined;
  // If no rows are left, do not search: a filter that matches nothing would read every row.
  const limit = known === undefined ? take : Math.min(take, known - skip);
  if (limit <= 0) return { items: [], total };
  // Skipped rows are read too, so begin at the nearer end.
  const isOldNearer = known !== undefined && skip > known / 2;
  const { order = [], place = 'id' } = listing;
  const nearer = fixed(orderOf([...order, 'place'], { direction: isOldNearer ? 'ASC' : 'DESC', hint: orderHint }));
  const newest = fixed(orderOf([...order, place], { direction: 'DESC', hint: 'own.' }));
  const searchedUntil = includeTotal === true ? yield* searchedUntilOf(port, listing, request) : undefined;
  const found = yield* port.all<Row>(sql`
    ${listing.select} WHERE own.${fixed(place)} IN (
      SELECT place FROM ${rows} ORDER BY ${exactFirst('place', listing, request)}${nearer} LIMIT ${limit} OFFSET ${isOldNearer ? known - skip - limit : skip}
    ) ORDER BY ${exactFirst(`own.${place}`, listing, request)}${newest}`);
  const items = found.map((row) => listing.toItem(row));
  return { items, total, ...(searchedUntil !== undefined && { searchedUntil }) };
}

/** Part of an order: rows with this very id or search key come before rows that only contain the text. */
function exactFirst(
  column: string,
  { searched }: Pick<Listing<never, never>, 'searched'>,
  request: PageRequest,
): Query {
  const { search = '' } = request;
  const folded = foldSearchValue(search);
  if (search === '' || searched === undefined) return sql``;
  const [place, range] = [fixed(column), uuidRange(search.toLowerCase())];
  const isId = range !== undefined && range.from === range.to;
  const found = [
    ...(isId ? searched.byId.map((select) => sql`${place} IN (${select(range.from, range.to)})`) : []),
    ...(folded === ''
      ? []
      : searched.byKey.map((keys) =>
          isKeyed(place, { byKey: [keys], condition: sql`k.folded = ${folded}`, order: 'newest' }),
        )),
    ...hasNamedKey(place, searched.byKey, search),
  ];
  return found.length === 0 ? sql`` : sql`CASE WHEN ${joined(found, ' OR ')} THEN 0 ELSE 1 END, `;
}

/** When the oldest row began that a search looked at; undefined if it looked at all. */
function* searchedUntilOf(
  port: Port,
  { table, order = [], place = 'id', searched }: Pick<Listing<never, never>, 'table' | 'order' | 'place' | 'searched'>,
  { filters, search = '', searchKeys, orderHint = '' }: RowsRequest,
): Decision<number | undefined> {
  if (search === '' || searched === undefined || searchKeys !== undefined) return undefined;
  const columns = fixed([...order, `${place} AS place`, `${searched.time} AS at`].join(', '));
  const newestFirst = fixed(orderOf([...order, 'place'], { direction: 'DESC', hint: orderHint }));
  const [last, other] = yield* port.all<{ at: number }>(sql`
    SELECT at FROM (SELECT ${columns} FROM ${fixed(table)} ${where(filters)}) AS own
    ORDER BY ${newestFirst} LIMIT 2 OFFSET ${SEARCHED_ROWS - 1}`);
  return other === undefined ? undefined : last?.at;
}

const orderOf = (columns: readonly string[], { direction, hint }: { direction: 'ASC' | 'DESC'; hint: string }) =>
  columns.map((column) => `${hint}${column} ${direction}`).join(', ');

function* countRows(port: Port, rows: Query): Decision<number> {
  const counted = yield* port.get<{ total: number }>(
    sql`SELECT count(*) AS total FROM (SELECT 1 FROM ${rows} LIMIT ${COUNTED_ROWS}) AS counted`,
  );
  return counted?.total ?? 0;
}

/** The rows of a list, as text after FROM: the columns of their order, and their `place`. */
export function rowsOf(
  {
    table,
    order = [],
    place: placeName = 'id',
    lookUp = '',
    searched,
  }: Omit<Listing<unknown, unknown>, 'select' | 'toItem'>,
  { filters: others, search = '', searchKeys = {}, alsoFound = [], isLookedUp = false, orderHint = '' }: RowsRequest,
): Query {
  const place = fixed(placeName);
  const keyed = hasKeys(place, searched?.byKey ?? [], searchKeys);
  const filters = [...others, ...keyed];
  const ordering = [...order, `${placeName} AS place`];
  const [columns, lookedUp] = [fixed(ordering.join(', ')), fixed(`${table} ${lookUp}`)];
  const from = isLookedUp || keyed.length > 0 ? lookedUp : fixed(table);
  if (search === '' || searched === undefined) return sql`(SELECT ${columns} FROM ${from} ${where(filters)}) AS found`;
  const searchable = fixed([...new Set([...ordering, ...searched.ids, ...searched.texts])].join(', '));
  const newestFirst = fixed(orderOf([...order, 'place'], { direction: 'DESC', hint: orderHint }));
  const range = uuidRange(search.toLowerCase());
  const folded = foldSearchValue(search);
  const byKey = folded === '' ? [] : searched.byKey;
  const newest = sql`SELECT ${fixed([...order, 'place'].join(', '))} FROM (
      SELECT ${searchable} FROM ${from} ${where(filters)} ORDER BY ${newestFirst} LIMIT ${mostSearched}
    ) AS newest WHERE ${joined([contains(searched, search), ...byKey.map((keys) => beginsOften(keys, folded))], ' OR ')}`;
  const leading = (isFound: Query) => sql`SELECT ${columns} FROM ${lookedUp} ${where([isFound, ...filters])}`;
  const ofIds = (range === undefined ? [] : searched.byId).map((select) =>
    leading(sql`${place} IN (${select(range?.from ?? '', range?.to ?? '')} LIMIT ${mostSearched})`),
  );
  const begins = sql`k.folded > ${folded} AND k.folded < ${endOfPrefix(folded)}`;
  const ofKeys = byKey.flatMap((keys) => [
    leading(isKeyed(place, { byKey: [keys], condition: sql`k.folded = ${folded}`, order: 'newest' })),
    leading(isKeyed(place, { byKey: [keys], condition: begins, order: 'any' })),
  ]);
  const ofNamedKey = hasNamedKey(place, byKey, search).map(leading);
  const ofNames = alsoFound.map(
    ({ condition, order: newestOfIt }) => sql`
      SELECT ${columns} FROM ${from} ${where([condition, ...filters])} ORDER BY ${fixed(newestOfIt)} LIMIT ${mostSearched}`,
  );
  const parts = [newest, ...ofIds, ...ofKeys, ...ofNamedKey, ...ofNames].map(
    (select) => sql`SELECT * FROM (${select}) AS part`,
  );
  return sql`(${joined(parts, ' UNION ')}) AS found`;
}

/**
 * Whether a searched row has a search key that begins with the text. Only if the index has more such keys than are
 * followed: otherwise following them finds all.
 */
function beginsOften({ table, any, own }: ListKeys, folded: string): Query {
  const begins = sql`k.folded > ${folded} AND k.folded < ${endOfPrefix(folded)}`;
  const [from, inOrder] = [fixed(`${table} AS k`), orderedBy(any)];
  // Counts instead of using EXISTS: within an OR, PostgreSQL reads the whole table for that.
  return sql`((SELECT count(*) FROM (SELECT 1 FROM ${from} WHERE ${begins} ${inOrder} LIMIT ${mostFollowed}) AS first) = ${mostFollowed}
    AND (SELECT count(*) FROM ${fixed(own)} AND ${begins}) > 0)`;
}

const orderedBy = (order: string | undefined) => fixed(order === undefined ? '' : `ORDER BY ${order}`);

interface KeyCondition {
  readonly byKey: readonly ListKeys[];
  readonly condition: Query;
  readonly order: 'newest' | 'any';
}

/**
 * Whether a row has a search key that meets the condition. Places come as arrays: PostgreSQL's estimate for an array
 * makes it look each of them up, however many rows there are.
 */
function isKeyed(place: FixedText, { byKey, condition, order }: KeyCondition): Query {
  const places = byKey.map(({ table, owner, follow, ...keys }) => {
    const [own, from, inOrder] = [fixed(owner), fixed(`${table} AS k`), orderedBy(keys[order])];
    const owners = sql`SELECT ${own} FROM ${from} WHERE ${condition} ${inOrder} LIMIT ${mostFollowed}`;
    return sql`SELECT * FROM (${follow(owners)}) AS keyed`;
  });
  return sql`${place} = ANY (ARRAY(${joined(places, ' UNION ALL ')}))`;
}

/** Rows that have each of the search keys, through their index. */
function hasKeys(place: FixedText, byKey: readonly ListKeys[], keys: SearchKeys): Query[] {
  return Object.entries(keys).map(([name, value]) => {
    const condition = sql`k.folded = ${foldSearchValue(value)} AND k.name = ${name}`;
    return isKeyed(place, { byKey, condition, order: 'newest' });
  });
}

/**
 * Whether a row has the search key that a search for `order:SO-1010` names. The search also finds the text itself, as
 * values, addresses and messages can contain a colon too.
 */
function hasNamedKey(place: FixedText, byKey: readonly ListKeys[], search: string): Query[] {
  const named = readSearchKey(search);
  return named === undefined || byKey.length === 0 ? [] : hasKeys(place, byKey, named);
}

/** Whether one of the columns contains the text, in any case. */
function contains({ texts, ids }: Searched, text: string): Query {
  const { collation, lowered } = patternOf([text]);
  const columns = [
    ...ids.map((id) => `${id}::text`),
    ...texts.map((column) => `lower(${column} COLLATE ${collation})`),
  ];
  return joined(
    columns.map((column) => sql`${fixed(column)} LIKE ${lowered}`),
    ' OR ',
  );
}

/** Whether a column contains the texts, one after the other, in any case. */
export function isLike(column: string, texts: readonly string[]): Query {
  const { collation, lowered } = patternOf(texts);
  return sql`${fixed(`lower(${column} COLLATE ${collation})`)} LIKE ${lowered}`;
}

function patternOf(texts: readonly string[]) {
  const escaped = texts.map((text) => text.toLowerCase().replace(/[\\%_]/g, '\\$&'));
  // Lowering only ASCII is several times faster.
  const collation = texts.every((text) => /^[\x20-\x7e]*$/.test(text)) ? '"C"' : '"und-x-icu"';
  const pattern = `%${escaped.join('%')}%`;
  return { collation, lowered: sql`lower(${pattern}::text COLLATE ${fixed(collation)}) ESCAPE '\\'` };
}

/** The search keys of a run or a delivery as JSON text, by name. */
export function keysOf(owner: 'run' | 'delivery', id: string): string {
  return `(SELECT json_object_agg(k.name, coalesce(k.value, k.folded) ORDER BY k.name)::text FROM sluice.${owner}_keys AS k
    WHERE k.${owner}_id = ${id})`;
}

/** Without search keys, one database yields null and the other an empty object. */
export function toSearchKeys(text: string | null): SearchKeys | undefined {
  return text === null || text === '{}' ? undefined : JSON.parse(text);
}
