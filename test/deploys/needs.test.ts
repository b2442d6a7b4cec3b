import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { SluiceApp } from '../../src/app.ts';
import type { Extensions } from '../../src/config/api.ts';
import type { SettingsInput } from '../../src/config/settings-schema.ts';
import { stepTypes } from '../../src/config/steps.ts';
import { createNeedsReader } from '../../src/deploys/needs.ts';
import { handlerTable } from '../../src/flows/handlers/index.ts';
import { type LoadedFlow, parseManifest } from '../../src/manifest/load.ts';
import { bodySealer, newKey } from '../../src/store/sealed-body.ts';
import { gateChain, gatePreparer } from '../../src/webhooks/gates/index.ts';
import { isOnPostgres, storedText } from '../database.ts';
import { FLOW_ID, GITHUB_SECRET, githubManifest } from '../e2e/service.ts';
import { push, useFolderApp } from '../folder-app.ts';
import { sampleSettings } from '../webhooks/samples.ts';

type NeedsKeys = Parameters<typeof createNeedsReader>[0]['keys'];

const workspace = useFolderApp();
const { start } = workspace;

const manifest = (inputs: object = {}) => githubManifest({ steps: { only: { type: 'NoOp' } }, inputs });
const write = (next: object) => workspace.writeManifest('push.json', next);
const remove = () => rm(join(workspace.folder, 'manifests', 'push.json'));

async function ask(app: SluiceApp, method: 'GET' | 'PUT' | 'POST', url: string, body?: object) {
  const sent = body === undefined ? {} : { payload: JSON.stringify(body) };
  const response = await app.fastify.inject({ method, url, ...sent });
  return { status: response.statusCode, answer: response.json() };
}
const flowUrl = `/flows/api/flows/${FLOW_ID}`;
const deliver = async (app: SluiceApp, key = GITHUB_SECRET, body = '{}') => (await push(app, { key, body })).status;
const activities = async (app: SluiceApp, action: string) =>
  (await ask(app, 'GET', `/flows/api/activity?target=${FLOW_ID}&action=${action}`)).answer;

