import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { ROOT } from '../docs/pages.ts';
import { eventually, getJson } from '../e2e/service.ts';
import { Webhook } from '../oracles/standard-webhooks.ts';
import { copyExample, fakeService, serveExample, variableOf } from './example.ts';

it('calls three services at once, each until it has the order, and never twice for one event', async () => {
  const example = await copyExample('fan-out');
  const key = await variableOf(example, 'ORDERS_WEBHOOK_SECRET');
  const paths = ['/invoices', '/mails', '/reservations'];
  const fake = await fakeService(await variableOf(example, 'INVOICES_URL'), async ({ path }) => {
    // None is answered before all are called: a flow that called them in sequence would fail here.
    await eventually(
      async () => new Set(fake.asked.map((asked) => asked.path)),
      (asked) => asked.size === 3,
    );
    if (path === '/mails') return { status: 400 };
    const isFirst = fake.asked.filter((asked) => asked.path === path).length === 1;
    return path === '/reservations' && isFirst ? { status: 503 } : { body: { id: 7 } };
  });
  const service = await serveExample(example);
  const body = await readFile(join(example.folder, 'order.json'), 'utf8');
  const send = async (id: string, at = new Date()) => {
    const headers = {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new Webhook(key).sign(id, at, body),
    };
    const response = await fetch(`${service.url}/flows/api/webhook/new-orders`, { method: 'POST', headers, body });
    return { status: response.status, body: (await response.json()) as { runId: string } };
  };

  const { status, body: answer } = await send('msg_1');
  expect(status).toBe(200);
  const run = await eventually(
    () => getJson<{ status: string }>(`${service.url}/flows/api/runs/${answer.runId}`),
    (shown) => shown.status !== 'Running',
  );
  expect(run).toMatchObject({ status: 'Succeeded' });
  await eventually(service.output, (text) => text.includes('SO-1010: invoice 7, reservation 7'));
  expect([...new Set(fake.asked.map(({ path }) => path))].sort()).toEqual(paths);
  const reservations = fake.asked.filter(({ path }) => path === '/reservations');
  expect(reservations).toHaveLength(2);
  expect(new Set(reservations.map(({ headers }) => headers['idempotency-key'])).size).toBe(1);
  expect(fake.asked.filter(({ path }) => path === '/mails')).toHaveLength(1);

  expect(await send('msg_1', new Date(Date.now() - 60_000))).toMatchObject({
    status: 200,
    body: { runId: answer.runId },
  });
  expect(fake.asked).toHaveLength(4);
  const token = await variableOf(example, 'SERVICES_TOKEN');
  expect(new Set(fake.asked.map(({ headers }) => headers.authorization))).toEqual(new Set([`Bearer ${token}`]));
  expect(service.output()).not.toContain(token);
});

it('has tests of its own, which pass', async () => {
  const args = ['--test', join(ROOT, 'examples/fan-out/orders.test.ts')];
  const { stdout } = await promisify(execFile)(process.execPath, args, { env: { PATH: process.env.PATH ?? '' } });
  expect(stdout).toMatch(/pass 2\n/);
  expect(stdout).toMatch(/fail 0\n/);
});
