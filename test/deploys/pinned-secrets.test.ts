import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import pino from 'pino';
import { expect, it, onTestFinished } from 'vitest';
import type { SluiceApp } from '../../src/app.ts';
import { buildApp } from '../database.ts';
import { createWorkspace, eventually, FLOW_ID } from '../e2e/service.ts';

/** Answers every request, and keeps the keys that came with them. */
async function receiver() {
  const keys: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    keys.push(request.headers['x-api-key'] as string | undefined);
    response.end('{}');
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  return { keys, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` };
}

it('a run that keeps its inputs keeps a secret in plain text, after a deploy of another one and a restart', async () => {
  const { keys, url } = await receiver();
  const workspace = await createWorkspace();
  const key = (text: string) => ({
    id: FLOW_ID,
    name: 'orders',
    version: text,
    pinInputs: true,
    triggers: { manual: { type: 'manual' } },
    steps: {
      approval: { type: 'WaitForSignal', inputs: { signalName: 'go' } },
      call: {
        type: 'HttpRequest',
        runAfter: { approval: ['Succeeded'] },
        inputs: { url, headers: { 'X-Api-Key': text } },
      },
    },
  });
  let app: SluiceApp | undefined;
  onTestFinished(async () => {
    await app?.close();
    await workspace.remove();
  });
  const start = async () => {
    await app?.close();
    const settings = { port: 0, egressAllow: ['127.0.0.1'] };
    app = await buildApp({ settings, folder: workspace.folder, logger: pino({ level: 'silent' }) });
    await app.listen();
    return app.fastify;
  };

  await workspace.writeManifest('orders.json', key('canary-first-key'));
  const before = await start();
  const { runId } = (await before.inject({ method: 'POST', url: `/flows/api/flows/${FLOW_ID}/trigger` })).json();
  await workspace.writeManifest('orders.json', key('canary-second-key'));
  const after = await start();
  const signal = { method: 'POST', url: `/flows/api/runs/${runId}/signals/go` } as const;
  expect((await after.inject(signal)).statusCode).toBeLessThan(300);
  const steps = await eventually(
    () => after.inject(`/flows/api/runs/${runId}/steps`),
    (answer) => answer.json()[1]?.completedAt != null,
  );
  expect(steps.json()).toMatchObject([{}, { status: 'Succeeded' }]);
  expect(steps.body).not.toContain('canary');
  expect(keys).toEqual(['canary-first-key']);
});