describe('a secret that was sent in plain text', () => {
  it('verifies after a restart, and is in no file but sealed', async () => {
    const app = await start();
    expect((await ask(app, 'PUT', flowUrl, manifest())).status).toBe(200);
    const again = await start();
    expect(await deliver(again)).toBe(200);
    expect(await deliver(again, 'another key')).toBe(401);
    expect((await ask(again, 'GET', '/health/ready')).status).toBe(200);
    expect(await storedText(workspace.folder)).not.toContain(GITHUB_SECRET);
  });

  it('that changed while the service was down is a foreign key, and the deployed one stays', async () => {
    await write(manifest());
    await start();
    await write(manifest({ webhookHmacKey: 'the key of somebody else' }));
    const app = await start();
    expect(app.warnings.join('\n')).toContain('refused push: More deliveries would pass');
    expect([await deliver(app, 'the key of somebody else'), await deliver(app)]).toEqual([401, 200]);
    const allowed = await start({}, { allow: ['access'] });
    expect([await deliver(allowed, 'the key of somebody else'), await deliver(allowed)]).toEqual([200, 401]);
    expect((await ask(allowed, 'GET', flowUrl)).answer).toMatchObject({ revision: 2 });
  });

  it('of an earlier revision is back with it, which is as much a foreign key', async () => {
    await write(manifest());
    const app = await start();
    await ask(app, 'PUT', `${flowUrl}?allow=access`, manifest({ webhookHmacKey: 'the second key' }));
    const restore = `${flowUrl}/revisions/1/restore`;
    expect((await ask(app, 'POST', restore)).status).toBe(409);
    expect((await ask(app, 'POST', `${restore}?allow=access`)).status).toBe(200);
    expect([await deliver(app, 'the second key'), await deliver(app)]).toEqual([401, 200]);
  });

  it.skipIf(isOnPostgres()).each(['Enforce', 'Audit', 'Off'])(
    'is lost with its key: in the mode %s too, publishers send again, and the service says why',
    async (mode) => {
      await write(manifest({ webhookEnforcementMode: mode }));
      await start();
      const [file] = (await readdir(join(workspace.folder, 'data'))).filter((name) => name.endsWith('.key'));
      const path = join(workspace.folder, 'data', file ?? '');
      expect((await stat(path)).mode & 0o777).toBe(0o600);
      const key = await readFile(path);
      await rm(path);
      await remove();
      const app = await start();
      expect(await ask(app, 'GET', '/health/ready')).toMatchObject({
        status: 503,
        answer: { reason: 'secrets_unreadable', message: expect.stringContaining('webhookHmacKey') },
      });
      expect([await deliver(app), await deliver(app, 'a forged key')]).toEqual([503, 503]);
      expect((await ask(app, 'GET', '/flows/api/attention')).answer).toContainEqual(
        expect.objectContaining({ kind: 'manifest_unreadable', message: expect.stringContaining('webhookHmacKey') }),
      );
      await writeFile(path, key);
      const again = await start();
      expect((await ask(again, 'GET', '/health/ready')).status).toBe(200);
      expect(await deliver(again)).toBe(200);
    },
  );

  it.skipIf(isOnPostgres())(
    'is not stored anew while its key is lost, whatever else a start finds changed',
    async () => {
      await write(manifest());
      await start();
      const path = join(workspace.folder, 'data', 'sluice.db.key');
      const key = await readFile(path);
      await rm(path);
      await remove();
      await start({ replayToleranceSeconds: 300 });
      const app = await start({ replayToleranceSeconds: 300 });
      expect((await ask(app, 'GET', '/health/ready')).answer).toMatchObject({ reason: 'secrets_unreadable' });
      expect([await deliver(app), await deliver(app, '***')]).toEqual([503, 503]);
      await writeFile(path, key);
      expect(await deliver(await start())).toBe(200);
    },
  );

  it.skipIf(isOnPostgres())('is taken from the folder where its key is lost, which is told', async () => {
    await write(manifest());
    await start();
    await rm(join(workspace.folder, 'data', 'sluice.db.key'));
    const app = await start();
    expect((await ask(app, 'GET', '/health/ready')).status).toBe(200);
    expect([await deliver(app), await deliver(app, 'another key')]).toEqual([200, 401]);
    expect(await activities(app, 'changeSecret')).toHaveLength(1);
    expect(await activities(await start(), 'changeSecret')).toHaveLength(1);
  });

  it.skipIf(isOnPostgres())('is still read where SLUICE_STORE_KEY takes the place of the file', async () => {
    await write(manifest());
    await start();
    await remove();
    expect(await deliver(await start({ storeKey: newKey() }))).toBe(200);
  });

  it.runIf(isOnPostgres())('is refused where nothing can seal it, and says how it can', async () => {
    const app = await start({ storeKey: undefined });
    const { status, answer } = await ask(app, 'PUT', flowUrl, manifest());
    expect(status).toBe(400);
    expect(answer.issues).toContainEqual(
      expect.objectContaining({ severity: 'error', message: expect.stringContaining('SLUICE_STORE_KEY') }),
    );
  });

  it.runIf(isOnPostgres())('of the folder is compared without a key too', async () => {
    await write(manifest());
    await start({ storeKey: undefined });
    expect((await start({ storeKey: undefined })).warnings.join('\n')).not.toContain('refused');
    await write(manifest({ webhookHmacKey: 'the key of somebody else' }));
    const app = await start({ storeKey: undefined });
    expect(app.warnings.join('\n')).toContain('refused push');
    expect(await deliver(app, 'the key of somebody else')).toBe(503);
    expect((await ask(app, 'GET', '/health/ready')).answer).toMatchObject({ reason: 'secrets_unreadable' });
  });
});

