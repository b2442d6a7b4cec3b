import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { runFlow } from '@sluicehq/sluice/testing';
import { handlers } from './handlers.ts';

const read = (name: string) => readFileSync(new URL(name, import.meta.url), 'utf8');
const manifest = JSON.parse(read('manifests/orders.json'));
const body = JSON.parse(read('order.json'));
const secretsAt = (url: string) => ({
  'env:INVOICES_URL': `${url}/invoices`,
  'env:STOCK_URL': `${url}/reservations`,
  'env:MAIL_URL': `${url}/mails`,
  'env:SERVICES_TOKEN': 'the token',
});

test('an order is done without its mail, but not without its stock', async () => {
  const stubs = { CreateInvoice: () => 1, ReserveStock: () => 2, SendMail: () => 3 };
  const fails = () => Promise.reject(new Error('away'));
  const secrets = secretsAt('http://127.0.0.1:1');
  const withoutMail = await runFlow(manifest, { body, secrets, handlers: { ...stubs, SendMail: fails } });
  assert.equal(withoutMail.steps.done?.output, 'SO-1010: invoice 1, reservation 2');
  const withoutStock = await runFlow(manifest, { body, secrets, handlers: { ...stubs, ReserveStock: fails } });
  assert.equal(withoutStock.steps.done?.status, 'Skipped');
});

test('a service that is busy is asked again with the same key, and one that refuses is not', async () => {
  const seen: { path: string; key: string }[] = [];
  const server = createServer(({ url = '', headers }, response) => {
    seen.push({ path: url, key: String(headers['idempotency-key']) });
    const isFirst = seen.filter(({ path }) => path === url).length === 1;
    response.statusCode = url === '/mails' ? 400 : url === '/invoices' && isFirst ? 503 : 200;
    response.end('{"id":9}');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const secrets = secretsAt(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const table = Object.fromEntries(handlers.map((handler) => [handler.type, handler]));
  const run = await runFlow(manifest, { body, secrets, handlers: table });
  server.close();
  assert.deepEqual([run.steps.invoice?.attemptCount, run.steps.mail?.attemptCount], [2, 1]);
  const [first, second] = seen.filter(({ path }) => path === '/invoices');
  assert.equal(first?.key, second?.key);
});
