import { createHmac, randomUUID } from 'node:crypto';
import { beforeAll, expect, it } from 'vitest';
import { createWorkspace, startService, type Workspace, written } from './service.ts';

const SETTINGS = { SLUICE_ENFORCEMENT_MODE: 'Enforce', SLUICE_STORE_KEY: 'the key of the store' };
const BODY = '{"events":[]}';

let workspace: Workspace;
beforeAll(async () => {
  workspace = await createWorkspace();
  await workspace.writeManifest('asana.json', {
    id: randomUUID(),
    version: '1',
    triggers: {
      tasks: {
        type: 'webhook',
        inputs: { webhookSlug: 'tasks', webhookSignatureScheme: 'Asana', webhookLearnKey: true },
      },
    },
    steps: {},
  });
});

async function deliver(url: string, key: string): Promise<number> {
  const signature = createHmac('sha256', key).update(BODY).digest('hex');
  const headers = { 'content-type': 'application/json', 'x-hook-signature': signature };
  return (await fetch(`${url}/flows/api/webhook/tasks`, { method: 'POST', headers, body: BODY })).status;
}

it('has stored a learned key when the answer leaves: it outlives a process that is killed on the spot', async () => {
  const secret = randomUUID();
  const killed = await startService(workspace, SETTINGS);
  const headers = { 'x-hook-secret': secret };
  const answer = await fetch(`${killed.url}/flows/api/webhook/tasks`, { method: 'POST', headers });
  await killed.stop('SIGKILL');
  expect([answer.status, answer.headers.get('x-hook-secret')]).toEqual([200, secret]);

  const service = await startService(workspace, SETTINGS);
  await written(service, 'Keys learned in a handshake: asana/tasks (Asana)');
  expect(await deliver(service.url, secret)).toBe(200);
  expect(await deliver(service.url, 'another secret')).toBe(401);
  await service.stop('SIGTERM');
  expect(killed.output() + service.output()).not.toContain(secret);
});
