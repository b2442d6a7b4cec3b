import { createHmac, randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { buildApp, openEmptyStore } from '../database.ts';
import { createWorkspace, eventually, GITHUB_SECRET, githubManifest } from '../e2e/service.ts';

it('answers 503 while more steps are due than may be, keeps nothing, and accepts again when they are fewer', async () => {
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest({ steps: { only: { type: 'NoOp' } } }));
  const store = await openEmptyStore();
  let dueSteps = 1_000_001;
  const app = await buildApp({
    settings: { enforcementMode: 'Enforce', port: 0 },
    folder: workspace.folder,
    store: { ...store, measureBacklog: async () => ({ dueSteps, oldestDueAt: null }) },
  });
  await app.listen();

  const body = '{}';
  const deliver = async (nonce: string = randomUUID()) => {
    const response = await app.fastify.inject({
      method: 'POST',
      url: '/flows/api/webhook/push',
      payload: body,
      headers: {
        'content-type': 'application/json',
        'x-hub-signature-256': `sha256=${createHmac('sha256', GITHUB_SECRET).update(body).digest('hex')}`,
        'x-github-delivery': nonce,
      },
    });
    return { status: response.statusCode, answer: response.json() };
  };

  const refused = await eventually(
    () => deliver(),
    ({ status }) => status !== 200,
  );
  expect(refused).toMatchObject({ status: 503, answer: { reason: 'store_unavailable' } });
  const nonce = randomUUID();
  expect((await deliver(nonce)).status).toBe(503);
  expect((await app.fastify.inject('/metrics')).body).toMatch(/^sluice_due_steps 1000001$/m);

  dueSteps = 0;
  await eventually(
    () => deliver(nonce),
    ({ status }) => status !== 503,
  );
  // It was accepted, not a duplicate: the refusals stored nothing.
  expect((await deliver(nonce)).status).toBe(409);
});
