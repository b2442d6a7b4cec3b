import { createHmac, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { SluiceApp } from '../../src/app.ts';
import type { SettingsInput } from '../../src/config/settings-schema.ts';
import { ManifestsError } from '../../src/errors.ts';
import { eventually, FLOW_ID, githubManifest } from '../e2e/service.ts';
import { useFolderApp } from '../folder-app.ts';

const KEY = 'a key that the publisher has too';
const OTHER_ID = '11111111-6c1d-4f0e-9a51-3f0f8d1c2a10';

const workspace = useFolderApp();
const { ask } = workspace;
let app: SluiceApp;
let environment: Record<string, string>;
beforeEach(async () => {
  environment = { PUSH_KEY: KEY };
  await workspace.writeManifest('other.json', other);
});

async function start(settings: SettingsInput = {}): Promise<SluiceApp> {
  app = await workspace.start(settings, { environment });
  return app;
}

const push = (changes: object = {}) => ({
  ...githubManifest({ inputs: { webhookHmacKey: 'env:PUSH_KEY' } }),
  triggers: {
    github: {
      type: 'webhook',
      inputs: { webhookSlug: 'push', webhookSignatureScheme: 'GitHub', webhookHmacKey: 'env:PUSH_KEY' },
    },
    nightly: { type: 'cron', inputs: { cronExpression: '0 3 * * *' } },
  },
  ...changes,
});
const other = {
  id: OTHER_ID,
  name: 'other',
  version: '1',
  triggers: { open: { type: 'webhook', inputs: { webhookSlug: 'other' } } },
  steps: { first: { type: 'NoOp' } },
};
const write = (manifest: object) => workspace.writeManifest('push.json', manifest);
const writeText = (text: string) => writeFile(join(workspace.folder, 'manifests', 'push.json'), text);

async function deliver(slug = 'push', key = KEY) {
  const body = JSON.stringify({ id: randomUUID() });
  const signature = `sha256=${createHmac('sha256', key).update(body).digest('hex')}`;
  const response = await app.fastify.inject({
    method: 'POST',
    url: `/flows/api/webhook/${slug}`,
    headers: { 'content-type': 'application/json', 'x-hub-signature-256': signature },
    payload: body,
  });
  return {
    status: response.statusCode,
    reason: response.json().reason,
    deliveryId: response.headers['sluice-delivery'],
  };
}

const attention = async (): Promise<{ severity: string; message: string; link: string }[]> =>
  (await ask('GET', '/attention')).answer.filter(({ kind }: { kind: string }) => kind === 'manifest_unreadable');

/** Possible mistakes in the manifest of `push`, with functions that make them. */
const MISTAKES = {
  'no readable JSON': () => writeText('{ "id": "'),
  'half of its JSON': () => writeText(JSON.stringify(push({ version: '2' }), null, 2).slice(0, -20)),
  'bytes that are not UTF-8': () =>
    writeFile(join(workspace.folder, 'manifests', 'push.json'), JSON.stringify(push({ name: 'für' })), 'latin1'),
  'a field that does not exist': () => write(push({ version: '2', stepz: {} })),
  'a step that does not fit': () => write(push({ version: '2', steps: { first: { type: 'Nope' } } })),
  'a trigger that does not fit': () =>
    write(push({ triggers: { github: { type: 'webhook', inputs: { webhookSlug: 'push', webhookHmacKei: 'x' } } } })),
  'a reference to a variable that is not set': () =>
    write(
      push({
        triggers: { github: { type: 'webhook', inputs: { webhookSlug: 'push', webhookHmacKey: 'env:MISSING' } } },
      }),
    ),
  'a reference to a file that is not there': () =>
    write(
      push({ triggers: { github: { type: 'webhook', inputs: { webhookSlug: 'push', webhookHmacKey: 'file:gone' } } } }),
    ),
  'a body schema that is not there': () =>
    write(
      push({
        triggers: { github: { type: 'webhook', inputs: { webhookSlug: 'push', webhookBodySchema: 'file:gone.json' } } },
      }),
    ),
  'a secret of a step that is not set': () =>
    write(
      push({
        steps: {
          first: {
            type: 'HttpRequest',
            inputs: { url: 'https://example.com', headers: { authorization: 'env:MISSING' } },
          },
        },
      }),
    ),
  'a slug of another flow': () =>
    write(push({ triggers: { github: { type: 'webhook', inputs: { webhookSlug: 'other' } } } })),
} as const;

const isOnlyOfPush = (name: string) => name !== 'a slug of another flow';

describe.each(Object.entries(MISTAKES))('a manifest with %s', (name, make) => {
  it('leaves the service ready and other flows at work, and goes on with its deployed revision', async () => {
    await write(push());
    await start();
    await make();
    await start();
    expect((await ask('GET', '/health/ready')).status).toBe(200);
    expect((await deliver('other')).status).toBe(200);
    expect(await deliver()).toMatchObject({ status: 200 });
    expect(await deliver('push', 'wrong')).toMatchObject({ status: 401 });
    expect((await ask('POST', `/flows/${FLOW_ID}/trigger`, {})).status).toBe(200);
    const items = await attention();
    expect(items[0]).toMatchObject({ severity: 'error', message: expect.stringContaining('push.json') });
    expect((await ask('GET', `/flows/${FLOW_ID}`)).answer).toMatchObject({ revision: 1, version: '1' });
  });

  it('does so on a reload too, which says so', async () => {
    await write(push());
    await start();
    await make();
    const { status, answer } = await ask('POST', '/flows/reload');
    expect(status).toBe(409);
    expect(answer.unreadable).toContainEqual(expect.objectContaining({ file: expect.stringContaining('push.json') }));
    expect(await deliver()).toMatchObject({ status: 200 });
    expect(await deliver('push', 'wrong')).toMatchObject({ status: 401 });
    expect((await attention()).length).toBeGreaterThan(0);
    await write(push());
    expect(await ask('POST', '/flows/reload')).toMatchObject({ status: 200, answer: { unreadable: [] } });
    expect(await attention()).toEqual([]);
  });

  it('answers 503 where nothing is deployed, until it can be read', async () => {
    await make();
    await start();
    expect((await ask('GET', '/health/ready')).status).toBe(200);
    if (!isOnlyOfPush(name)) {
      expect(await deliver('other')).toMatchObject({ status: 503, reason: 'flow_unreadable' });
      return;
    }
    expect((await deliver('other')).status).toBe(200);
    expect((await attention()).map(({ severity }) => severity)).toEqual(['error']);
    if (name !== 'no readable JSON') {
      for (const address of ['push', 'PUSH', FLOW_ID])
        expect(await deliver(address)).toMatchObject({ status: 503, reason: 'flow_unreadable' });
      expect(await ask('POST', `/flows/${FLOW_ID}/trigger`, {})).toMatchObject({
        status: 503,
        answer: { reason: 'flow_unreadable' },
      });
    }
    await write(push());
    expect((await ask('POST', '/flows/reload')).status).toBe(200);
    expect(await deliver()).toMatchObject({ status: 200 });
    expect(await attention()).toEqual([]);
  });

  it('stops the start where the settings say so, and a reload changes nothing', async () => {
    await write(push());
    await start();
    await make();
    await expect(start({ refusedDeploys: 'fail' })).rejects.toThrow(ManifestsError);
    await write(push());
    await start({ refusedDeploys: 'fail' });
    await make();
    await workspace.writeManifest('other.json', { ...other, version: '2' });
    expect((await ask('POST', '/flows/reload')).status).toBe(400);
    expect((await ask('GET', `/flows/${OTHER_ID}`)).answer).toMatchObject({ version: '1' });
  });
});

describe('a deployed flow whose references cannot be read', () => {
  it.each(['folder', 'api'])('answers 503 and starts no run, whether from the %s', async (source) => {
    environment.SECRET_PUSH = KEY;
    const manifest = JSON.parse(JSON.stringify(push()).replaceAll('PUSH_KEY', 'SECRET_PUSH'));
    if (source === 'folder') await write(manifest);
    await start();
    if (source === 'api') expect((await ask('PUT', `/flows/${FLOW_ID}`, manifest)).status).toBe(200);
    expect((await deliver()).status).toBe(200);
    environment = {};
    await start();
    expect((await ask('GET', '/health/ready')).status).toBe(200);
    expect(await deliver()).toMatchObject({ status: 503, reason: 'flow_unreadable' });
    expect((await ask('POST', `/flows/${FLOW_ID}/trigger`, {})).answer.reason).toBe('flow_unreadable');
    expect((await ask('POST', `/schedules/flow-${FLOW_ID}-nightly/trigger`)).answer.reason).toBe('flow_unreadable');
    expect(await attention()).toMatchObject([{ message: expect.stringContaining('SECRET_PUSH is not set') }]);
    environment.SECRET_PUSH = KEY;
    expect(await ask('POST', '/flows/reload')).toMatchObject({ status: 200 });
    expect(await deliver()).toMatchObject({ status: 200 });
    expect(await attention()).toEqual([]);
  });

  it('takes a key that changed behind its reference on reload, and says so', async () => {
    environment.SECRET_PUSH = KEY;
    const manifest = JSON.parse(JSON.stringify(push()).replaceAll('PUSH_KEY', 'SECRET_PUSH'));
    await start();
    await ask('PUT', `/flows/${FLOW_ID}`, manifest);
    environment.SECRET_PUSH = 'another key of the publisher';
    await ask('POST', '/flows/reload');
    expect((await deliver()).status).toBe(401);
    expect((await deliver('push', 'another key of the publisher')).status).toBe(200);
    expect((await ask('GET', `/activity?target=${FLOW_ID}&action=changeSecret`)).answer).toHaveLength(1);
  });

  it('lets nobody in by a mode that refuses nothing', async () => {
    await write(push());
    await start({ enforcementMode: 'Audit' });
    environment = {};
    await start({ enforcementMode: 'Audit' });
    expect(await deliver('push', 'wrong')).toMatchObject({ status: 503 });
  });
});

it('does not start without the folder of manifests', async () => {
  await rm(join(workspace.folder, 'manifests'), { recursive: true });
  await expect(start()).rejects.toThrow(ManifestsError);
});

describe('a flow that runs another one whose manifest cannot be read', () => {
  const caller = () => ({
    ...other,
    steps: { go: { type: 'RunFlow', inputs: { flow: FLOW_ID } } },
  });

  it('goes on where that one is deployed', async () => {
    await write(push());
    await start();
    await workspace.writeManifest('other.json', caller());
    await writeText('{');
    expect((await ask('POST', '/flows/reload')).answer.outcomes).toMatchObject([{ flowId: OTHER_ID, refusal: null }]);
    await start();
    expect((await deliver('other')).status).toBe(200);
  });

  it('answers 503 where that one is not', async () => {
    await workspace.writeManifest('other.json', caller());
    await write(push({ version: '2', stepz: {} }));
    await start();
    expect(await deliver('other')).toMatchObject({ status: 503, reason: 'flow_unreadable' });
    expect(await attention()).toHaveLength(2);
  });
});

it('redelivers what it answered with 503 once the manifest can be read', async () => {
  await write(push({ stepz: {} }));
  await start();
  const { deliveryId } = await deliver();
  expect((await ask('POST', `/webhooks/${deliveryId}/redeliver`)).answer).toMatchObject({ reason: 'flow_unreadable' });
  await write(push());
  await ask('POST', '/flows/reload');
  expect((await ask('POST', `/webhooks/${deliveryId}/redeliver`)).answer).toMatchObject({ outcome: 'accepted' });
});

describe('a step of a run in flight whose secret cannot be read', () => {
  it.each(['variable', 'file'])('waits until its %s is there, at no cost to its attempts or its time', async (kind) => {
    const seen: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      seen.push(request.headers.authorization);
      response.end('{}');
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    const { port } = server.address() as { port: number };
    const reference = kind === 'file' ? 'file:token' : 'env:TOKEN';
    const give = async (value: string | undefined) => {
      if (kind === 'variable' && value === undefined) delete environment.TOKEN;
      else if (kind === 'variable') environment.TOKEN = value ?? '';
      else if (value === undefined) await rm(join(workspace.folder, 'manifests', 'token'));
      else await writeFile(join(workspace.folder, 'manifests', 'token'), value);
    };
    await give('first');
    const inputs = { url: `http://127.0.0.1:${port}/`, headers: { authorization: reference } };
    await write(
      push({
        steps: {
          first: { type: 'WaitForSignal', inputs: { signalName: 'go' } },
          call: { type: 'HttpRequest', inputs, timeoutSeconds: 5, runAfter: { first: ['Succeeded'] } },
        },
      }),
    );
    const settings = { egressAllow: ['127.0.0.1'] };
    await start(settings);
    const { runId } = (await ask('POST', `/flows/${FLOW_ID}/trigger`, {})).answer;
    await give(undefined);
    await start(settings);
    expect((await ask('POST', `/flows/${FLOW_ID}/trigger`, {})).status).toBe(503);
    await ask('POST', `/runs/${runId}/signals/go`, {});
    const run = async () => (await ask('GET', `/runs/${runId}`)).answer;
    const waiting = await eventually(run, ({ waitingFor }) => waitingFor[0]?.for === 'secret');
    expect(waiting.waitingFor).toMatchObject([
      { stepKey: 'call', why: expect.stringContaining('headers.authorization') },
    ]);
    expect((await ask('GET', '/runs?waiting=secret')).answer).toMatchObject([{ id: runId }]);
    expect(await attention()).toHaveLength(1);
    await give('second');
    expect((await run()).status).toBe('Running');
    const ended = await eventually(run, ({ status }) => status !== 'Running');
    expect(ended.status).toBe('Succeeded');
    expect(seen).toEqual(['second']);
    const { attempts } = (await ask('GET', `/runs/${runId}/steps/call`)).answer;
    expect(attempts.map(({ status }: { status: string }) => status)).toEqual(['Failed', 'Succeeded']);
    expect((await deliver()).status).toBe(503);
    await ask('POST', '/flows/reload');
    expect((await deliver()).status).toBe(200);
  });

  it('needs attention although its flow was deployed with it', async () => {
    await writeFile(join(workspace.folder, 'manifests', 'token'), 'first');
    const inputs = { url: 'http://127.0.0.1:9/', headers: { authorization: 'file:token' } };
    await write(push({ steps: { call: { type: 'HttpRequest', inputs } } }));
    await start();
    await rm(join(workspace.folder, 'manifests', 'token'));
    const { runId } = (await ask('POST', `/flows/${FLOW_ID}/trigger`, {})).answer;
    const [item] = await eventually(attention, (items) => items.length > 0);
    expect(item).toMatchObject({
      severity: 'error',
      message: expect.stringMatching(
        /^Steps of push wait for a secret: call: inputs.headers.authorization: the file token/,
      ),
      link: `/flows/runs/${runId}`,
    });
  });
});

it('a slug that was given to another flow stays with it through a restart, though a manifest of the folder has it', async () => {
  const inMode = (webhookEnforcementMode: string, change: object = {}) => ({
    ...push(change),
    triggers: {
      github: {
        type: 'webhook',
        inputs: {
          webhookSlug: 'push',
          webhookSignatureScheme: 'GitHub',
          webhookHmacKey: 'env:PUSH_KEY',
          webhookEnforcementMode,
        },
      },
    },
  });
  const taker = '22222222-6c1d-4f0e-9a51-3f0f8d1c2a10';
  await write(inMode('Off'));
  await start({ manifestSecrets: 'env:PUSH_KEY' });
  expect((await deliver('push', 'a wrong key')).status).toBe(200);
  await ask('POST', `/flows/${FLOW_ID}/disable`);
  const taken = await ask('PUT', `/flows/${taker}?allow=breaking`, inMode('Enforce', { id: taker, name: 'taker' }));
  expect(taken.status).toBe(200);
  await ask('POST', `/flows/${FLOW_ID}/enable`);
  for (const restart of [async () => {}, start, start]) {
    await restart({ manifestSecrets: 'env:PUSH_KEY' });
    expect((await deliver('push', 'a wrong key')).status).toBe(401);
    expect((await deliver()).status).toBe(200);
  }
});
