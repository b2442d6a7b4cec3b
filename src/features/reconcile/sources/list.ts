import { Budget } from '../../../expressions/budget.ts';
import { type CompiledExpression, compileExpression, ExpressionError } from '../../../expressions/compile.ts';
import { nameIn } from '../../../expressions/delivery-expressions.ts';
import { kindOf } from '../../../expressions/values.ts';
import { HEADER_NAME } from '../../../model/delivery.ts';
import { isExactNumber, isJsonArray, isJsonObject, type Json, parseJson } from '../../../model/json.ts';
import { LINK, WINDOW_PLACE } from '../list-schema.ts';
import { TRANSPORT_HEADERS } from '../log-fields.ts';
import type { Reconcile } from '../log-schema.ts';
import {
  refuseLongPage,
  type SentWindow,
  type Source,
  type SourceAnswer,
  SourceError,
  type SourceItem,
  type SourceRequest,
} from '../source.ts';

/** A paged list, as described by a manifest or by the source of one publisher, with its secrets read. */
export interface PagedList {
  readonly url: string;
  readonly requestHeaders?: Readonly<Record<string, string>> | undefined;
  readonly requestQuery?: Readonly<Record<string, string>> | undefined;
  readonly items: string;
  readonly id: string;
  readonly time: string;
  readonly body?: string | undefined;
  readonly headers?: string | Readonly<Record<string, string>> | undefined;
  readonly next?: string | undefined;
  readonly nextQuery?: Readonly<Record<string, string>> | undefined;
}

/** One answer, as expressions over the answer and its items read it. */
interface Page {
  readonly response: { readonly status: number; readonly headers: SourceAnswer['headers']; readonly body: Json };
  /** One budget for the whole page: its cost does not grow with the number of items. */
  readonly budget: Budget;
}

/** Reads a list page by page. All pages are at the first one's origin: every request carries the credentials. */
export function listSource(list: PagedList): Source {
  const requestHeaders = { accept: 'application/json', ...lowerCase(Object.entries(list.requestHeaders ?? {})) };
  const requestQuery = Object.entries(list.requestQuery ?? {});
  const get = (url: URL): SourceRequest => {
    for (const [name, value] of requestQuery) url.searchParams.set(name, value);
    return { method: 'GET', url: url.href, headers: requestHeaders };
  };
  const items = compileExpression(list.items, 'response');
  const readItem = itemReader(list);
  const findNext = nextFinder(list);
  return {
    list: (window) => get(firstPage(list.url, window)),
    read(answer, window) {
      const { status, headers, json: body } = answer;
      const page: Page = { response: { status, headers, body }, budget: new Budget() };
      const found = evaluate(items, page);
      if (!isJsonArray(found)) throw new SourceError(`items: ${items.source} gives ${kindOf(found)}, not a list`);
      refuseLongPage(found);
      const first = firstPage(list.url, window);
      const next = findNext(page, first);
      if (next !== undefined) refuseOtherOrigin(next, first);
      return {
        items: found.map((item, index) => readItem(item, index, page)),
        ...(next === undefined ? {} : { next: get(next) }),
      };
    },
    sent({ headers, content, body, unreadable }) {
      if (unreadable !== undefined) throw new SourceError(unreadable);
      return { headers, bodies: [body ?? Buffer.from(JSON.stringify(content))] };
    },
  };
}

function firstPage(url: string, window: SentWindow): URL {
  return new URL(
    url.replaceAll(WINDOW_PLACE, (_, end: keyof SentWindow, unit?: string) => {
      // Rounded so that the window includes both ends.
      const seconds = end === 'since' ? Math.floor(window.since / 1000) : Math.ceil(window.until / 1000);
      if (unit === 'seconds') return String(seconds);
      return unit === 'milliseconds' ? String(window[end]) : encodeURIComponent(new Date(window[end]).toISOString());
    }),
  );
}

function itemReader(list: PagedList): (item: Json, index: number, page: Page) => SourceItem {
  const [id, time] = [compileExpression(list.id, 'item'), compileExpression(list.time, 'item')];
  const readContents = contentsReader(list);
  return (item, index, page) => {
    const value = (expression: CompiledExpression) => evaluate(expression, page, { item });
    const contents = readContents(item, value);
    try {
      // Evaluated after the contents: if these used up the budget, the whole page is to blame, not each item.
      return { id: nameOf(value(id), id), sentAt: instantOf(value(time), time), ...contents };
    } catch (error) {
      throw error instanceof SourceError ? new SourceError(`item ${index}: ${error.message}`) : error;
    }
  };
}

type Value = (expression: CompiledExpression) => Json;
type Contents = Pick<SourceItem, 'headers' | 'content' | 'body' | 'unreadable'>;

