import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { eventually, FLOW_ID } from '../e2e/service.ts';
import { ask, useFolderApp } from '../folder-app.ts';

const workspace = useFolderApp();

/** Answers every request, and records the keys in the requests. */
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
  const start = () => workspace.start({ egressAllow: ['127.0.0.1'] });

  await workspace.writeManifest('orders.json', key('canary-first-key'));
  const before = await start();
  const { runId } = (await ask(before, 'POST', `/flows/${FLOW_ID}/trigger`)).answer;
  await workspace.writeManifest('orders.json', key('canary-second-key'));
  const after = await start();
  expect((await ask(after, 'POST', `/runs/${runId}/signals/go`)).status).toBeLessThan(300);
  const { answer: steps } = await eventually(
    () => ask(after, 'GET', `/runs/${runId}/steps`),
    ({ answer }) => answer[1]?.completedAt != null,
  );
  expect(steps).toMatchObject([{}, { status: 'Succeeded' }]);
  expect(JSON.stringify(steps)).not.toContain('canary');
  expect(keys).toEqual(['canary-first-key']);
});