describe('what is behind a reference', () => {
  it('if it is a key that changed while the service was down, it is in force at once and told', async () => {
    await write(manifest({ webhookHmacKey: 'env:KEY' }));
    await start({}, { environment: { KEY: GITHUB_SECRET } });
    const app = await start({}, { environment: { KEY: 'the next key' } });
    expect([await deliver(app, 'the next key'), await deliver(app)]).toEqual([200, 401]);
    expect((await ask(app, 'GET', flowUrl)).answer).toMatchObject({ revision: 1 });
    expect(await activities(app, 'changeSecret')).toMatchObject([
      { actor: 'sluice', details: { references: 'env:KEY' } },
    ]);
    expect(workspace.logged.filter((line) => line.includes('The value of env:KEY changed'))).toHaveLength(1);
    const again = await start({}, { environment: { KEY: 'the next key' } });
    expect(await activities(again, 'changeSecret')).toHaveLength(1);
  });

  it('if it is a key in a file that changed, a reload puts it in force and tells it once', async () => {
    const file = join(workspace.folder, 'manifests', 'key.txt');
    await writeFile(file, GITHUB_SECRET);
    await write(manifest({ webhookHmacKey: 'file:key.txt' }));
    const app = await start();
    await writeFile(file, 'the next key');
    const { answer } = await ask(app, 'POST', '/flows/api/flows/reload');
    expect(answer.outcomes).toMatchObject([{ action: 'unchanged', findings: [{ rule: 'secret-changed' }] }]);
    expect(await deliver(app, 'the next key')).toBe(200);
    await ask(app, 'POST', '/flows/api/flows/reload');
    expect(await activities(app, 'changeSecret')).toHaveLength(1);
  });

  it('if it is a key in a file that changed, a deploy of another manifest with it tells it too', async () => {
    const file = join(workspace.folder, 'key.txt');
    const keyed = (version: string) => ({ ...manifest({ webhookHmacKey: `file:${file}` }), version });
    const among = expect.arrayContaining([expect.objectContaining({ rule: 'secret-changed' })]);
    await writeFile(file, GITHUB_SECRET);
    await write(keyed('1'));
    const app = await start();
    await writeFile(file, 'the second key');
    await write(keyed('2'));
    const { answer } = await ask(app, 'POST', '/flows/api/flows/reload');
    expect(answer.outcomes).toMatchObject([{ action: 'updated', findings: among }]);
    await writeFile(file, 'the third key');
    expect(await ask(app, 'PUT', flowUrl, keyed('3'))).toMatchObject({ status: 200, answer: { findings: among } });
    await writeFile(file, 'the fourth key');
    expect(await ask(app, 'POST', `${flowUrl}/revisions/1/restore`)).toMatchObject({ answer: { findings: among } });
    expect(await deliver(app, 'the fourth key')).toBe(200);
    expect(await activities(app, 'changeSecret')).toHaveLength(3);
    expect(workspace.logged.filter((line) => line.includes(`The value of file:${file} changed`))).toHaveLength(3);
  });

  it('if it is a schema that lets more pass since the last start, the stored one stays', async () => {
    const file = join(workspace.folder, 'manifests', 'order.schema.json');
    await writeFile(file, '{"required":["order"]}');
    await write(manifest({ webhookBodySchema: 'file:order.schema.json' }));
    await start();
    await writeFile(file, '{}');
    const app = await start();
    expect(app.warnings.join('\n')).toContain('refused push');
    expect(await deliver(app)).toBe(422);
    expect(await deliver(app, GITHUB_SECRET, '{"order":1}')).toBe(200);
    const allowed = await start({}, { allow: ['access'] });
    expect(await deliver(allowed)).toBe(200);
    expect((await ask(allowed, 'GET', flowUrl)).answer).toMatchObject({ revision: 2 });
  });
});

it('a verifier that has left with the operator’s code opens nothing: the trigger answers 503 until it is back', async () => {
  await write(manifest({ webhookSignatureScheme: 'Acme' }));
  const verifiers = [{ name: 'Acme', verify: () => ({ outcome: 'verified' as const }) }];
  await start({}, { extensions: { verifiers } });
  const app = await start();
  expect(await deliver(app)).toBe(503);
  expect(app.warnings.join('\n')).toContain('refused push');
  await app.reload();
  expect(await deliver(app)).toBe(503);
  // Other changes at a start do not make it forget the scheme.
  for (let starts = 0; starts < 2; starts += 1) {
    expect(await deliver(await start({ rateLimitPermitsPerSecond: 100 }))).toBe(503);
  }
  expect(await deliver(await start({}, { extensions: { verifiers } }))).toBe(200);
});

