import { afterEach, expect, it } from 'vitest';
import { eventually } from '../e2e/service.ts';
import { type FakeAnswer, json, refused, serveApi } from './fakes/fake-api.ts';
import { FLOW_ID, reconcilingFolder, startReconciling } from './reconciling.ts';

const TOKEN = 'a-token-of-the-api-0123456789';
const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** A service whose trigger is reconciled with a list that answers so. */
async function asking(answer: (page: number, origin: string) => FakeAnswer, header = 'X-Api-Key') {
  const log = await serveApi(({ url }) => answer(Number(url.searchParams.get('page') ?? 0), url.origin));
  const reconcile = {
    ...{
      from: 'list',
      url: `${log.url}/sent?since={since}&until={until}`,
      requestHeaders: { [header]: TOKEN },
      items: 'response.body',
    },
    ...{ id: 'item.id', time: 'item.at', body: 'item.body', next: 'link', every: 'PT1S', lookback: 'P1D' },
  };
  const hook = { type: 'webhook', inputs: { webhookSlug: 'hook', webhookEventId: 'body.id' }, reconcile };
  const place = await reconcilingFolder({ id: FLOW_ID, version: '1', triggers: { hook }, steps: {} });
  ends.push(place.remove);
  const service = await startReconciling(place.folder);
  ends.push(service.close);
  return { ...service, log };
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

it.each<[string, FakeAnswer, string]>([
  ['no JSON', { status: 200, body: '<html>' }, 'answered with what is not JSON'],
  ['no list', json({ error: 'maintenance' }), 'response.body gives an object, not a list'],
  ['an item without a time', json([{ id: 1, body: {} }]), 'item 0: expression \\"item.at\\": there is no item.at'],
  ['an error', { status: 500, body: '' }, 'answered 500'],
])('tells that the log answers with %s', async (_, answer, why) => {
  const { logged } = await asking(() => answer);
  await eventually(async () => logged, isTold(why));
});

it.each(['X-Api-Key', 'X-Own'])('never repeats a token that an answer repeats, sent as %s', async (header) => {
  const { logged } = await asking(() => refused(401, `the key ${TOKEN} is not valid`), header);
  await eventually(async () => logged, isTold('answered 401: the key *** is not valid'));
  expect(String(logged)).not.toContain(TOKEN);
});
