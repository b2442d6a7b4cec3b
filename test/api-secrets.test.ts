import { createHmac } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { SluiceApp } from '../src/app.ts';
import type { SettingsInput } from '../src/config/settings-schema.ts';
import { buildApp } from './database.ts';
import { createWorkspace, eventually, getJson, githubManifest, type Workspace } from './e2e/service.ts';

const SENT_ID = '5f0c3c1e-2a77-4f5b-9a0e-7d1f6a5b4c3d';
const SENT_URL = `/flows/api/flows/${SENT_ID}`;
const KEY = 'a key of sixteen bytes and more';
const ENV = { SECRET_HOOK: KEY, SHOP_KEY: KEY, PROCESS_PASSWORD: 'hunter2hunter2hunter2' };

let workspace: Workspace;
let app: SluiceApp | undefined;
let url = '';
async function open(): Promise<void> {
  workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest({ inputs: { webhookHmacKey: 'env:SHOP_KEY' } }));
}

/** Starts the service on a real socket; stops the previous one. */
async function start(settings: SettingsInput = {}): Promise<SluiceApp> {
  await app?.close();
  app = await buildApp({
    settings: { enforcementMode: 'Enforce', port: 0, ...settings },
    environment: ENV,
    folder: workspace.folder,
  });
  url = await app.listen();
  return app;
}

/** A manifest by someone who may deploy and knows nothing of the process. */
function sent({ inputs = {}, steps = { first: { type: 'NoOp' } } }: { inputs?: object; steps?: object } = {}) {
  const hook = { webhookSlug: 'sent', webhookSignatureScheme: 'GitHub', webhookHmacKey: 'env:SECRET_HOOK', ...inputs };
  const triggers = { hook: { type: 'webhook', inputs: hook }, byHand: { type: 'manual' } };
  return { id: SENT_ID, name: 'sent', version: '1', triggers, steps };
}

const call = (reference: string) => ({
  type: 'HttpRequest',
  inputs: { url: 'http://127.0.0.1:1/', headers: { authorization: reference } },
});

interface Answer {
  readonly message?: string;
  readonly issues?: readonly { path: string; message: string }[];
  readonly warnings?: readonly string[];
  readonly runId?: string;
}

async function ask(
  method: 'PUT' | 'POST',
  path: string,
  body: object = {},
): Promise<{ status: number; answer: Answer }> {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(`${url}${path}`, { method, headers, body: JSON.stringify(body) });
  return { status: response.status, answer: (await response.json()) as Answer };
}

const put = (manifest: object, query = '') => ask('PUT', `${SENT_URL}${query}`, manifest);

async function deliver(slug = 'sent'): Promise<number> {
  const body = '{}';
  const headers = {
    'content-type': 'application/json',
    'x-hub-signature-256': `sha256=${createHmac('sha256', KEY).update(body).digest('hex')}`,
  };
  return (await fetch(`${url}/flows/api/webhook/${slug}`, { method: 'POST', headers, body })).status;
}

async function errorOfStep(stepKey: string): Promise<string> {
  const { answer } = await ask('POST', `${SENT_URL}/trigger`);
  const run = `${url}/flows/api/runs/${answer.runId}`;
  await eventually(
    () => getJson<{ status: string }>(run),
    ({ status }) => status !== 'Running',
  );
  const steps = await getJson<{ stepKey: string; error: { message: string } | null }[]>(`${run}/steps`);
  return JSON.stringify(steps.find((step) => step.stepKey === stepKey)?.error);
}