it('a deploy of the same manifest that allows a verifier to have left holds after a start too', async () => {
  const put = async (app: SluiceApp, query = '') =>
    ask(app, 'PUT', `${flowUrl}${query}`, manifest({ webhookSignatureScheme: 'Acme' }));
  const verifiers = [{ name: 'Acme', verify: () => ({ outcome: 'verified' as const }) }];
  expect(await put(await start({}, { extensions: { verifiers } }))).toMatchObject({ status: 200 });
  const app = await start();
  expect(await put(app)).toMatchObject({ status: 409, answer: { access: 'wider' } });
  expect(await deliver(app, 'any key')).toBe(503);
  expect(await put(app, '?allow=access')).toMatchObject({ status: 200, answer: { action: 'unchanged' } });
  expect(await deliver(app, 'any key')).toBe(200);
  expect(await deliver(await start(), 'any key')).toBe(200);
});

it('a scheme that nobody ever registered is skipped after a start too, until one knew it', async () => {
  const put = async (app: SluiceApp) => ask(app, 'PUT', flowUrl, manifest({ webhookSignatureScheme: 'Nonsense' }));
  const app = await start();
  expect(await put(app)).toMatchObject({ status: 200, answer: { access: 'wider' } });
  expect(await deliver(app, 'any key')).toBe(200);
  expect(await deliver(await start(), 'any key')).toBe(200);
  const verifiers = [{ name: 'Nonsense', verify: () => ({ outcome: 'verified' as const }) }];
  expect(await deliver(await start({}, { extensions: { verifiers } }))).toBe(200);
  expect(await deliver(await start(), 'any key')).toBe(503);
});

describe('a setting by which more get in than at the last start', () => {
  const limits = { rateLimitPermitsPerSecond: 2, rateLimitPerIp: true };
  // In the order of the starts: each has the settings of the earlier ones too.
  const wider: [string, SettingsInput][] = [
    ['the tolerance', { replayToleranceSeconds: 600 }],
    ['a limit', limits],
    ['trusted proxies', { ...limits, trustedProxies: ['10.0.0.0/8'] }],
    ['no limit', { rateLimitPermitsPerSecond: undefined, rateLimitPerIp: undefined, trustedProxies: undefined }],
    ['the mode', { enforcementMode: 'Off' }],
  ];

  it('applies, and is told once: the tolerance, a limit, trusted proxies, no limit, the mode', async () => {
    await write(manifest({ webhookHmacKey: 'env:KEY' }));
    const environment = { KEY: GITHUB_SECRET };
    let settings: SettingsInput = { replayToleranceSeconds: 10, rateLimitPermitsPerSecond: 1, rateLimitPerIp: true };
    await start(settings, { environment });
    for (const [at, [name, change]] of wider.entries()) {
      settings = { ...settings, ...change };
      const told = await activities(await start(settings, { environment }), 'widenAccess');
      expect(told, name).toHaveLength(at + 1);
      expect(told[0], name).toMatchObject({ actor: 'sluice', details: { access: 'wider' } });
      expect(
        workspace.logged.filter((line) => line.includes('AccessWidened')),
        name,
      ).toHaveLength(at + 1);
    }
    expect(await activities(await start(settings, { environment }), 'widenAccess')).toHaveLength(wider.length);
  });
});