/** An item with missing parts must not keep the others from being read. */
function contentsReader(list: PagedList): (item: Json, value: Value) => Contents {
  const body = list.body === undefined ? undefined : compileExpression(list.body, 'item');
  const readHeaders = headersReader(list.headers);
  return (item, value) => {
    try {
      const sent = body === undefined ? item : value(body);
      const headers = readHeaders(value);
      return typeof sent === 'string' ? textBody(sent, headers) : jsonBody(sent, headers);
    } catch (error) {
      if (error instanceof SourceError) return { headers: {}, unreadable: error.message };
      throw error;
    }
  };
}

const JSON_TYPE = { 'content-type': 'application/json' };

function jsonBody(content: Json, headers: SourceItem['headers']): Contents {
  return { headers: { ...JSON_TYPE, ...headers }, content };
}

/** A text is the body itself, byte for byte, so that a signature among the headers verifies. */
function textBody(text: string, headers: SourceItem['headers']): Contents {
  const body = Buffer.from(text);
  try {
    return { headers: { ...JSON_TYPE, ...headers }, content: parseJson(text), body };
  } catch {
    // Not JSON, so it has no content to read.
    return { headers, body };
  }
}

const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

function headersReader(written: PagedList['headers']): (value: Value) => SourceItem['headers'] {
  if (written === undefined) return () => ({});
  if (typeof written !== 'string') {
    const each = Object.entries(written).map(([name, source]) => [name, compileExpression(source, 'item')] as const);
    return (value) => headersOf(each.map(([name, expression]) => [name, value(expression)]));
  }
  const all = compileExpression(written, 'item');
  return (value) => {
    const found = value(all) ?? {};
    if (!isJsonObject(found) || isExactNumber(found)) {
      throw new SourceError(`headers: ${written} gives ${kindOf(found)}, not an object`);
    }
    return headersOf(Object.entries(found));
  };
}

const SHOWN_CHARACTERS = 100;

/** Shows a text of the answer whole or not at all, because masking does not find half a secret. */
const shown = (text: string) =>
  text.length <= SHOWN_CHARACTERS ? JSON.stringify(text) : `a text of ${text.length} characters`;

/** Leaves out null values: an item need not have every header. */
function headersOf(entries: readonly (readonly [name: string, value: Json])[]): SourceItem['headers'] {
  const texts = entries.flatMap(([name, value]): [string, string][] => {
    if (value === null || TRANSPORT_HEADERS.has(name.toLowerCase())) return [];
    const text = isExactNumber(value) ? value.rawJSON : typeof value === 'object' ? undefined : String(value);
    if (text === undefined) throw new SourceError(`headers: ${shown(name)} is ${kindOf(value)}, not a text`);
    if (HEADER_NAME.test(name) && HEADER_VALUE.test(text)) return [[name, text]];
    throw new SourceError(`headers: ${shown(name)} cannot be sent as a header`);
  });
  return lowerCase(texts);
}

function lowerCase(entries: readonly (readonly [name: string, text: string])[]): Record<string, string> {
  return Object.fromEntries(entries.map(([name, text]) => [name.toLowerCase(), text]));
}

// Smaller numbers are seconds up to the year 5138, others milliseconds since 1973.
const FIRST_MILLISECONDS = 1e11;
const LAST_INSTANT = 8.64e15;
const RFC_3339 = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)$/;

/** Milliseconds since the Unix epoch. */
function instantOf(value: Json, { source }: CompiledExpression): number {
  const count = typeof value === 'string' && !/^\d+(\.\d+)?$/.test(value) ? Number.NaN : numberOf(value);
  const text = typeof value === 'string' && RFC_3339.test(value) ? value : '';
  const ms = Number.isNaN(count) ? Date.parse(text) : Math.trunc(count < FIRST_MILLISECONDS ? count * 1000 : count);
  if (ms >= 0 && ms <= LAST_INSTANT) return ms;
  throw new SourceError(`time: ${source} gives no time: RFC 3339, or seconds or milliseconds since 1970, are accepted`);
}

function nameOf(value: Json, { source }: CompiledExpression): string {
  try {
    return nameIn(value, source, 'an id is a text or a number');
  } catch (error) {
    throw error instanceof ExpressionError ? new SourceError(error.message) : error;
  }
}

function numberOf(value: Json): number {
  if (typeof value === 'string' || typeof value === 'number') return Number(value);
  return isExactNumber(value) ? Number(value.rawJSON) : Number.NaN;
}

type FindNext = (page: Page, first: URL) => URL | undefined;

function nextFinder({ next, nextQuery }: PagedList): FindNext {
  if (nextQuery !== undefined) return queryFinder(nextQuery);
  if (next === undefined) return () => undefined;
  const expression = next === LINK ? undefined : compileExpression(next, 'response');
  return (page, first) => {
    const found = expression === undefined ? nextLink(page.response.headers.link) : evaluate(expression, page);
    if (isEnd(found)) return undefined;
    if (typeof found === 'string' && URL.canParse(found, first.href)) return new URL(found, first);
    throw new SourceError(`next: ${next} gives no URL`);
  };
}