describe('a manifest that comes in over the API', () => {
  // One service, because refused manifests leave it unchanged.
  beforeAll(async () => {
    await open();
    await start();
  });

  it.each<[string, object]>([
    ['triggers.hook.inputs.webhookHmacKey', sent({ inputs: { webhookHmacKey: 'env:PROCESS_PASSWORD' } })],
    ['triggers.hook.inputs.webhookHmacKeyPrevious', sent({ inputs: { webhookHmacKeyPrevious: 'env:HOME' } })],
    ['triggers.hook.inputs.webhookVerifyToken', sent({ inputs: { webhookVerifyToken: 'file:/etc/hostname' } })],
    ['triggers.hook.inputs.webhookPublicUrl', sent({ inputs: { webhookPublicUrl: 'env:PROCESS_PASSWORD' } })],
    ['steps.call.inputs.headers.authorization', sent({ steps: { call: call('env:PROCESS_PASSWORD') } })],
    ['steps.call.inputs.headers.authorization', sent({ steps: { call: call('file:../sluice.db') } })],
    [
      'steps.call.inputs.url',
      sent({ steps: { call: { type: 'HttpRequest', inputs: { url: 'ENV:PROCESS_PASSWORD' } } } }),
    ],
    [
      'steps.all.steps.call.inputs.headers.authorization',
      sent({ steps: { all: { type: 'ForEach', forEach: [1], steps: { call: call('env:PROCESS_PASSWORD') } } } }),
    ],
  ])('is refused with 400 where %s names a secret that it may not, and a dry run is too', async (path, manifest) => {
    for (const query of ['', '?dryRun=true', '?allow=caution,breaking']) {
      const { status, answer } = await put(manifest, query);
      expect(status).toBe(400);
      const issue = answer.issues?.find((each) => each.path === path);
      expect(issue?.message).toContain('SLUICE_MANIFEST_SECRETS');
      expect(JSON.stringify(answer)).not.toContain('hunter2');
    }
    expect((await fetch(`${url}${SENT_URL}`)).status).toBe(404);
  });

  it('learns nothing of whether a secret exists that it may not name', async () => {
    await writeFile(join(workspace.folder, 'there'), 'x');
    const answerTo = async (reference: string) => {
      const { answer } = await put(sent({ inputs: { webhookHmacKey: reference } }));
      return JSON.stringify(answer).replaceAll(reference, '…');
    };
    expect(await answerTo('env:PROCESS_PASSWORD')).toBe(await answerTo('env:NOT_SET_AT_ALL'));
    expect(await answerTo('file:../there')).toBe(await answerTo('file:../not-there'));
  });

  it('is refused with a key that anyone can sign for', async () => {
    const discord = { webhookSignatureScheme: 'Discord', webhookHmacKey: '0'.repeat(64) };
    const { status, answer } = await put(sent({ inputs: discord }));
    expect(status).toBe(400);
    expect(answer.issues).toContainEqual(
      expect.objectContaining({
        path: 'triggers.hook.inputs.webhookHmacKey',
        message: expect.stringContaining('small order'),
      }),
    );
  });

  it('may name what the folder’s manifests use, and SECRET_*', async () => {
    expect((await put(sent())).status).toBe(200);
    expect((await put(sent({ inputs: { webhookHmacKey: 'env:SHOP_KEY' } }))).status).toBe(200);
    expect(await deliver()).toBe(200);
  });

  it('may name what the list allows, and then nothing else', async () => {
    await open();
    await start({ manifestSecrets: ['PROCESS_*'] });
    expect((await put(sent())).status).toBe(400);
    expect((await put(sent({ inputs: { webhookHmacKey: 'env:PROCESS_PASSWORD' } }))).status).toBe(200);
    // The folder belongs to the operator.
    expect(await deliver('push')).toBe(200);
  });
});

describe('after a restart a manifest that came in over the API', () => {
  beforeEach(open);

  it('is served again with the same secrets', async () => {
    await start();
    await put(sent({ inputs: { webhookHmacKey: 'env:SHOP_KEY' } }));
    const { warnings } = await start();
    expect(await deliver()).toBe(200);
    expect(warnings.join('\n')).not.toContain('SLUICE_MANIFEST_SECRETS');
  });

  it.each(['Off', 'Audit', 'Enforce'] as const)(
    'under %s is served no trigger whose key it may name no longer, and the start says so',
    async (enforcementMode) => {
      await start({ enforcementMode });
      await put(sent({ inputs: { webhookEnforcementMode: enforcementMode } }));
      expect(await deliver()).toBe(200);
      const { warnings } = await start({ enforcementMode, manifestSecrets: ['PAY_*'] });
      expect(warnings).toContainEqual(
        expect.stringMatching(
          /^warning sent triggers\.hook\.inputs\.webhookHmacKey: env:SECRET_HOOK may not .*add env:SECRET_HOOK to SLUICE_MANIFEST_SECRETS.*the trigger is not served$/,
        ),
      );
      expect(await deliver()).toBe(503);
      await start({ enforcementMode });
      expect(await deliver()).toBe(200);
    },
  );

  it('fails at a step whose secret it may name no longer, and the start says so', async () => {
    await start();
    await put(sent({ steps: { call: call('env:SECRET_HOOK') } }));
    const { warnings } = await start({ manifestSecrets: [] });
    expect(warnings.join('\n')).toMatch(/sent steps\.call\.inputs\.headers\.authorization: .*the step fails/);
    expect(await errorOfStep('call')).toContain('may not be referenced');
  });

  it('may use what only the folder’s manifests may where it lies in the folder by then', async () => {
    await start();
    await put(sent());
    await workspace.writeManifest('sent.json', sent());
    const { warnings } = await start({ manifestSecrets: [] });
    expect(warnings.join('\n')).not.toContain('SLUICE_MANIFEST_SECRETS');
    expect(await deliver()).toBe(200);
  });
});

it('a reload that takes a secret out of the folder shuts it for what came in over the API', async () => {
  await open();
  await start();
  await put(sent({ steps: { call: call('env:SHOP_KEY') } }));
  expect(await errorOfStep('call')).not.toContain('may not be referenced');
  await rm(join(workspace.folder, 'manifests', 'push.json'));
  const { answer } = await ask('POST', '/flows/api/flows/reload');
  expect(answer.warnings).toContainEqual(
    expect.stringMatching(/^warning sent steps\.call\.inputs\.headers\.authorization: env:SHOP_KEY may not/),
  );
  expect(await errorOfStep('call')).toContain('may not be referenced');
  expect((await put(sent({ steps: { call: call('env:SHOP_KEY'), more: { type: 'NoOp' } } }))).status).toBe(400);
});
