import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { runCli } from '../e2e/cli.ts';
import { eventually, getJson } from '../e2e/service.ts';
import { deliver } from './deliver.ts';
import { copyExample, fakeService, serveExample, variableOf } from './example.ts';

interface Listed {
  readonly id: string;
  readonly status: string;
  readonly searchKeys: { readonly order: string };
  readonly waitingFor: readonly { readonly for: string }[];
}

it('takes orders while the ERP is away, and books every one of them once when it is back', async () => {
  const example = await copyExample('shopify-erp');
  const key = await variableOf(example, 'SHOPIFY_CLIENT_SECRET');
  const url = await variableOf(example, 'ERP_URL');
  const startErp = () => fakeService(url, ({ body }) => ({ body: { booked: JSON.parse(body).name } }));
  const erp = await startErp();
  const service = await serveExample(example);
  // With unusual spelling of numbers and spaces, which the ERP must get unchanged.
  const bodyOf = (name: string) => `{"id": 1e3, "name":"${name}", "total_price": "403.00"}`;
  const order = async (name: string, id: string = randomUUID()) => {
    const headers = { 'x-shopify-topic': 'orders/create', 'x-shopify-webhook-id': id };
    const sent = { slug: 'shopify-orders', scheme: 'Shopify', key, headers, body: bodyOf(name) };
    const { status, body } = await deliver(service, sent);
    expect(status).toBe(200);
    return body;
  };
  const runs = () => getJson<Listed[]>(`${service.url}/flows/api/runs?take=100`);
  const allAre = (isSo: (run: Listed) => boolean) =>
    eventually(runs, (listed) => listed.every(isSo), {
      seconds: 120,
      because: 'a host that was away is asked again after half a minute',
    });
  const sluice = (...args: string[]) => runCli(example, args);

  await order('#1');
  await allAre(({ status }) => status === 'Succeeded');
  await erp.goAway();
  const id = randomUUID();
  const { runId } = await order('#2', id);
  for (const name of ['#3', '#4']) await order(name);
  await eventually(runs, (listed) => listed.filter(({ status }) => status === 'Failed').length >= 3, {
    seconds: 60,
    because: 'each is tried several times',
  });
  // After ten failures in a row Sluice stops calling: these runs do not fail, they wait.
  for (const name of ['#5', '#6']) await order(name);
  await allAre(({ status, waitingFor }) => status !== 'Running' || waitingFor.some((wait) => wait.for === 'host'));
  expect(await order('#2', id)).toMatchObject({ runId });
  expect((await sluice('runs', '--group', '--since', '1h')).stdout).toMatch(/3\s.*Shopify orders\s+book\s/);

  const again = await startErp();
  await allAre(({ status }) => status !== 'Running');
  const filter = ['--flow', 'Shopify orders', '--since', '1h'];
  expect(await sluice('retry', ...filter)).toMatchObject({
    code: 1,
    stdout: expect.stringContaining('retry is for 3'),
  });
  const retried = await sluice('retry', ...filter, '--yes', '--reason', 'the ERP is back');
  expect(retried).toMatchObject({ code: 0, stdout: expect.stringContaining('done: 3 of 3') });
  await allAre(({ status }) => status === 'Succeeded');

  const names = ['#1', '#2', '#3', '#4', '#5', '#6'];
  expect([...erp.asked, ...again.asked].map(({ body }) => body).sort()).toEqual(names.map(bodyOf));
  expect(await getJson(`${service.url}/flows/api/books`)).toMatchObject({
    accepted: 7,
    runs: 6,
    answered: 0,
    duplicates: 1,
    unaccounted: 0,
  });
});
