import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pino from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { SluiceApp } from '../../src/app.ts';
import type { SettingsInput } from '../../src/config/settings-schema.ts';
import { buildApp } from '../database.ts';
import { createWorkspace, FLOW_ID, githubManifest, type Workspace } from '../e2e/service.ts';

let workspace: Workspace;
const apps: SluiceApp[] = [];

async function open(): Promise<void> {
  workspace = await createWorkspace();
}

/** The flow under test. */
let id = FLOW_ID;
let slug = 'push';

async function start({
  settings,
  ...given
}: {
  readonly allow?: readonly ['access'];
  readonly settings?: SettingsInput;
} = {}): Promise<SluiceApp> {
  for (const app of apps.splice(0)) await app.close();
  const app = await buildApp({
    folder: workspace.folder,
    settings: { port: 0, ...settings },
    ...given,
  });
  apps.push(app);
  return app;
}

const manifest = (inputs: object = {}, version = '1') => ({
  ...githubManifest({
    steps: { only: { type: 'NoOp' } },
    inputs: { webhookSlug: slug, webhookEnforcementMode: 'Enforce', ...inputs },
  }),
  id,
  name: slug,
  version,
});
const hookOf = (inputs: object = {}) =>
  (manifest(inputs) as unknown as { readonly triggers: { readonly github: object } }).triggers.github;
const write = (next: object, name = 'push.json') => workspace.writeManifest(name, next);

async function ask(app: SluiceApp, method: 'GET' | 'PUT' | 'POST' | 'DELETE', path: string, body?: object) {
  const sent = body === undefined ? {} : { payload: JSON.stringify(body) };
  const response = await app.fastify.inject({ method, url: `/flows/api${path}`, ...sent });
  return { status: response.statusCode, answer: response.json() };
}
const put = (app: SluiceApp, next: object, query = '') => ask(app, 'PUT', `/flows/${id}${query}`, next);
const deliver = async (app: SluiceApp) => (await ask(app, 'POST', `/webhook/${slug}`, { order: 1 })).status;