/** The first page with other parameters; no next page if one of these has no value. */
function queryFinder(nextQuery: Readonly<Record<string, string>>): FindNext {
  const compiled = Object.entries(nextQuery).map(
    ([name, source]) => [name, compileExpression(source, 'response')] as const,
  );
  return (page, first) => {
    const url = new URL(first);
    for (const [name, expression] of compiled) {
      const found = evaluate(expression, page);
      if (isEnd(found)) return undefined;
      url.searchParams.set(name, textOf(found, expression));
    }
    return url;
  };
}

function textOf(value: Json | undefined, { source }: CompiledExpression): string {
  if (typeof value === 'string' || typeof value === 'number') return String(value);
  if (isExactNumber(value)) return value.rawJSON;
  throw new SourceError(`nextQuery: ${source} gives neither a text nor a number`);
}

const isEnd = (found: Json | undefined) => found === undefined || found === null || found === '' || found === false;

/** The target of `rel=next` in a Link header: RFC 8288. */
function nextLink(header = ''): string | undefined {
  return [...header.matchAll(/<([^<>]*)>([^<]*)/g)].find(([, , parameters = '']) => isNext(parameters))?.[1];
}

function isNext(parameters: string): boolean {
  const [, ...values] = parameters.toLowerCase().split(/;\s*rel\s*=/);
  return values.some((value) =>
    value
      .split(';', 1)[0]
      ?.split(/[\s",]+/)
      .includes('next'),
  );
}

/** Shows only the origin: the rest of the URL may contain a cursor that gives access to the list. */
function refuseOtherOrigin(next: URL, first: URL): void {
  if (next.origin !== first.origin || next.username !== '' || next.password !== '') {
    throw new SourceError(
      `the next page is at ${shown(next.origin)}, not at ${first.origin}: the credentials are not sent there`,
    );
  }
  if (next.href === first.href) throw new SourceError('the next page is the first one again');
}

function evaluate(
  expression: CompiledExpression,
  { response, budget }: Page,
  more: Readonly<Record<string, Json>> = {},
) {
  try {
    return expression.evaluateIn({ roots: { response, ...more }, budget });
  } catch (error) {
    if (error instanceof ExpressionError) throw new SourceError(error.message);
    throw error;
  }
}

type StripeConfig = Extract<Reconcile, { from: 'stripe' }>;

/**
 * Events of the last 30 days that an endpoint has not answered with 2xx, newest first: docs.stripe.com/api/events/list
 * and docs.stripe.com/webhooks/process-undelivered-events, read 2026-11. Their data is as of their creation, but never
 * the bytes that were signed.
 */
export function stripeSource({ token, types = [], baseUrl = 'https://api.stripe.com' }: StripeConfig): Source {
  const window = 'created[gte]={since:seconds}&created[lte]={until:seconds}';
  const ofTypes = types.map((type) => `&types[]=${type}`).join('');
  return listSource({
    url: `${baseUrl.replace(/\/$/, '')}/v1/events?limit=100&delivery_success=false&${window}${ofTypes}`,
    requestHeaders: { authorization: `Bearer ${token}` },
    items: 'response.body.data',
    id: 'item.id',
    time: 'item.created',
    nextQuery: {
      starting_after: 'response.body.has_more ? response.body.data[size(response.body.data) - 1].id : ""',
    },
  });
}

type ShopifyConfig = Extract<Reconcile, { from: 'shopify' }>;

/** Without this filter, a list omits closed and cancelled orders. */
const FILTERS: Readonly<Record<ShopifyConfig['topic'], string>> = {
  'orders/create': '&status=any',
  'customers/create': '',
  'products/create': '',
};

/**
 * Shopify has no log of its deliveries, but a delivery contains the resource as in the REST Admin API, which can list
 * resources by creation time: shopify.dev/docs/api/admin-rest and its page on pagination, read 2026-11. Contents are
 * those of now.
 */
export function shopifySource({ shop, topic, token, version, baseUrl = `https://${shop}` }: ShopifyConfig): Source {
  const [resource] = topic.split('/');
  const window = 'created_at_min={since}&created_at_max={until}';
  return listSource({
    url: `${baseUrl.replace(/\/$/, '')}/admin/api/${version}/${resource}.json?limit=250&${window}${FILTERS[topic]}`,
    requestHeaders: { 'x-shopify-access-token': token },
    items: `response.body.${resource}`,
    id: 'item.admin_graphql_api_id',
    time: 'item.created_at',
    headers: { 'x-shopify-topic': JSON.stringify(topic), 'x-shopify-shop-domain': JSON.stringify(shop) },
    next: 'link',
  });
}
