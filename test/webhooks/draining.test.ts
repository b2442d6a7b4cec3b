import { createHmac, randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { buildApp } from '../database.ts';
import { createWorkspace, GITHUB_SECRET, githubManifest } from '../e2e/service.ts';
import { openKind } from '../store/stores.ts';

async function open(databaseUrl: string) {
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest());
  const app = await buildApp({
    settings: { port: 0, databaseUrl, drainSeconds: 1, enforcementMode: 'Enforce' },
    folder: workspace.folder,
    store: await openKind('log in the database', ':memory:'),
  });
  const url = await app.listen();
  const signature = createHmac('sha256', GITHUB_SECRET).update('{}').digest('hex');
  return {
    app,
    deliver: async () => {
      const headers = { 'x-hub-signature-256': `sha256=${signature}`, 'x-github-delivery': randomUUID() };
      const answer = await fetch(`${url}/flows/api/webhook/push`, { method: 'POST', headers, body: '{}' });
      return answer.status;
    },
    ready: async () => (await fetch(`${url}/health/ready`)).status,
  };
}

test('a replica that stops says so first and goes on accepting for a while', async () => {
  const { app, deliver, ready } = await open('postgres://localhost/sluice');
  expect(await ready()).toBe(200);
  const closed = app.close();
  expect(await ready()).toBe(503);
  expect(await deliver()).toBe(200);
  await closed;
  await expect(ready()).rejects.toThrow('fetch failed');
});

test('a service that is alone on its file stops at once', async () => {
  const { app, ready } = await open('sqlite::memory:');
  expect(await ready()).toBe(200);
  const closed = app.close();
  // The listener closes in the same turn: no other process could answer, so there is nothing to wait for.
  await expect(ready()).rejects.toThrow('fetch failed');
  await closed;
});