describe('a deploy by which more get in', () => {
  // One service; each test has a different flow.
  let app: SluiceApp;
  let flows = 0;
  beforeAll(async () => {
    await open();
    app = await start();
  });
  beforeEach(() => {
    id = randomUUID();
    slug = `push-${flows++}`;
  });
  afterAll(() => {
    id = FLOW_ID;
    slug = 'push';
  });

  it.each<[string, object, object]>([
    ['turns the mode off', {}, { webhookEnforcementMode: 'Off' }],
    ['names another key', {}, { webhookHmacKey: 'a key of somebody else' }],
    ['names a scheme that is not known', {}, { webhookSignatureScheme: 'Gihtub' }],
    [
      'raises a limit',
      { webhookRateLimitPermitsPerSecond: 1 },
      { webhookRateLimitPermitsPerSecond: 1, webhookRateLimitBurstSize: 1000 },
    ],
    ['loosens a schema', { webhookBodySchema: { required: ['n'] } }, { webhookBodySchema: {} }],
  ])(
    'is refused although no run is in flight where it %s, and deployed where that is allowed',
    async (_, before, after) => {
      expect(await put(app, manifest(before))).toMatchObject({ status: 200 });
      const refused = await put(app, manifest(after, '2'));
      expect(refused).toMatchObject({ status: 409, answer: { action: 'refused', access: 'wider', revision: 1 } });
      expect(refused.answer.refusal).toContain('--allow access');
      expect(refused.answer.refusal).toContain('allow=access');
      expect(await deliver(app)).toBe(401);
      expect(await put(app, manifest(after, '2'), '?allow=caution,breaking')).toMatchObject({ status: 409 });
      expect(await put(app, manifest(after, '2'), '?allow=caution,access')).toMatchObject({
        status: 200,
        answer: { action: expect.stringMatching(/updated/), access: 'wider' },
      });
      const [newest] = (await ask(app, 'GET', `/flows/${id}/revisions`)).answer;
      expect(newest).toMatchObject({ overrides: ['access'], revision: 2 });
    },
  );

  it('says of each finding what it does to who gets in, and who got in before', async () => {
    expect(await put(app, manifest())).toMatchObject({ status: 200 });
    const { answer } = await put(app, manifest({ webhookEnforcementMode: 'Off' }, '2'), '?dryRun=true');
    expect(answer.findings.filter(({ access }: { access?: string }) => access !== undefined)).toMatchObject([
      {
        rule: 'gate-weakened',
        class: 'caution',
        access: 'wider',
        path: 'triggers.github.inputs.webhookEnforcementMode',
      },
    ]);
    expect(answer.routes).toEqual([
      {
        route: expect.stringContaining('push'),
        trigger: 'github',
        access: 'wider',
        before: expect.stringContaining('signed by GitHub'),
        after: 'everybody: the mode is Off',
        reasons: [expect.any(String)],
      },
    ]);
  });

  it('is refused where the trigger is replaced by another one under the same slug', async () => {
    expect(await put(app, manifest())).toMatchObject({ status: 200 });
    const hook = hookOf({ webhookSignatureScheme: undefined });
    const open = { ...manifest({}, '2'), triggers: { other: hook } };
    expect(await put(app, open)).toMatchObject({ status: 409, answer: { access: 'wider' } });
  });

  it('is refused where another flow takes over the slug', async () => {
    expect(await put(app, manifest())).toMatchObject({ status: 200 });
    const open = { ...manifest({ webhookSignatureScheme: undefined }), id: randomUUID(), name: 'other' };
    const moved = [{ ...manifest({ webhookSlug: 'former' }, '2') }, open];
    const together = await ask(app, 'PUT', '/flows?allow=caution', moved);
    expect(together.status).toBe(409);
    expect(together.answer.outcomes[1]).toMatchObject({ action: 'refused', access: 'wider' });
  });

  it('is refused where the id of the flow leads to a trigger that checks less', async () => {
    expect(await put(app, manifest())).toMatchObject({ status: 200 });
    const hook = hookOf();
    const open = { type: 'webhook', inputs: { webhookSlug: 'open' } };
    const appended = await put(app, { ...manifest({}, '2'), triggers: { github: hook, open } });
    expect(appended).toMatchObject({ status: 200, answer: { action: 'updated', access: 'wider' } });
    const first = await put(app, { ...manifest({}, '3'), triggers: { open, github: hook } });
    expect(first).toMatchObject({ status: 409, answer: { access: 'wider' } });
  });

  it('is refused where the id of the flow leads to a trigger that checks less than one did before it led to none', async () => {
    const withTrigger = (version: string, triggers: object) => ({ ...manifest({}, version), triggers });
    const open = { other: hookOf({ webhookSlug: undefined, webhookHmacKey: 'a key of somebody else' }) };
    expect(await put(app, withTrigger('1', { github: hookOf({ webhookSlug: undefined }) }))).toMatchObject({
      status: 200,
    });
    for (const version of ['2', '3']) expect(await put(app, withTrigger(version, {}))).toMatchObject({ status: 200 });
    const refused = { status: 409, answer: { access: 'wider', routes: [{ route: id, trigger: 'other' }] } };
    expect(await put(app, withTrigger('4', open))).toMatchObject(refused);
    expect(await ask(app, 'DELETE', `/flows/${id}`)).toMatchObject({ status: 200 });
    expect(await put(app, withTrigger('5', open))).toMatchObject(refused);
    const same = await put(app, withTrigger('6', { later: hookOf({ webhookSlug: undefined }) }));
    expect(same).toMatchObject({ status: 200, answer: { action: 'created', access: 'same' } });
  });

  it('is refused where more get in by the id of the flow, also if fewer do by the slug than when that was given up', async () => {
    const open = { webhookSignatureScheme: undefined };
    expect(await put(app, manifest(open))).toMatchObject({ status: 200 });
    expect(await put(app, manifest({ webhookSlug: undefined }, '2'))).toMatchObject({ status: 200 });
    expect(await put(app, manifest({ ...open, webhookIpAllowList: ['192.0.2.1'] }, '3'))).toMatchObject({
      status: 409,
      answer: {
        access: 'wider',
        routes: [
          { route: id, access: 'wider' },
          { route: slug, access: 'narrower' },
        ],
      },
    });
  });

  it('is refused where it goes back to a revision by which more got in', async () => {
    expect(await put(app, manifest({ webhookEnforcementMode: 'Off' }))).toMatchObject({ status: 200 });
    expect(await put(app, manifest({}, '2'))).toMatchObject({ status: 200, answer: { access: 'narrower' } });
    const restore = (query = '') => ask(app, 'POST', `/flows/${id}/revisions/1/restore${query}`);
    expect(await restore()).toMatchObject({ status: 409, answer: { access: 'wider' } });
    expect(await restore('?allow=access')).toMatchObject({ status: 200 });
  });
});

