import { randomUUID } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { SluiceApp } from '../../src/app.ts';
import { buildApp } from '../database.ts';
import { createWorkspace } from '../e2e/service.ts';
import { eventually } from '../eventually.ts';
import { serve } from '../flows/handlers/loopback-server.ts';
import { borrowSchema, openReplicas } from './schemas.ts';

const FLOW_ID = randomUUID();

it.each([
  ['a host', { outgoingHosts: ['127.0.0.1=:1'] }, {}],
  ['a step', {}, { maxConcurrent: 1 }],
])('two replicas send one request at once where one is allowed by the limit of %s', async (_whose, setting, inputs) => {
  let underWay = 0;
  let most = 0;
  const { origin, received } = await serve(async (_request, response) => {
    underWay += 1;
    most = Math.max(most, underWay);
    // Long enough to overlap with another request.
    for (let turn = 0; turn < 50; turn += 1) await setImmediate();
    underWay -= 1;
    response.end();
  });
  const { stores } = await openReplicas(['one', 'two'], borrowSchema());
  const apps: SluiceApp[] = [];
  for (const store of stores) {
    const workspace = await createWorkspace();
    const step = { type: 'HttpRequest', inputs: { url: origin, ...inputs } };
    const triggers = { byHand: { type: 'manual' } };
    await workspace.writeManifest('call.json', { id: FLOW_ID, version: '1', triggers, steps: { call: step } });
    const app = await buildApp({
      folder: workspace.folder,
      store,
      settings: { port: 0, egressAllow: ['127.0.0.0/8'], ...setting },
    });
    await app.listen();
    apps.push(app);
  }
  const body = { body: Buffer.from('{}'), contentType: null, headers: {} };
  const request = { flowId: FLOW_ID, triggerKey: 'byHand', triggerType: 'manual', ...body } as const;
  await Promise.all(Array.from({ length: 6 }, (_, at) => apps[at % 2]?.engine.triggerFlow(request)));
  const [store] = stores;
  await eventually(
    async () => (await store?.listRuns({ skip: 0, take: 1, status: 'Running' }))?.items,
    (running) => running?.length === 0,
  );
  expect(received).toHaveLength(6);
  expect(most).toBe(1);
});
