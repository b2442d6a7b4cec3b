import type { SearchKeys } from '../../model/search-keys.ts';
import { endOfPrefix, foldSearchValue } from '../../model/text.ts';
import type { Page, PageQuery, TimeSpan } from '../store.ts';
import type { Sql, SqlValue } from './sql.ts';
import { uuidRange } from './uuids.ts';

/** Puts a value among the parameters of a statement and yields its name there. */
type Bind = (value: SqlValue) => string;

/** A condition in SQL, written into a statement that takes its values. */
export type Condition = (bind: Bind) => string;

/** Conditions of a list's filters; undefined where the filter is not given. */
export const filter = {
  equals: (column: string, value: string | undefined): Condition | undefined =>
    value === undefined ? undefined : (bind) => `${column} = ${bind(value)}`,
  within: (column: string, { since, until }: TimeSpan): Condition | undefined => {
    if (since === undefined && until === undefined) return undefined;
    const [from, to] = [since ?? Number.MIN_SAFE_INTEGER, until ?? Number.MAX_SAFE_INTEGER];
    return (bind) => `${column} >= ${bind(from)} AND ${column} < ${bind(to)}`;
  },
  holds: (sql: string, isWanted: boolean | undefined): Condition | undefined =>
    isWanted === true ? () => sql : undefined,
};

/** A search reads so many of the newest rows that match the other filters. */
export const SEARCHED_ROWS = 10_000;

/** Where counters do not know, so many rows are counted: as many as a search reads. */
const COUNTED_ROWS = SEARCHED_ROWS;

/** What a list reads. */
interface Listing<Row, Item> {
  /** The table, in which `id` names a row. */
  readonly table: string;
  /** Columns that order its rows; the newest have the greatest. The last is `id`. */
  readonly order: readonly string[];
  /** Selects what items are made of; the table is called `own` in it. */
  readonly select: string;
  readonly searched?: Searched;
  toItem(row: Row): Item;
}

/** What may hold the text of a search. */
interface Searched {
  readonly texts: readonly string[];
  readonly ids: readonly string[];
  /** Select ids of rows that an id between two bounds leads to by an index: these are found however old. */
  readonly byId: readonly ((from: string, to: string) => string)[];
  readonly byKey: readonly KeyTable[];
}

/** A table of search keys, which is called `k`. */
interface KeyTable {
  readonly table: string;
  /** The column whose values are ids of those that have the keys. */
  readonly owner: string;
  /** Selects ids of rows from what selects those. */
  readonly follow: (owners: string) => string;
  /** Joins it with a row that is searched, which is called `newest`. */
  readonly own: string;
}

/** So many entries of the index of search keys are followed to their rows. */
const FOLLOWED_KEYS = 3000;

interface PageRequest {
  readonly query: PageQuery;
  readonly filters: readonly (Condition | undefined)[];
  readonly search?: string | undefined;
  /** How many rows match, where counters know. */
  readonly known?: number | undefined;
}

/** Reads one page, newest first. */
export async function readPage<Row, Item>(
  sql: Sql,
  listing: Listing<Row, Item>,
  { query: { skip, take, includeTotal }, filters, search, known }: PageRequest,
): Promise<Page<Item>> {
  const rows = rowsOf(listing, filters, search);
  const total = includeTotal === true ? (known ?? (await countRows(sql, rows))) : undefined;
  // If no rows are left, do not search: a filter that matches nothing would read every row.
  const limit = known === undefined ? take : Math.min(take, known - skip);
  if (limit <= 0) return { items: [], total };
  // PostgreSQL reads the rows that it skips, so begin at the nearer end.
  const isOldNearer = known !== undefined && skip > known / 2;
  const by = (direction: string, table = '') =>
    listing.order.map((column) => `${table}${column} ${direction}`).join(', ');
  const values: SqlValue[] = [];
  const bind = binding(values);
  const page = `SELECT id FROM ${rows(bind)} ORDER BY ${by(isOldNearer ? 'ASC' : 'DESC')}
    LIMIT ${bind(limit)} OFFSET ${bind(isOldNearer ? known - skip - limit : skip)}`;
  const found = await sql.allUnprepared<Row>(
    `${listing.select} WHERE own.id IN (${page}) ORDER BY ${by('DESC', 'own.')}`,
    values,
  );
  return { items: found.map((row) => listing.toItem(row)), total };
}

async function countRows(sql: Sql, rows: Condition): Promise<number> {
  const values: SqlValue[] = [];
  const [row] = await sql.allUnprepared<{ total: number }>(
    `SELECT count(*) AS total FROM (SELECT FROM ${rows(binding(values))} LIMIT ${COUNTED_ROWS}) AS counted`,
    values,
  );
  return row?.total ?? 0;
}

function binding(values: SqlValue[]): Bind {
  return (value) => {
    values.push(value);
    return `$${values.length}`;
  };
}

