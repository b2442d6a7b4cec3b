import { randomUUID } from 'node:crypto';
import pino from 'pino';
import { expect, it, onTestFinished } from 'vitest';
import { buildApp } from '../database.ts';
import { createWorkspace, FLOW_ID, githubManifest } from '../e2e/service.ts';

const OTHER_ID = randomUUID();

it('prepares the gates of a trigger once, however often it is checked and other flows are deployed', async () => {
  const workspace = await createWorkspace();
  onTestFinished(() => workspace.remove());
  await workspace.writeManifest('push.json', githubManifest());
  const prepared: string[] = [];
  const counting = {
    name: 'counting',
    prepare({ flowId }: { readonly flowId: string }) {
      prepared.push(flowId);
      return { name: 'counting', check: () => ({ passed: true as const }) };
    },
  };
  const app = await buildApp({
    folder: workspace.folder,
    extensions: { gates: [counting] },
    settings: { port: 0 },
    logger: pino({ level: 'silent' }),
  });
  onTestFinished(() => app.close());
  expect(prepared).toEqual([FLOW_ID]);

  const put = async (id: string, manifest: object) => {
    const payload = JSON.stringify({ ...manifest, id });
    const response = await app.fastify.inject({ method: 'PUT', url: `/flows/api/flows/${id}`, payload });
    return response.json().action;
  };
  const other = { ...githubManifest({ inputs: { webhookSlug: 'other' } }), name: 'other' };
  expect(await put(OTHER_ID, other)).toBe('created');
  expect(prepared).toEqual([FLOW_ID, OTHER_ID]);
  const changed = { ...githubManifest({ inputs: { webhookRateLimitPermitsPerSecond: 9 } }), version: '2' };
  expect(await put(FLOW_ID, changed)).toBe('updated');
  expect(prepared).toEqual([FLOW_ID, OTHER_ID, FLOW_ID]);
});