describe('a deploy by which more get in', () => {
  beforeEach(open);

  it('is refused by a reload and by a start too, which keep what is deployed and say so', async () => {
    await write(manifest());
    const app = await start();
    await write(manifest({ webhookEnforcementMode: 'Off' }, '2'));
    const reload = await ask(app, 'POST', '/flows/reload');
    expect(reload).toMatchObject({ status: 409, answer: { outcomes: [{ action: 'refused', access: 'wider' }] } });
    const again = await start();
    expect(again.warnings.join('\n')).toMatch(/refused push: .*--allow access/);
    expect(await deliver(again)).toBe(401);
    expect(await ask(again, 'POST', '/flows/reload?allow=access')).toMatchObject({ status: 200 });
    expect(await deliver(again)).toBe(200);
  });

  it('is deployed by the start and the reloads of a process that allows it, and not by its API', async () => {
    await write(manifest());
    await start();
    await write(manifest({ webhookEnforcementMode: 'Audit' }, '2'));
    const app = await start({ allow: ['access'] });
    expect((await ask(app, 'GET', `/flows/${FLOW_ID}`)).answer.version).toBe('2');
    await write(manifest({}, '3'));
    await app.reload();
    expect(await deliver(app)).toBe(401);
    expect(await put(app, manifest({ webhookEnforcementMode: 'Off' }, '4'))).toMatchObject({ status: 409 });
    await write(manifest({ webhookEnforcementMode: 'Off' }, '4'));
    await app.reload();
    expect(await deliver(app)).toBe(200);
  });

  describe('at a slug that was given up', () => {
    const OTHER = { id: '7d9c2b1e-0000-4000-8000-000000000001', name: 'other' };
    const other = (inputs: object = {}, version = '1') => ({ ...manifest(inputs, version), ...OTHER });
    const elsewhere = { webhookSlug: 'elsewhere' };
    const putAll = (app: SluiceApp, flows: readonly object[], query = '') => ask(app, 'PUT', `/flows${query}`, flows);
    const wider = { webhookEnforcementMode: 'Audit' };

    it.each<[string, object, number]>([
      ['is refused where another flow takes it and checks less', wider, 409],
      ['is refused where another flow takes it with another key', { webhookHmacKey: 'a key of somebody else' }, 409],
      ['is none where another flow takes it and checks the same', {}, 200],
    ])('%s', async (_rule, inputs, status) => {
      await write(manifest());
      const app = await start();
      expect(await put(app, manifest(elsewhere, '2'))).toMatchObject({ status: 200 });
      expect(await ask(app, 'PUT', `/flows/${OTHER.id}`, other(inputs))).toMatchObject({ status });
      await write(manifest(elsewhere, '2'));
      const again = await start();
      const taken = await ask(again, 'PUT', `/flows/${OTHER.id}?allow=access`, other(inputs));
      expect(taken).toMatchObject({ status: 200 });
    });

    it.each<[string, (app: SluiceApp) => Promise<unknown>]>([
      ['was given up before', (app) => put(app, manifest({ ...elsewhere, webhookShared: true }, '2'))],
      ['was deleted', (app) => ask(app, 'DELETE', `/flows/${FLOW_ID}`)],
    ])('is refused where a flow that would share it takes it and checks less: the slug %s', async (_how, giveUp) => {
      const app = await start();
      const shared = { webhookShared: true };
      expect(await put(app, manifest(shared))).toMatchObject({ status: 200 });
      expect(await giveUp(app)).toMatchObject({ status: 200 });
      const taken = (inputs: object) => ask(app, 'PUT', `/flows/${OTHER.id}`, other({ ...shared, ...inputs }));
      expect(await taken(wider)).toMatchObject({ status: 409, answer: { access: 'wider' } });
      expect(await taken({})).toMatchObject({ status: 200 });
    });

    it('is refused where a flow that would share it takes it in the same deploy and checks less', async () => {
      const app = await start();
      const shared = { webhookShared: true };
      expect(await put(app, manifest(shared))).toMatchObject({ status: 200 });
      const both = [manifest({ ...elsewhere, ...shared }, '2'), other({ ...shared, ...wider })];
      expect(await putAll(app, both)).toMatchObject({
        status: 409,
        answer: { outcomes: [{ action: 'updated' }, { action: 'refused', access: 'wider' }] },
      });
    });

    it('is refused where a deleted flow comes back to it and checks less than the flow that had it since', async () => {
      const app = await start();
      expect(await put(app, manifest(wider))).toMatchObject({ status: 200 });
      expect(await ask(app, 'DELETE', `/flows/${FLOW_ID}`)).toMatchObject({ status: 200 });
      expect(await ask(app, 'PUT', `/flows/${OTHER.id}`, other())).toMatchObject({ status: 200 });
      expect(await ask(app, 'DELETE', `/flows/${OTHER.id}`)).toMatchObject({ status: 200 });
      expect(await put(app, manifest(wider, '2'))).toMatchObject({ status: 409, answer: { access: 'wider' } });
      expect(await put(app, manifest({}, '3'))).toMatchObject({ status: 200 });
    });

    it.each([
      ['its own flow', FLOW_ID],
      ['another flow', OTHER.id],
    ])('is refused where %s takes it and a setting lets more in than when it was given up', async (_who, taker) => {
      const unset = { webhookEnforcementMode: undefined };
      const app = await start({ settings: { enforcementMode: 'Enforce' } });
      expect(await put(app, manifest(unset))).toMatchObject({ status: 200 });
      expect(await ask(app, 'DELETE', `/flows/${FLOW_ID}`)).toMatchObject({ status: 200 });
      const again = await start({ settings: { enforcementMode: 'Off' } });
      const taken = (inputs: object, version: string) =>
        ask(again, 'PUT', `/flows/${taker}`, { ...manifest(inputs, version), id: taker });
      expect(await taken(unset, '2')).toMatchObject({ status: 409, answer: { access: 'wider' } });
      expect(await taken({}, '3')).toMatchObject({ status: 200 });
    });

    it('is refused where its own flow takes it again and checks less', async () => {
      await write(manifest());
      const app = await start();
      expect(await put(app, manifest(elsewhere, '2'))).toMatchObject({ status: 200 });
      const back = { webhookSlug: 'push', ...wider };
      expect(await put(app, manifest(back, '3'), '?allow=caution')).toMatchObject({ status: 409 });
    });

    it('is refused the second time too where half of a deploy was refused the first time', async () => {
      await write(manifest());
      const app = await start();
      const both = [manifest(elsewhere, '2'), other(wider)];
      for (let tries = 0; tries < 3; tries += 1) {
        const { answer } = await putAll(app, both);
        expect(answer.outcomes ?? answer).toMatchObject([
          { action: tries === 0 ? 'updated' : 'unchanged' },
          { action: 'refused', access: 'wider' },
        ]);
      }
      expect(await ask(app, 'POST', '/webhook/push', { order: 1 })).toMatchObject({ status: 404 });
    });
  });

  it('is refused where another flow takes a slug with the reference of its key, behind which is another key', async () => {
    const file = join(workspace.folder, 'key.txt');
    const keyed = { webhookHmacKey: `file:${file}` };
    await writeFile(file, 'the first key');
    const app = await start({ settings: { manifestSecrets: [`file:${workspace.folder}`] } });
    expect(await put(app, manifest(keyed))).toMatchObject({ status: 200 });
    const taker = (inputs: object) => ({ ...manifest(inputs), id: randomUUID(), name: 'other' });
    const moved = (inputs: object) => [manifest({ ...keyed, webhookSlug: 'elsewhere' }, '2'), taker(inputs)];
    await writeFile(file, 'the second key');
    const { status, answer } = await ask(app, 'PUT', '/flows?dryRun=true', moved(keyed));
    expect([status, answer.outcomes]).toMatchObject([
      409,
      [{ action: 'updated' }, { action: 'refused', access: 'wider' }],
    ]);
    await writeFile(file, 'the first key');
    expect(await ask(app, 'PUT', '/flows', moved(keyed))).toMatchObject({ status: 200 });
  });

  it('is refused where the file of a schema changes behind its name', async () => {
    const schema = join(workspace.folder, 'manifests', 'order.schema.json');
    await writeFile(schema, '{"required":["n"]}');
    await write(manifest({ webhookBodySchema: 'file:order.schema.json' }));
    const app = await start();
    await writeFile(schema, '{}');
    expect(await ask(app, 'POST', '/flows/reload')).toMatchObject({
      status: 409,
      answer: { outcomes: [{ action: 'refused', access: 'wider', findings: [{ rule: 'access-widened' }] }] },
    });
    expect(await ask(app, 'POST', '/flows/reload?allow=access')).toMatchObject({ status: 200 });
  });
});