describe('what the operator registers, by which others get in than at the last start', () => {
  const form = { algorithm: 'Sha256', encoding: 'HexLower', signedPayloadStrategy: 'RawBody' } as const;
  const parcels = (headerName: string) => ({ signatureSpecs: [{ name: 'Parcels', headerName, ...form }] });
  const office = { name: 'office', prepare: () => ({ name: 'office', check: () => ({ passed: true }) as const }) };
  const square = { webhookSignatureScheme: 'Square' };
  const widened = () => workspace.logged.filter((line) => line.includes('AccessWidened'));

  it.each<[string, object, Extensions, Extensions, string]>([
    ['a gate that is gone', {}, { gates: [office] }, {}, 'No gate of the operator judges.'],
    [
      'another form of a scheme',
      { webhookSignatureScheme: 'Parcels' },
      parcels('X-Parcels'),
      parcels('X-Other'),
      'The scheme Parcels is registered in another way.',
    ],
    [
      'a form in place of a verifier',
      { webhookSignatureScheme: 'Parcels' },
      { verifiers: [{ name: 'Parcels', verify: () => ({ outcome: 'verified' }) }] },
      parcels('X-Parcels'),
      'The scheme Parcels is registered in another way.',
    ],
    [
      'a form in place of a built-in scheme',
      {},
      {},
      { signatureSpecs: [{ name: 'GitHub', headerName: 'X-Other', ...form }] },
      'The scheme GitHub is registered in another way.',
    ],
  ])('%s is told once', async (_name, inputs, before, after, reason) => {
    await write(manifest({ webhookHmacKey: 'env:KEY', ...inputs }));
    const environment = { KEY: GITHUB_SECRET };
    await start({}, { environment, extensions: before });
    expect(await activities(await start({}, { environment, extensions: before }), 'widenAccess')).toEqual([]);
    for (let starts = 0; starts < 2; starts += 1) {
      const told = await activities(await start({}, { environment, extensions: after }), 'widenAccess');
      expect(told).toMatchObject([{ actor: 'sluice', details: { access: 'wider' } }]);
      expect(widened()).toEqual([expect.stringContaining(reason)]);
    }
    const more = { extensions: { ...after, gates: [office] } };
    expect(await activities(await start({}, { environment, ...more }), 'widenAccess')).toHaveLength(1);
  });

  it('is told at the next start too where a refused deploy ends this one', async () => {
    await write(manifest({ webhookHmacKey: 'env:KEY' }));
    const environment = { KEY: GITHUB_SECRET };
    await start({}, { environment, extensions: { gates: [office] } });
    await write(manifest({ webhookHmacKey: 'env:KEY', webhookEnforcementMode: 'Off' }));
    await expect(start({ refusedDeploys: 'fail' }, { environment })).rejects.toThrow('refused push');
    await write(manifest({ webhookHmacKey: 'env:KEY' }));
    for (let starts = 0; starts < 2; starts += 1) {
      expect(await activities(await start({}, { environment }), 'widenAccess')).toHaveLength(1);
    }
  });

  it('another public URL is told where signatures are made of it, and its user is stored nowhere', async () => {
    await write(manifest({ webhookHmacKey: 'env:KEY', ...square }));
    const environment = { KEY: GITHUB_SECRET };
    const urls = [undefined, 'https://ann:a-password@one.example', 'https://ann:a-password@two.example'];
    for (const [at, publicUrl] of urls.entries()) {
      expect(await activities(await start({ publicUrl }, { environment }), 'widenAccess')).toHaveLength(at);
      expect(await activities(await start({ publicUrl }, { environment }), 'widenAccess')).toHaveLength(at);
    }
    const [, , publicUrl] = urls;
    const wider = { publicUrl, replayToleranceSeconds: 600 };
    await start(wider, { environment });
    expect(await storedText(workspace.folder)).not.toContain('a-password');
  });
});

it('a revision says who deployed it, why, and what it did to who gets in', async () => {
  await write(manifest());
  const app = await start();
  await ask(app, 'PUT', `${flowUrl}?allow=access&reason=an%20incident`, manifest({ webhookEnforcementMode: 'Off' }));
  expect((await ask(app, 'GET', `${flowUrl}/revisions`)).answer).toMatchObject([
    { revision: 2, actor: 'anyone', reason: 'an incident', access: 'wider' },
    { revision: 1, actor: 'sluice', reason: null, access: 'same' },
  ]);
  expect((await ask(app, 'GET', `/flows/api/activity?target=${FLOW_ID}&action=deployFlow`)).answer).toMatchObject([
    { reason: 'an incident' },
  ]);
});

it('a new route without a signature is told, but not those of a first start', async () => {
  const open = { webhookSignatureScheme: undefined, webhookHmacKey: undefined };
  await write(manifest(open));
  const app = await start();
  expect(await activities(app, 'widenAccess')).toEqual([]);
  const id = '00000000-0000-4000-8000-00000000000b';
  const other = { ...manifest({ ...open, webhookSlug: 'other' }), id, name: 'other' };
  expect((await ask(app, 'PUT', `/flows/api/flows/${id}`, other)).status).toBe(200);
  expect((await ask(app, 'GET', `/flows/api/activity?target=${id}&action=widenAccess`)).answer).toHaveLength(1);
  expect(workspace.logged.filter((line) => line.includes('AccessWidened'))).toHaveLength(1);
});

