import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { text } from 'node:stream/consumers';
import pino from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { readSettings } from '../src/config/settings.ts';
import { createEarlyAnswers } from '../src/early-answers.ts';

test('a start that migrates is alive, not ready for that reason, and refuses deliveries for the usual one', async () => {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as { port: number };
  probe.close();
  await once(probe, 'close');
  const settings = readSettings({ SLUICE_PORT: String(port) });
  const early = createEarlyAnswers({ settings, logger: pino({ level: 'silent' }) });
  onTestFinished(() => early.close());
  await early.migrating(['0002-more']);
  const ask = async (path: string, options?: RequestInit) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, options);
    return {
      status: response.status,
      body: await response.json(),
      deliveryId: response.headers.get('sluice-delivery'),
      policy: response.headers.get('content-security-policy'),
    };
  };
  const policy = "default-src 'none'; sandbox";
  expect(await ask('/health/live')).toEqual({ status: 200, body: { status: 'live' }, deliveryId: null, policy });
  const message = 'The database is being migrated: 0002-more';
  expect(await ask('/health/ready')).toMatchObject({ status: 503, body: { reason: 'migrating', message } });
  const delivered = await ask('/flows/api/webhook/push', { method: 'POST', body: 'x'.repeat(1_000_000) });
  expect(delivered).toMatchObject({ status: 503, body: { reason: 'store_unavailable' }, policy });
  expect(delivered.deliveryId).toMatch(/^[0-9a-f-]{36}$/);
  const socket = connect(port, '127.0.0.1').end('no request\r\n\r\n');
  expect(await text(socket)).toMatch(/^HTTP\/1\.1 400 /);
});
