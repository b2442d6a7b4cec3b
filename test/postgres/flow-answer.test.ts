import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import pino from 'pino';
import { expect, inject, onTestFinished, test } from 'vitest';
import { buildApp } from '../../src/app.ts';
import { temporaryFolder } from '../temporary.ts';
import { borrowSchema } from './schemas.ts';

const hook = (webhookSlug: string, more: object = {}) => ({
  hook: { type: 'webhook', inputs: { webhookSlug, webhookEnforcementMode: 'Off', ...more } },
});

/** A server that holds its answers until told to answer. */
async function holdingServer() {
  const held: ServerResponse[] = [];
  const server = createServer((_, response) => {
    held.push(response);
    server.emit('held');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    for (const response of held) response.end();
    server.close();
  });
  return { held, server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` };
}

test('a delivery that one replica took is answered by a step that another one ran', async () => {
  const databaseUrl = inject('postgresUrl');
  const databaseSchema = borrowSchema();
  const manifests = temporaryFolder('answer');
  const { held, server, url } = await holdingServer();
  const blocking = { call: { type: 'HttpRequest', inputs: { url } } };
  const replying = {
    first: { type: 'NoOp' },
    reply: {
      type: 'Transform',
      inputs: { value: { status: 201, body: `hello \${trigger.body.name}` } },
      runAfter: { first: ['Succeeded'] },
    },
  };
  const flows = [
    ['0c000000-0000-4000-8000-000000000001', hook('blocking'), blocking],
    [
      '0c000000-0000-4000-8000-000000000002',
      hook('replying', { webhookRespond: { step: 'reply', withinSeconds: 20 } }),
      replying,
    ],
  ] as const;
  for (const [id, triggers, steps] of flows) {
    const name = triggers.hook.inputs.webhookSlug;
    await writeFile(join(manifests, `${name}.json`), JSON.stringify({ id, name, version: '1', triggers, steps }));
  }
  const start = async (replicaName: string, stepConcurrency: number) => {
    const shared = { databaseUrl, databaseSchema, manifests, host: '127.0.0.1', port: 0, drainSeconds: 0 };
    const settings = { ...shared, replicaName, stepConcurrency, egressAllow: '127.0.0.1', shutdownGraceSeconds: 0 };
    const app = await buildApp({ settings, logger: pino({ level: 'silent' }) });
    onTestFinished(() => app.close());
    return app.listen();
  };
  const deliver = (to: string, slug: string) =>
    fetch(`${to}/flows/api/webhook/${slug}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"name":"Ada"}',
    });

  // The first replica's only slot is taken before another replica exists.
  const one = await start('one', 1);
  expect((await deliver(one, 'blocking')).status).toBe(200);
  if (held.length === 0) await once(server, 'held');
  await start('two', 8);

  const answer = await deliver(one, 'replying');
  expect([answer.status, await answer.text()]).toEqual([201, 'hello Ada']);
  expect(held.map(({ writableEnded }) => writableEnded)).toEqual([false]);
});
