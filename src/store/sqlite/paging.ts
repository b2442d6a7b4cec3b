import type { Database } from 'better-sqlite3';
import type { SearchKeys } from '../../model/search-keys.ts';
import { endOfPrefix, foldSearchValue } from '../../model/text.ts';
import type { Page, PageQuery, TimeSpan } from '../store.ts';

/** A condition in SQL with the values of its question marks. */
export interface Condition {
  readonly sql: string;
  readonly values: readonly (string | number)[];
}

/** Joins conditions to a WHERE clause, or to nothing where there are none. */
export function where(conditions: readonly (Condition | undefined)[]): Condition {
  const given = conditions.filter((condition) => condition !== undefined);
  if (given.length === 0) return { sql: '', values: [] };
  return {
    sql: `WHERE ${given.map(({ sql }) => `(${sql})`).join(' AND ')}`,
    values: given.flatMap(({ values }) => values),
  };
}

/** Conditions of a list's filters; undefined where the filter is not given. */
export const filter = {
  equals: (column: string, value: string | undefined): Condition | undefined =>
    value === undefined ? undefined : { sql: `${column} = ?`, values: [value] },
  within: (column: string, { since, until }: TimeSpan): Condition | undefined => {
    if (since === undefined && until === undefined) return undefined;
    const [from, to] = [since ?? Number.MIN_SAFE_INTEGER, until ?? Number.MAX_SAFE_INTEGER];
    return { sql: `${column} >= ? AND ${column} < ?`, values: [from, to] };
  },
  holds: (sql: string, isWanted: boolean | undefined): Condition | undefined =>
    isWanted === true ? { sql, values: [] } : undefined,
};

/** One of the columns contains the text, in any case. */
function contains(columns: readonly string[], text: string | undefined): Condition | undefined {
  if (text === undefined || text === '') return undefined;
  const pattern = `%${text.toLowerCase().replace(/[\\%_]/g, '\\$&')}%`;
  // LIKE folds ASCII by itself, several times faster than a call back into JavaScript for each value.
  const isAscii = /^[\x20-\x7e]*$/.test(text);
  return {
    sql: columns.map((column) => `${isAscii ? column : `fold(${column})`} LIKE ? ESCAPE '\\'`).join(' OR '),
    values: columns.map(() => pattern),
  };
}

/**
 * A search reads so many of the newest rows that match the other filters: 14 ms among a million, half of it per 5000.
 */
export const SEARCHED_ROWS = 10_000;

const ID_BEGINNING = /^[0-9a-f]{8}[0-9a-f-]{0,28}$/;

/** What can be searched: `key` orders the rows, and `columns` may hold the text. */
export interface Searchable {
  readonly table: string;
  readonly key: string;
  /** Newest first. */
  readonly order: string;
  readonly columns: readonly string[];
  /** Selects the keys of rows that an id, between two bounds, leads to by an index: these are found however old. */
  readonly byId: readonly string[];
  readonly byKey: readonly KeyTable[];
  /** A prefix for conditions on the key: makes SQLite look up the rows instead of scanning all in order. */
  readonly lookUp: 'NOT INDEXED ' | '';
}

/** A table of search keys, which is called `k`. */
interface KeyTable {
  readonly table: string;
  /** Selects the keys of rows that have the search keys. */
  readonly select: string;
  /** Newest last. */
  readonly order: string;
  /** Joins it with a row that is searched, which is called `newest`. */
  readonly own: string;
}

/**
 * So many entries of the index of search keys are followed to their rows: 15 ms among a million, because they lie apart.
 */
const FOLLOWED_KEYS = 3000;

interface Search {
  readonly search?: string | undefined;
  readonly searchKeys?: SearchKeys | undefined;
}

/**
 * One of the columns contains the text, among the newest rows only: searching all of them takes seconds, and every
 * other query waits meanwhile. An id, or its first eight or more characters, is found however old it is, and so is a
 * search key, or its beginning.
 */
export function searchIn(
  searchable: Searchable,
  { search: text, searchKeys = {} }: Search,
  filters: readonly (Condition | undefined)[],
): Condition {
  const { table, key, order, columns, byId, byKey, lookUp } = searchable;
  const lookedUp = (isKnown: boolean, { sql, values }: Condition) => ({
    sql: `${isKnown ? lookUp : ''}${sql}`,
    values,
  });
  const wanted = [...filters, ...Object.entries(searchKeys).map((searchKey) => hasKey(searchable, searchKey))];
  const filtered = lookedUp(wanted.length > filters.length, where(wanted));
  const inColumns = contains(columns, text);
  if (inColumns === undefined) return filtered;
  const folded = foldSearchValue(text ?? '');
  const begins = folded === '' ? [] : byKey.map((keyTable) => beginsOften(keyTable, folded));
  const found = [inColumns, ...begins];
  const newest = {
    sql: `SELECT key FROM (
        SELECT ${[`${key} AS key`, ...columns].join(', ')} FROM ${table} ${filtered.sql} ORDER BY ${order} LIMIT ${SEARCHED_ROWS}
      ) AS newest WHERE ${found.map(({ sql }) => `(${sql})`).join(' OR ')}`,
    values: [...filtered.values, ...found.flatMap(({ values }) => values)],
  };
  const beginning = text?.toLowerCase() ?? '';
  // "g" sorts after every character that can follow in an id.
  const ids = (ID_BEGINNING.test(beginning) ? byId : []).map((sql) => ({
    sql: `SELECT * FROM (${sql} LIMIT ${SEARCHED_ROWS})`,
    values: [beginning, `${beginning}g`],
  }));
  const keyed = (folded === '' ? [] : byKey).flatMap(({ select, order: oldest }) => [
    {
      sql: `SELECT * FROM (${select} WHERE k.folded = ? ORDER BY ${oldest} DESC LIMIT ${FOLLOWED_KEYS})`,
      values: [folded],
    },
    {
      sql: `SELECT * FROM (${select} WHERE k.folded > ? AND k.folded < ? LIMIT ${FOLLOWED_KEYS})`,
      values: [folded, endOfPrefix(folded)],
    },
  ]);
  const candidates = [newest, ...ids, ...keyed];
  const isFound = {
    sql: `${key} IN (${candidates.map(({ sql }) => sql).join(' UNION ')})`,
    values: candidates.flatMap(({ values }) => values),
  };
  return lookedUp(true, where([isFound, ...wanted]));
}

