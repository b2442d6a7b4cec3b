import type { Api } from './api-types.ts';

/*
 * The page's address: the shown screen, and the filters and sorting of its lists. Pure: only the router reads and
 * changes the browser's own address.
 */

type Params = Readonly<Record<string, string>>;

/** The first route whose path fits. Segments that begin with a colon are parameters, such as `/flows/runs/:id`. */
export function matchRoute<Route extends { readonly path: string }>(
  routes: readonly Route[],
  path: string,
): { route: Route; params: Params } | undefined {
  for (const route of routes) {
    const params = matchPath(route.path, path);
    if (params !== undefined) return { route, params };
  }
  return undefined;
}

function matchPath(pattern: string, path: string): Params | undefined {
  const given = path.replace(/\/+$/, '').split('/');
  const wanted = pattern.split('/');
  if (given.length !== wanted.length) return undefined;
  const params: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    const value = given[index] ?? '';
    if (!part.startsWith(':')) {
      if (part !== value) return undefined;
      continue;
    }
    const decoded = decode(value);
    if (decoded === undefined || decoded === '') return undefined;
    params[part.slice(1)] = decoded;
  }
  return params;
}

function decode(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}

/** The path and query of a link to a place of the page; undefined if the browser should follow the link itself. */
export function placeOf(href: string, origin: string): string | undefined {
  if (!URL.canParse(href)) return undefined;
  const { origin: target, pathname, search, hash } = new URL(href);
  const isPlace = /^\/flows(\/|$)/.test(pathname) && !/^\/flows\/(api|assets)(\/|$)/.test(pathname);
  return target === origin && isPlace && hash === '' ? `${pathname}${search}` : undefined;
}

/** The path of an address, and its query without the question mark. */
export function splitAddress(address: string): { readonly path: string; readonly search: string } {
  const end = address.indexOf('?');
  return end === -1 ? { path: address, search: '' } : { path: address.slice(0, end), search: address.slice(end + 1) };
}

type QueryChanges = Readonly<Record<string, string | undefined>>;

/** A query with parts of it changed, with its question mark; an empty value removes its name. */
export function withChanges(search: string, changes: QueryChanges): string {
  const next = new URLSearchParams(search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === '') next.delete(name);
    else next.set(name, value);
  }
  return next.size === 0 ? '' : `?${next}`;
}

/** A path of the API with its query; leaves out undefined, empty and false values. */
export function withQuery(
  path: string,
  query: Readonly<Record<string, string | number | boolean | undefined>>,
): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== '' && value !== false) search.set(name, String(value));
  }
  return search.size === 0 ? path : `${path}?${search}`;
}

/** Reads `skip` of the address; anything but a whole number is the first page. */
export function skipOf(query: URLSearchParams): number {
  const skip = Number(query.get('skip') ?? 0);
  return Number.isSafeInteger(skip) && skip > 0 ? skip : 0;
}

/** The API path of the list of flows, and of the names of flows. */
export const ALL_FLOWS = '/flows?take=500&includeBuiltIn=true';

/** Rows per page in a list of deliveries, runs or interventions. */
export const ROWS = 50;

/** The parts of a run's failure cause, as in the address and the API. */
export const CAUSE = ['step', 'code', 'host', 'error'] as const;

const MINUTE_MS = 60_000;

/** Spans of time that end now, as named by `last` in the address. */
export const RECENT = [
  { value: '15m', text: 'Last 15 minutes', minutes: 15 },
  { value: '1h', text: 'Last hour', minutes: 60 },
  { value: '1d', text: 'Last day', minutes: 24 * 60 },
  { value: '7d', text: 'Last week', minutes: 7 * 24 * 60 },
] as const;

/** The time span in the address, in the API's form; the API itself reports unreadable times. */
export function spanOf(query: URLSearchParams, now = Date.now()): { readonly since: string; readonly until: string } {
  const recent = RECENT.find(({ value }) => value === query.get('last'));
  if (recent === undefined) return { since: query.get('since') ?? '', until: query.get('until') ?? '' };
  // From a whole minute on, so that the request stays the same for a while.
  const since = (Math.floor(now / MINUTE_MS) - recent.minutes) * MINUTE_MS;
  return { since: new Date(since).toISOString(), until: '' };
}

/** Without counters, the API counts up to this number. */
const COUNTED = 10_000;
const UNCOUNTED = ['search', 'searchKeys', 'last', 'since', 'until', 'waiting', ...CAUSE];

/** Whether a total may be too low: the address has filters that no counters cover. */
export function isTotalBound(query: URLSearchParams, total: number): boolean {
  const isUncounted =
    !['', 'accepted', 'rejected'].includes(query.get('outcome') ?? '') ||
    UNCOUNTED.some((name) => (query.get(name) ?? '') !== '');
  return total === COUNTED && isUncounted;
}

/** All filters of a list except the time. */
export type Filter = Readonly<Record<string, string | boolean>>;

export const textsOf = (query: URLSearchParams, names: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.map((name) => [name, query.get(name) ?? '']));

/** Whether the address has any of these filters, a span of time, or a later page. */
export function hasAny(filters: readonly string[]) {
  return (query: URLSearchParams) =>
    [...filters, 'last', 'since', 'until'].some((name) => (query.get(name) ?? '') !== '') || skipOf(query) > 0;
}

/** Whether a flow's name, id or slug contains the text. */
export function flowMatches(
  { name, id, triggers }: Pick<Api['Flow'], 'name' | 'id' | 'triggers'>,
  text: string,
): boolean {
  const wanted = text.trim().toLowerCase();
  return [name, id, ...triggers.map(({ slug }) => slug ?? '')].some((each) => each.toLowerCase().includes(wanted));
}

/** How the rows of a table compare; a column without it cannot be sorted. */
interface Sortable<Row> {
  readonly name: string;
  /** The compared value; rows without one come last in either direction. */
  readonly sortBy?: ((row: Row) => string | number | null) | undefined;
}

interface Sort {
  readonly name: string;
  readonly isDown: boolean;
}

/** The sorting of rows in the address: `failed` or, in the other direction, `-failed`. */
export const sorting = { read: readSort, next: nextSort, rows: sortedRows };

function readSort(text: string | null): Sort | undefined {
  if (text === null || text === '' || text === '-') return undefined;
  const isDown = text.startsWith('-');
  return { name: isDown ? text.slice(1) : text, isDown };
}

/** After a click on a column: largest first, then the other way around, then unsorted. Texts begin with A. */
function nextSort(current: Sort | undefined, name: string, isText: boolean): string | undefined {
  const order = isText ? [name, `-${name}`] : [`-${name}`, name];
  if (current?.name !== name) return order[0];
  const written = current.isDown ? `-${name}` : name;
  return written === order[0] ? order[1] : undefined;
}

function sortedRows<Row>(
  rows: readonly Row[],
  columns: readonly Sortable<Row>[],
  sort: Sort | undefined,
): readonly Row[] {
  const sortBy = columns.find(({ name }) => name === sort?.name)?.sortBy;
  if (sort === undefined || sortBy === undefined) return rows;
  const direction = sort.isDown ? -1 : 1;
  return rows.toSorted((a, b) => compareCells(sortBy(a), sortBy(b), direction));
}

function compareCells(a: string | number | null, b: string | number | null, direction: 1 | -1): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  const order = typeof a === 'string' || typeof b === 'string' ? String(a).localeCompare(String(b), 'en') : a - b;
  return order * direction;
}