/** The rows that a list is about, as what follows FROM. */
function rowsOf(
  { table, order, searched }: Pick<Listing<unknown, unknown>, 'table' | 'order' | 'searched'>,
  filters: readonly (Condition | undefined)[],
  search = '',
): Condition {
  const from = `sluice.${table}`;
  const filtered = where(filters);
  if (search === '' || searched === undefined) return (bind) => `${from} ${filtered(bind)}`;
  const columns = [...new Set([...order, ...searched.ids, ...searched.texts])].join(', ');
  const ordering = order.join(', ');
  const newestFirst = order.map((column) => `${column} DESC`).join(', ');
  const range = uuidRange(search.toLowerCase());
  const folded = foldSearchValue(search);
  return (bind) => {
    const found = [contains(searched, search), ...(folded === '' ? [] : searched.byKey).map(beginsOften(folded))];
    const newest = `SELECT ${ordering} FROM (
      SELECT ${columns} FROM ${from} ${filtered(bind)} ORDER BY ${newestFirst} LIMIT ${SEARCHED_ROWS}
    ) AS newest WHERE ${found.map((condition) => condition(bind)).join(' OR ')}`;
    const leading = (ids: Condition) => `SELECT ${ordering} FROM ${from} ${where([ids, ...filters])(bind)}`;
    const byId = (range === undefined ? [] : searched.byId).map((select) => {
      const ids = select(bind(range?.from ?? ''), bind(range?.to ?? ''));
      return leading(() => `id IN (${ids} LIMIT ${SEARCHED_ROWS})`);
    });
    const byKey = (folded === '' ? [] : searched.byKey).flatMap((keys) => [
      leading((bound) => isKeyed(keys, `k.folded = ${bound(folded)}`, 'newest')),
      leading((bound) => isKeyed(keys, `k.folded > ${bound(folded)} AND k.folded < ${bound(endOfPrefix(folded))}`)),
    ]);
    return `(${[newest, ...byId, ...byKey].map((select) => `(${select})`).join(' UNION ')}) AS found`;
  };
}

/**
 * A row that is searched has a search key that begins with the text. Only where the index has more of those than are
 * followed: else it has them all.
 */
function beginsOften(folded: string): (keys: KeyTable) => Condition {
  return ({ table, own }) =>
    (bind) => {
      const begins = `k.folded > ${bind(folded)} AND k.folded < ${bind(endOfPrefix(folded))}`;
      // Counted, though an EXISTS would say it: PostgreSQL reads the whole table for those of an OR.
      return `((SELECT count(*) FROM (SELECT FROM ${table} k WHERE ${begins} ORDER BY k.folded LIMIT ${FOLLOWED_KEYS}) AS first) = ${FOLLOWED_KEYS}
        AND (SELECT count(*) FROM ${table} k WHERE ${own} AND ${begins}) > 0)`;
    };
}

/**
 * A row has a search key that meets the condition. Ids come as arrays: what PostgreSQL guesses of those has it look each
 * of them up, however many rows there are.
 */
function isKeyed({ table, owner, follow }: KeyTable, condition: string, first?: 'newest'): string {
  // In the order of the index: without one PostgreSQL may read the table until it has found enough.
  const order = first === undefined ? 'k.folded' : `k.${owner} DESC`;
  const owners = `SELECT k.${owner} FROM ${table} k WHERE ${condition} ORDER BY ${order} LIMIT ${FOLLOWED_KEYS}`;
  return `id = ANY(ARRAY(${follow(owners)}))`;
}

/** Rows that have each of the search keys, by their index. */
export function keyFilters(byKey: readonly KeyTable[], keys: SearchKeys = {}): Condition[] {
  return Object.entries(keys).map(([name, value]): Condition => {
    return (bind) => {
      const hasKey = `k.folded = ${bind(foldSearchValue(value))} AND k.name = ${bind(name)}`;
      return byKey.map((table) => isKeyed(table, hasKey, 'newest')).join(' OR ');
    };
  });
}

/** The search keys of a run or a delivery as JSON text, by name. */
export function keysOf(owner: 'run' | 'delivery', id: string): string {
  return `(SELECT json_object_agg(k.name, coalesce(k.value, k.folded) ORDER BY k.name)::text FROM sluice.${owner}_keys k
    WHERE k.${owner}_id = ${id})`;
}

export function toSearchKeys(text: string | null): SearchKeys | undefined {
  return text === null ? undefined : JSON.parse(text);
}

function where(conditions: readonly (Condition | undefined)[]): Condition {
  const given = conditions.filter((condition) => condition !== undefined);
  if (given.length === 0) return () => '';
  return (bind) => `WHERE ${given.map((condition) => `(${condition(bind)})`).join(' AND ')}`;
}

/** One of the columns contains the text, in any case. */
function contains({ texts, ids }: Searched, text: string): Condition {
  const pattern = `%${text.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`;
  // Lowering ASCII alone is several times faster.
  const isAscii = /^[\x20-\x7e]*$/.test(text);
  const collation = isAscii ? '"C"' : '"und-x-icu"';
  return (bind) => {
    const lowered = `lower(${bind(pattern)}::text COLLATE ${collation})`;
    const columns = [
      ...ids.map((id) => `${id}::text`),
      ...texts.map((column) => `lower(${column} COLLATE ${collation})`),
    ];
    return columns.map((column) => `${column} LIKE ${lowered}`).join(' OR ');
  };
}