describe('a deploy by which more got in', () => {
  beforeEach(open);

  it('is told by an event and an entry of the activity list, with who did it', async () => {
    const lines: string[] = [];
    await write(manifest());
    const app = await buildApp({
      folder: workspace.folder,
      logger: pino({ level: 'warn' }, { write: (line: string) => lines.push(line) }),
      settings: { port: 0 },
    });
    apps.push(app);
    await put(app, manifest({ webhookEnforcementMode: 'Off' }, '2'));
    const events = () => lines.map((line) => JSON.parse(line)).filter(({ eventId }) => eventId === 5010);
    expect(events()).toEqual([]);
    await put(app, manifest({ webhookEnforcementMode: 'Off' }, '2'), '?allow=access');
    expect(events()).toMatchObject([{ eventName: 'AccessWidened', flowId: FLOW_ID, revision: 2, actor: 'anyone' }]);
    const { answer } = await ask(app, 'GET', `/activity?target=${FLOW_ID}&action=widenAccess`);
    expect(answer).toMatchObject([
      { action: 'widenAccess', actor: 'anyone', details: { access: 'wider', revision: '2' } },
    ]);
  });
});

describe('the activity', () => {
  beforeEach(open);

  it('has a row for each flow that a deploy changes, with its revision, who did it and why', async () => {
    await write(manifest());
    const app = await start();
    const rowsOf = async (id: string) => (await ask(app, 'GET', `/activity?target=${id}&action=deployRevision`)).answer;
    expect(await rowsOf(FLOW_ID)).toEqual([]);
    const other = { ...manifest({ webhookSlug: 'other' }), id: randomUUID(), name: 'other' };
    expect((await ask(app, 'PUT', '/flows?reason=moved', [manifest({}, '2'), other])).status).toBe(200);
    const told = { actor: 'anyone', reason: 'moved', outcome: 'done' };
    expect(await rowsOf(FLOW_ID)).toMatchObject([{ ...told, details: { revision: '2', version: '2' } }]);
    expect(await rowsOf(other.id)).toMatchObject([{ ...told, details: { revision: '1' } }]);
    await write(manifest({}, '3'));
    await ask(app, 'POST', '/flows/reload', { reason: 'the folder is right' });
    const [newest, ...before] = await rowsOf(FLOW_ID);
    expect(newest).toMatchObject({ reason: 'the folder is right', details: { revision: '3' } });
    expect(before).toHaveLength(1);
  });
});