describe('what a revision needs', () => {
  const handlers = handlerTable(stepTypes().handlers);
  const readerWith = (keys: NeedsKeys, values: Readonly<Record<string, string>> = {}) => {
    const readSecret = (reference: string) => {
      const value = values[reference];
      return value === undefined ? { error: 'is not set' } : { value };
    };
    const rules = { handlers, readSecret, strict: false, checks: [] };
    return createNeedsReader({
      keys,
      rules: { folder: rules, api: rules },
      gates: gatePreparer(gateChain(), sampleSettings()),
      settings: {},
    });
  };
  const keysOf = (...sealers: ReturnType<typeof bodySealer>[]): NeedsKeys => ({
    current: sealers[0],
    find: (keyId) => sealers.find((each) => each.keyId === keyId),
  });
  const load = (key: string): LoadedFlow => {
    const rules = { handlers, readSecret: () => ({ value: 'v' }), strict: false, checks: [] };
    const { flow } = parseManifest(JSON.stringify(manifest({ webhookHmacKey: key })), 'push.json', rules);
    if (flow === undefined) throw new Error('does not load');
    return flow;
  };
  const place = 'triggers.github.inputs.webhookHmacKey';
  const [one, other] = [bodySealer(newKey()), bodySealer(newKey())];

  it.each<[string, NeedsKeys]>([
    ['a key', keysOf(one)],
    ['none', keysOf()],
  ])('holds no secret and tells the same from others, with %s', async (_name, keys) => {
    const flow = load('the secret');
    const needs = await readerWith(keys).needsOf(flow);
    expect(JSON.stringify(needs)).not.toContain('the secret');
    expect(await readerWith(keys).compare({ needs }, flow)).toEqual({ isForeign: false, changed: new Map() });
    expect(await readerWith(keys).compare({ needs }, load('the secrets'))).toMatchObject({ isForeign: true });
    const opened = await readerWith(keys).open({ flowId: FLOW_ID, needs }, flow);
    expect(opened).toMatchObject({ literals: new Map([[place, 'the secret']]), lost: [] });
  });

  it('tells that a scheme is known that was not', async () => {
    const reader = readerWith(keysOf(one));
    const needs = await reader.needsOf(load('the secret'));
    expect(needs.signed).toHaveLength(1);
    expect(reader.formerJudges({ needs }, load('the secret'))).toBeUndefined();
    expect(reader.formerJudges({ needs: { ...needs, signed: [] } }, load('the secret'))).toBeDefined();
  });

  it('opens with an earlier key, and with no other', async () => {
    const needs = await readerWith(keysOf(one)).needsOf(load('the secret'));
    const revision = { flowId: FLOW_ID, needs };
    expect(await readerWith(keysOf(other, one)).open(revision, undefined)).toMatchObject({ lost: [] });
    expect(await readerWith(keysOf(other)).open(revision, undefined)).toMatchObject({ lost: [place] });
    const compared = (source: 'folder' | 'api') =>
      readerWith(keysOf(other)).compare(revision, { ...load('the secret'), source });
    expect(await compared('api')).toMatchObject({ isForeign: true });
    expect(await compared('folder')).toEqual({ isForeign: false, changed: new Map([[place, null]]) });
    expect(await readerWith(keysOf(one)).open({ ...revision, flowId: 'another' }, undefined)).toMatchObject({
      lost: [place],
    });
  });

  it('takes from a manifest only the secret that was stored', async () => {
    const needs = await readerWith(keysOf()).needsOf(load('the secret'));
    const open = (offered: LoadedFlow | undefined) => readerWith(keysOf()).open({ flowId: FLOW_ID, needs }, offered);
    expect(await open(load('another'))).toMatchObject({ literals: new Map(), lost: [place] });
    expect(await open(undefined)).toMatchObject({ literals: new Map(), lost: [place] });
  });

  it('tells references whose value is another one, and nothing of those that cannot be told', async () => {
    const flow = load('env:KEY');
    const needs = await readerWith(keysOf(one), { 'env:KEY': 'a' }).needsOf(flow);
    const compare = (keys: NeedsKeys, values: Record<string, string>) =>
      readerWith(keys, values).compare({ needs }, flow);
    expect((await compare(keysOf(one), { 'env:KEY': 'a' })).changed).toEqual(new Map());
    expect((await compare(keysOf(one), { 'env:KEY': 'b' })).changed).toEqual(new Map([[place, 'env:KEY']]));
    expect((await compare(keysOf(one), {})).changed).toEqual(new Map());
    expect((await compare(keysOf(other), { 'env:KEY': 'b' })).changed).toEqual(new Map());
  });
});
