import { createHmac, randomUUID } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { createWorkspace, eventually, GITHUB_SECRET, githubManifest, startService } from './service.ts';

it('answers 503 while more steps are due than may be, keeps nothing, and accepts again when they are fewer', async () => {
  const held: ServerResponse[] = [];
  let isOpen = false;
  const called = createServer((_request, response) => {
    if (isOpen) response.end('{}');
    else held.push(response);
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void called.close());
  await eventually(
    async () => called.listening,
    (isListening) => isListening,
  );
  const url = `http://127.0.0.1:${(called.address() as AddressInfo).port}`;
  const workspace = await createWorkspace();
  onTestFinished(() => workspace.remove());
  await workspace.writeManifest(
    'push.json',
    githubManifest({ steps: { only: { type: 'HttpRequest', inputs: { url } } } }),
  );
  const service = await startService(workspace, {
    SLUICE_ENFORCEMENT_MODE: 'Enforce',
    SLUICE_EGRESS_ALLOW: '127.0.0.1',
    SLUICE_STEP_CONCURRENCY: '1',
    SLUICE_MAX_BACKLOG: '2',
  });
  onTestFinished(async () => void (await service.stop('SIGTERM')));

  const body = '{}';
  const signature = `sha256=${createHmac('sha256', GITHUB_SECRET).update(body).digest('hex')}`;
  const deliver = async (nonce: string = randomUUID()) => {
    const headers = {
      'content-type': 'application/json',
      'x-hub-signature-256': signature,
      'x-github-delivery': nonce,
    };
    const response = await fetch(`${service.url}/flows/api/webhook/push`, { method: 'POST', headers, body });
    return { status: response.status, answer: (await response.json()) as { reason?: string } };
  };

  const refused = await eventually(
    () => deliver(),
    ({ status }) => status !== 200,
  );
  expect(refused).toMatchObject({ status: 503, answer: { reason: 'store_unavailable' } });
  const nonce = randomUUID();
  expect((await deliver(nonce)).status).toBe(503);
  expect(await (await fetch(`${service.url}/metrics`)).text()).toMatch(/^sluice_due_steps 3$/m);

  isOpen = true;
  for (const response of held) response.end('{}');
  await eventually(
    () => deliver(nonce),
    ({ status }) => status !== 503,
  );
  // Accepted, and not a repetition: nothing was kept of what was refused.
  expect((await deliver(nonce)).status).toBe(409);
});
