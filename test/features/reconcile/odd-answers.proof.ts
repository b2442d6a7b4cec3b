import { afterEach, expect, it } from 'vitest';
import { reconcileStore } from '../../../src/features/reconcile/store.ts';
import { eventually } from '../../e2e/service.ts';
import { serve } from '../../flows/handlers/loopback-server.ts';
import { type FakeAnswer, json, refused, serveApi } from './fakes/fake-api.ts';
import { FLOW_ID, reconcilingFolder, startReconciling } from './reconciling.ts';

const TOKEN = 'a-token-of-the-api-0123456789';
const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** A service whose trigger is reconciled with a list that gives these answers. */
async function asking(answer: (page: number) => FakeAnswer, header = 'X-Api-Key') {
  const log = await serveApi(({ url }) => answer(Number(url.searchParams.get('page') ?? 0)));
  const service = await reconciledWith({
    ...{
      from: 'list',
      url: `${log.url}/sent?since={since}&until={until}`,
      requestHeaders: { [header]: TOKEN },
      items: 'response.body',
    },
    ...{ id: 'item.id', time: 'item.at', body: 'item.body', next: 'link' },
  });
  return { ...service, log };
}

/** A service with a trigger for each log. */
async function reconciledWith(...logs: readonly object[]) {
  const triggers = logs.map((given, at) => {
    const reconcile = { every: 'PT1S', lookback: 'P1D', ...given };
    const inputs = { webhookSlug: `hook${at}`, webhookEventId: 'body.id' };
    return [`hook${at}`, { type: 'webhook', inputs, reconcile }];
  });
  const manifest = { id: FLOW_ID, version: '1', triggers: Object.fromEntries(triggers), steps: {} };
  const place = await reconcilingFolder(manifest);
  ends.push(place.remove);
  const service = await startReconciling(place.folder);
  ends.push(service.close);
  return service;
}

const isTold = (why: string) => (lines: readonly string[]) => lines.some((line) => line.includes(why));

it('asks for no time that ends before it begins, even at its first look', async () => {
  const { log } = await asking(() => json([]));
  const [request] = await eventually(
    async () => log.received,
    ({ length }) => length > 0,
  );
  const { searchParams } = new URL(request?.url ?? '', log.url);
  expect(Date.parse(searchParams.get('since') ?? '')).toBeLessThanOrEqual(Date.parse(searchParams.get('until') ?? ''));
});

it('does not ask another host for the next page', async () => {
  const other = await serveApi(() => json([]));
  const { logged } = await asking(() => json([], { link: `<${other.url}/sent?page=1>; rel="next"` }));
  await eventually(async () => logged, isTold('the credentials are not sent there'));
  expect(other.received).toEqual([]);
});

it('asks other hosts while one takes its time with all that is asked of it', async () => {
  const slow = await serve(() => {});
  const other = await serveApi(() => json([]));
  const list = (url: string, place: number) => ({
    ...{ from: 'list', url: `${url}/sent${place}?since={since}`, requestHeaders: { 'X-Api-Key': TOKEN } },
    ...{ items: 'response.body', id: 'item.id', time: 'item.at', body: 'item.body' },
  });
  await reconciledWith(...Array.from({ length: 12 }, (_, place) => list(slow.origin, place)), list(other.url, 0));
  await eventually(
    async () => other.received,
    ({ length }) => length > 1,
  );
  await eventually(
    () => slow.received,
    ({ length }) => length >= 2,
  );
  expect(slow.received).toHaveLength(2);
});

it('follows no redirect', async () => {
  const other = await serveApi(() => json([]));
  const { logged } = await asking(() => ({ status: 302, headers: { location: other.url }, body: '' }));
  await eventually(async () => logged, isTold('redirects are not followed'));
  expect(other.received).toEqual([]);
});

