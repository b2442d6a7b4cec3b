import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { FLOW_ID, githubManifest } from '../e2e/service.ts';
import { ask, useFolderApp } from '../folder-app.ts';

const OTHER_ID = randomUUID();

const workspace = useFolderApp({ listens: false });

async function startCounting(manifests: Readonly<Record<string, object>>) {
  for (const [file, manifest] of Object.entries(manifests)) await workspace.writeManifest(file, manifest);
  const prepared: string[] = [];
  const counting = {
    name: 'counting',
    prepare({ flowId }: { readonly flowId: string }) {
      prepared.push(flowId);
      return { name: 'counting', check: () => ({ passed: true as const }) };
    },
  };
  return { prepared, app: await workspace.start({ enforcementMode: 'Off' }, { extensions: { gates: [counting] } }) };
}

const other = { ...githubManifest({ inputs: { webhookSlug: 'other' } }), id: OTHER_ID, name: 'other' };

it('prepares the gates of a trigger once, however often it is checked and other flows are deployed', async () => {
  const { prepared, app } = await startCounting({ 'push.json': githubManifest() });
  expect(prepared).toEqual([FLOW_ID]);

  const put = async (id: string, manifest: object) =>
    (await ask(app, 'PUT', `/flows/${id}`, { ...manifest, id })).answer.action;
  expect(await put(OTHER_ID, other)).toBe('created');
  expect(prepared).toEqual([FLOW_ID, OTHER_ID]);
  const changed = { ...githubManifest({ inputs: { webhookRateLimitPermitsPerSecond: 9 } }), version: '2' };
  expect(await put(FLOW_ID, changed)).toBe('updated');
  expect(prepared).toEqual([FLOW_ID, OTHER_ID, FLOW_ID]);
});

it('prepares nothing of a flow that a reload leaves as it is', async () => {
  const { prepared, app } = await startCounting({ 'push.json': githubManifest(), 'other.json': other });
  expect(prepared).toEqual([OTHER_ID, FLOW_ID]);
  const inForce = () =>
    [FLOW_ID, OTHER_ID].map((id) => ({ flow: app.catalog.find(id), trigger: app.triggers().find(id) }));
  const before = inForce();
  await app.reload();
  expect(prepared).toEqual([OTHER_ID, FLOW_ID]);
  const [push, unchanged] = inForce();
  expect(push?.flow).toBe(before[0]?.flow);
  expect(push?.trigger).toBe(before[0]?.trigger);

  await workspace.writeManifest('push.json', githubManifest({ inputs: { webhookRateLimitPermitsPerSecond: 9 } }));
  await app.reload();
  expect(prepared).toEqual([OTHER_ID, FLOW_ID, FLOW_ID]);
  expect(inForce()[0]?.trigger).not.toBe(push?.trigger);
  expect(inForce()[1]?.flow).toBe(unchanged?.flow);
  expect(inForce()[1]?.trigger).toBe(unchanged?.trigger);
});

it('prepares a trigger again whose key changed behind the same reference', async () => {
  const { prepared, app } = await startCounting({});
  const key = join(workspace.folder, 'key');
  await writeFile(key, 'the first key of the test');
  await workspace.writeManifest('push.json', githubManifest({ inputs: { webhookHmacKey: `file:${key}` } }));
  await app.reload();
  expect(app.triggers().find(FLOW_ID)?.keys.current).toBe('the first key of the test');
  await writeFile(key, 'the second key of the test');
  await app.reload();
  expect(prepared).toEqual([FLOW_ID, FLOW_ID]);
  expect(app.triggers().find(FLOW_ID)?.keys.current).toBe('the second key of the test');
});