describe('a deploy that needs no word', () => {
  beforeEach(open);

  it('is one of a new flow, told as wider where no signature is enforced', async () => {
    await write(manifest());
    const app = await start();
    const id = randomUUID();
    const open = { ...manifest({ webhookSlug: 'open', webhookSignatureScheme: undefined }), id, name: 'open' };
    expect(await ask(app, 'PUT', `/flows/${id}`, open)).toMatchObject({
      status: 200,
      answer: { action: 'created', access: 'wider', class: 'safe' },
    });
    const other = randomUUID();
    const shut = { ...manifest({ webhookSlug: 'shut' }), id: other, name: 'shut' };
    expect(await ask(app, 'PUT', `/flows/${other}`, shut)).toMatchObject({
      status: 200,
      answer: { action: 'created', access: 'same' },
    });
  });

  it('is one where another trigger or step changes, or fewer get in', async () => {
    await write(manifest());
    const app = await start();
    const hook = hookOf();
    const timer = { type: 'cron', inputs: { cronExpression: '0 6 * * *' } };
    expect((await put(app, { ...manifest({}, '2'), triggers: { github: hook, timer } })).answer).toMatchObject({
      action: 'updated',
      access: 'same',
    });
    const narrower = await put(app, manifest({ webhookIpAllowList: ['192.0.2.1'] }, '3'));
    expect(narrower.answer).toMatchObject({ action: 'updated', access: 'narrower' });
  });
});