it('ends a loop of pages', async () => {
  const { logged, log } = await asking((page) => json([], { link: `<?page=${(page % 2) + 1}>; rel="next"` }));
  await eventually(async () => logged, isTold('pages for this time'));
  expect(log.received.length).toBeLessThan(1000);
});

it('tells that the log answers with an item that it cannot place in time', async () => {
  const { logged } = await asking(() => json([{ id: 1, body: {} }]));
  await eventually(async () => logged, isTold('item 0: expression \\"item.at\\": there is no item.at'));
});

it.each(['X-Api-Key', 'X-Own'])('never repeats a token that an answer repeats, sent as %s', async (header) => {
  const { logged } = await asking(() => refused(401, `the key ${TOKEN} is not valid`), header);
  await eventually(async () => logged, isTold('answered 401: the key *** is not valid'));
  expect(String(logged)).not.toContain(TOKEN);
});

it.each<[string, (bare: string) => FakeAnswer]>([
  ['in a message', (bare) => refused(401, `bad: ${bare}, ${encodeURIComponent(bare)}, ${btoa(bare)}`)],
  [
    'as the host of the next page',
    (bare) => json([], { link: `<https://${bare.toLowerCase()}.example/>; rel="next"` }),
  ],
])('never repeats the credential alone of an authorization that an answer repeats %s', async (_, answer) => {
  const bare = 'a-token-0123456789-of-the-api';
  let asked = 0;
  const log = await serveApi(() => (asked++ === 0 ? json([]) : answer(bare)));
  const service = await reconciledWith({
    ...{ from: 'list', url: `${log.url}/sent`, requestHeaders: { Authorization: `Bearer ${bare}` } },
    ...{ items: 'response.body', id: 'item.id', time: 'item.at', next: 'link' },
  });
  const told = await eventually(
    () => service.get<{ kind: string }[]>('/flows/api/attention'),
    (items) => items.some(({ kind }) => kind === 'reconcile_failing'),
  );
  const all = `${JSON.stringify(told)}${service.logged.join()}${JSON.stringify(await service.app.store.of(reconcileStore).listReconciliations())}`;
  for (const form of [bare, bare.slice(0, 10), btoa(bare)]) expect(all).not.toContain(form);
});

it('is not said to be away where the service stops while it is asked', async () => {
  const { origin, received } = await serve((_, response) => {
    if (received.length === 1) response.end('[]');
  });
  const { app, close, logged } = await reconciledWith({
    ...{ from: 'list', url: `${origin}/sent`, items: 'response.body', id: 'item.id', time: 'item.at' },
  });
  await eventually(
    async () => received,
    ({ length }) => length >= 2,
  );
  const rows = app.store.of(reconcileStore);
  const { endReconciliation } = rows;
  let state: unknown;
  Object.assign(rows, {
    endReconciliation: (ended: Parameters<typeof endReconciliation>[0]) => {
      state = ended.state;
      return endReconciliation(ended);
    },
  });
  await close();
  expect(state).toMatchObject({ failure: null });
  expect(logged.join()).not.toContain('cannot be asked');
});

it('signs in again where what it signed in with is refused', async () => {
  const tokens: string[] = [];
  const log = await serveApi(({ url, headers }) => {
    if (url.pathname.endsWith('/token')) {
      tokens.push(`t${tokens.length + 1}`);
      return json({ access_token: tokens.at(-1), expires_in: 3599 });
    }
    return headers.authorization === 'Bearer t2' ? json({ value: [] }) : refused(401, 'withdrawn');
  });
  const { logged } = await reconciledWith({
    ...{ from: 'graph', resource: 'users/ada@example.com/messages', changeType: 'created', tenant: 'example.com' },
    ...{ clientId: '11111111-2222-4333-8444-555555555555', clientSecret: TOKEN, baseUrl: log.url, loginUrl: log.url },
  });
  await eventually(async () => logged, isTold('the log of a publisher can be asked again'));
  expect(tokens).toHaveLength(2);
});