/**
 * A row that is searched has a search key that begins with the text. Only where the index has more of those than are
 * followed: else it has them all.
 */
function beginsOften({ table, own }: KeyTable, folded: string): Condition {
  const range = [folded, endOfPrefix(folded)];
  const begins = 'k.folded > ? AND k.folded < ?';
  return {
    sql: `(SELECT count(*) FROM (SELECT 1 FROM ${table} k WHERE ${begins} LIMIT ${FOLLOWED_KEYS})) = ${FOLLOWED_KEYS}
      AND EXISTS (SELECT 1 FROM ${table} k WHERE ${own} AND ${begins})`,
    values: [...range, ...range],
  };
}

/** A row has the search key, by its index. */
function hasKey(
  { key, byKey }: Pick<Searchable, 'key' | 'byKey'>,
  [name, value]: readonly [string, string],
): Condition {
  const selects = byKey.map(
    ({ select, order }) =>
      `SELECT * FROM (${select} WHERE k.folded = ? AND k.name = ? ORDER BY ${order} DESC LIMIT ${FOLLOWED_KEYS})`,
  );
  return {
    sql: `${key} IN (${selects.join(' UNION ALL ')})`,
    values: byKey.flatMap(() => [foldSearchValue(value), name]),
  };
}

/** The search keys of a run or a delivery as JSON text, by name. */
export function keysOf(owner: 'run' | 'delivery', id: string): string {
  return `(SELECT json_group_object(k.name, coalesce(k.value, k.folded) ORDER BY k.name) FROM ${owner}_keys k WHERE k.${owner}_id = ${id})`;
}

export function toSearchKeys(text: string | null): SearchKeys | undefined {
  return text === null || text === '{}' ? undefined : JSON.parse(text);
}

/** Where counters do not know, so many rows are counted: as many as a search reads. */
const COUNTED_ROWS = SEARCHED_ROWS;

/**
 * What a list reads. `page` has a `%where%` in it and takes a limit and an offset after the conditions' values; it
 * reads from the newest on where `%order%` is DESC, and from the oldest where it is ASC.
 */
interface Listing<Row, Item> {
  readonly page: string;
  /** The table whose rows match or do not. */
  readonly table: string;
  toItem(row: Row): Item;
}

interface PageRequest {
  readonly query: PageQuery;
  readonly condition: Condition;
  /** How many rows match, where counters know. */
  readonly known: number | undefined;
}

/** Makes the function that reads one page; each combination of conditions is prepared once. */
export function preparePages<Row, Item>(
  db: Database,
  { page, table, toItem }: Listing<Row, Item>,
): (request: PageRequest) => Page<Item> {
  const prepare = <Result>(sql: string) =>
    memoized((clause) => db.prepare<unknown[], Result>(sql.replace('%where%', () => clause)));
  const newestFirst = prepare<Row>(page.replaceAll('%order%', 'DESC'));
  const oldestFirst = prepare<Row>(page.replaceAll('%order%', 'ASC'));
  const counts = prepare<{ total: number }>(
    `SELECT count(*) AS total FROM (SELECT 1 FROM ${table} %where% LIMIT ${COUNTED_ROWS})`,
  );
  return ({ query: { skip, take, includeTotal }, condition: { sql, values }, known }) => {
    const total = includeTotal === true ? (known ?? counts(sql).get(...values)?.total) : undefined;
    // If no rows are left, do not search: a filter that matches nothing would read every row.
    const limit = known === undefined ? take : Math.min(take, known - skip);
    if (limit <= 0) return { items: [], total };
    // SQLite reads the rows that it skips, so begin at the nearer end.
    const isOldNearer = known !== undefined && skip > known / 2;
    const rows = isOldNearer
      ? oldestFirst(sql).all(...values, limit, known - skip - limit)
      : newestFirst(sql).all(...values, limit, skip);
    return { items: rows.map(toItem), total };
  };
}

function memoized<Value>(make: (key: string) => Value): (key: string) => Value {
  const made = new Map<string, Value>();
  return (key) => {
    const value = made.get(key) ?? make(key);
    made.set(key, value);
    return value;
  };
}
