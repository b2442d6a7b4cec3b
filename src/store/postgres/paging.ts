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
}

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
  const newestFirst = order.map((column) => `${column} DESC`).join(', ');
  const range = uuidRange(search.toLowerCase());
  return (bind) => {
    const newest = `SELECT ${columns} FROM ${from} ${filtered(bind)} ORDER BY ${newestFirst} LIMIT ${SEARCHED_ROWS}`;
    const byId = (range === undefined ? [] : searched.byId).map((select) => {
      const ids = select(bind(range?.from ?? ''), bind(range?.to ?? ''));
      const isOneOf: Condition = () => `id IN (${ids} LIMIT ${SEARCHED_ROWS})`;
      return `SELECT ${columns} FROM ${from} ${where([isOneOf, ...filters])(bind)}`;
    });
    const candidates = [newest, ...byId].map((select) => `(${select})`).join(' UNION ');
    return `(${candidates}) AS candidates WHERE ${contains(searched, search)(bind)}`;
  };
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
