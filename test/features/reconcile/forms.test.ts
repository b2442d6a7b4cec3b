import { describe, expect, it, test } from 'vitest';
import { formatPath } from '../../../src/expressions/json-path.ts';
import { reconcileSchema } from '../../../src/features/reconcile/log-schema.ts';
import { parseWith } from '../../../src/manifest/issues.ts';
import type { JsonObject } from '../../../src/model/json.ts';

const list = {
  from: 'list',
  url: 'https://a.example/?s={since}',
  items: 'response.body',
  id: 'item.id',
  time: 'item.at',
};
const stripe = { from: 'stripe', token: 'env:KEY' };
const shopify = {
  from: 'shopify',
  shop: 'a.myshopify.com',
  topic: 'orders/create',
  token: 'env:KEY',
  version: '2026-10',
};
const graph = {
  from: 'graph',
  resource: 'users/ada@example.com/messages',
  changeType: 'created',
  tenant: 'example.com',
  clientId: '11111111-2222-4333-8444-555555555555',
  clientSecret: 'env:KEY',
};

describe('a source of what was missed', () => {
  test.each<[string, JsonObject]>([
    ['a list', list],
    ['a list that takes a key in its query', { ...list, requestQuery: { api_key: 'env:KEY' } }],
    ['a list that gives all headers', { ...list, headers: 'item.headers' }],
    ['a list with single headers', { ...list, headers: { 'X-Event': 'item.type' } }],
    ['a list with links', { ...list, next: 'link' }],
    ['a list with cursors', { ...list, nextQuery: { after: 'response.body.cursor' } }],
    ['Stripe', stripe],
    ['Shopify', shopify],
    ['Microsoft Graph', graph],
    ['a folder of a mailbox', { ...graph, resource: "users/ada@example.com/mailFolders('inbox')/messages" }],
  ])('may be %s', (_, written) => {
    expect(parseWith(reconcileSchema, written)).toMatchObject({ value: { every: 'PT15M', lookback: 'P2D' } });
  });

  test.each<[JsonObject, string, string]>([
    [{ ...list, url: 'https://a.example/?s={now}' }, 'url', 'has braces around something else'],
    ...[
      ['https://a.example/?x={since:days}', 'has braces around something else'],
      ['https://a.example/{', 'has braces around something else'],
      ['ftp://a.example/', 'is not an absolute http or https URL'],
      ['a.example/events', 'is not an absolute http or https URL'],
      ['env:LIST_URL', 'is not an absolute http or https URL'],
      ['https://u:p@a.example/', 'has user information in it'],
      ['https://a.example/?api_key=k', 'has a credential in it'],
      ['https://a.example/#top', 'has a fragment'],
      ['https://a.example:{since:seconds}/', 'has an end of the window in its host or port'],
      ['https://{until:seconds}.example?a=b', 'has an end of the window in its host or port'],
    ].map(([url = '', message = '']): [JsonObject, string, string] => [{ ...list, url }, 'url', message]),
    [{ ...list, items: 'item.x' }, 'items', '"item" is not known; expressions over an answer read response'],
    [
      { ...list, id: 'body.id' },
      'id',
      '"body" is not known; expressions over an item of a list read item and response',
    ],
    [{ ...list, headers: 'item.' }, 'headers', 'Expected IDENTIFIER'],
    [{ ...list, headers: { x: 'item.' } }, 'headers.x', 'Expected IDENTIFIER'],
    [{ ...list, next: 'links' }, 'next', '"links" is not known'],
    [{ ...list, nextQuery: {} }, 'nextQuery', 'is empty'],
    [{ ...list, next: 'link', nextQuery: { a: '1' } }, 'nextQuery', 'is set next to next'],
    [{ ...list, baseUrl: 'https://b.example' }, 'baseUrl', 'is not known'],
    [{ ...list, token: 'env:KEY' }, 'token', 'is not known'],
    [{ ...stripe, types: [] }, 'types', 'is empty'],
    [{ ...stripe, types: ['invoice.*'] }, 'types[0]', 'is not a type of event'],
    [{ ...shopify, shop: 'shop.example.com' }, 'shop', 'is not the domain of a shop'],
    [{ ...shopify, topic: 'orders/updated' }, 'topic', 'orders/create'],
    [{ ...shopify, version: 'latest' }, 'version', 'is not a version of the Admin API'],
    [{ ...graph, resource: 'me/messages' }, 'resource', 'is not users/ID/ and messages'],
    [{ ...graph, resource: 'users/a/messages?$top=1' }, 'resource', 'is not users/ID/ and messages'],
    [{ ...graph, resource: 'users/a"b/messages' }, 'resource', 'is not users/ID/ and messages'],
    [{ ...graph, clientId: 'app' }, 'clientId', 'is not a GUID'],
    [{ ...graph, changeType: 'deleted' }, 'changeType', 'created'],
  ])('%j is refused', (written, path, message) => {
    expect(problemsOf(written)).toEqual([[path, expect.stringContaining(message)]]);
  });

  it('sets no header of the connection itself', () => {
    expect(problemsOf({ ...list, requestHeaders: { Host: 'b.example' } })).toHaveLength(1);
  });
});

function problemsOf(written: JsonObject): (readonly [string, string])[] {
  const parsed = parseWith(reconcileSchema, written);
  return 'problems' in parsed ? parsed.problems.map(({ path, message }) => [formatPath(path), message]) : [];
}
