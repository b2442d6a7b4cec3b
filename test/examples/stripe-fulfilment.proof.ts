import { expect, it } from 'vitest';
import { eventually, getJson, type Service } from '../e2e/service.ts';
import { deliver } from './deliver.ts';
import { copyExample, fakeService, serveExample, variableOf } from './example.ts';

const charge = (id: string, type: string, order: string) =>
  JSON.stringify({ id, type, data: { object: { amount: 4200, amount_refunded: 0, metadata: { order } } } });

const endOf = (service: Service, runId: string) =>
  eventually(
    () => getJson<{ status: string }>(`${service.url}/flows/api/runs/${runId}`),
    ({ status }) => status !== 'Running',
    { seconds: 60, because: 'events wait for those before them, one of which is sent again after a pause' },
  );

it('fulfils the events of an order one at a time in the order of their arrival, through a kill, each of them once', async () => {
  const example = await copyExample('stripe-fulfilment');
  const key = await variableOf(example, 'STRIPE_WEBHOOK_SECRET');
  let lateAnswer = new Promise<void>(() => {});
  const fulfilment = await fakeService(await variableOf(example, 'FULFILMENT_URL'), async ({ body }) => {
    const { order, event } = JSON.parse(body);
    // It has received the payment of the first order; the calling service dies before the answer.
    if (order === 'SO-1' && event === 'charge.succeeded') await lateAnswer;
    const hasFailed = fulfilment.asked.filter((asked) => asked.body.includes('charge.updated')).length > 1;
    return event === 'charge.updated' && !hasFailed ? { status: 503 } : { status: 200 };
  });
  let service = await serveExample(example);
  const send = (body: string, at = new Date()) =>
    deliver(service, { slug: 'stripe-orders', scheme: 'Stripe', key, body, at });

  const events = ['charge.succeeded', 'charge.updated', 'charge.refunded'];
  const runIds: string[] = [];
  for (const type of events) {
    const { status, body } = await send(charge(`evt_${type}`, type, 'SO-1'));
    expect(status).toBe(200);
    runIds.push(body.runId);
  }
  const other = await send(charge('evt_other', 'charge.succeeded', 'SO-2'));
  // The other order does not wait for this one.
  expect(await endOf(service, other.body.runId)).toMatchObject({ status: 'Succeeded' });
  await eventually(
    async () => fulfilment.asked.map(({ body }) => body),
    (bodies) => bodies.some((body) => body.includes('SO-1')),
  );
  await service.stop('SIGKILL');
  lateAnswer = Promise.resolve();
  service = await serveExample(example);
  for (const runId of runIds) expect(await endOf(service, runId)).toMatchObject({ status: 'Succeeded' });

  const ofOrder = fulfilment.asked.filter(({ body }) => body.includes('SO-1'));
  expect(ofOrder.map(({ body }) => JSON.parse(body).event)).toEqual([
    'charge.succeeded',
    'charge.succeeded',
    'charge.updated',
    'charge.updated',
    'charge.refunded',
  ]);
  // Fulfilment can recognise repeated calls.
  expect(new Set(ofOrder.map(({ headers }) => headers['idempotency-key'])).size).toBe(3);

  const retried = await send(charge('evt_charge.succeeded', 'charge.succeeded', 'SO-1'), new Date(Date.now() - 60_000));
  expect(retried).toMatchObject({ status: 200, body: { runId: runIds[0], duplicate: true } });
  expect(await send(charge('evt_5', 'customer.created', 'SO-1'))).toMatchObject({ body: { filtered: true } });
  const forged = { slug: 'stripe-orders', scheme: 'Stripe', key: 'whsec_of_someone_else' };
  const body = charge('evt_6', 'charge.refunded', 'SO-1');
  expect(await deliver(service, { ...forged, body })).toMatchObject({ status: 401 });
  expect(await getJson(`${service.url}/flows/api/books`)).toMatchObject({
    accepted: 6,
    runs: 4,
    answered: 0,
    duplicates: 1,
    filtered: 1,
    unaccounted: 0,
  });
});
