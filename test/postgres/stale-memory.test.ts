// biome-ignore-all lint/suspicious/noTemplateCurlyInString: manifests have placeholders in plain strings.

import { createHmac, randomUUID } from 'node:crypto';
import pino from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, onTestFinished, test, vi } from 'vitest';
import { buildApp, type SluiceApp } from '../../src/app.ts';
import type { SettingsInput } from '../../src/config/settings-schema.ts';
import { StoreUnavailableError } from '../../src/errors.ts';
import type { Change, Changes, Store } from '../../src/store/store.ts';
import { createWorkspace, GITHUB_SECRET } from '../e2e/service.ts';
import { until } from '../eventually.ts';
import { countHeld } from '../store/samples.ts';
import { openStore, returnSchema, takeSchema } from './schemas.ts';

// Two replicas on one schema. `here` does not hear of deploys by `there`: whatever it learns, it asked for. Starting
// both takes longer than a test, so all tests share them, each with its own slug and flows.

let tests = 0;
const idOf = (flow: string) => `0${flow}${String(tests).padStart(6, '0')}-0000-4000-8000-000000000000`;
const nameOf = (flow: string) => `${flow}-${tests}`;
const slug = () => `push-${tests}`;
const isOwn = (flowId: string) => flowId === idOf(flowId.slice(1, 2));

const unheard: Changes = {
  [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }),
  unseenMs: () => 0,
};
let say: (change: Change) => void;
/** The changes that the test says, one after the other. */
const heard: Changes = {
  ...unheard,
  async *[Symbol.asyncIterator]() {
    for (;;)
      yield await new Promise<Change>((resolve) => {
        say = resolve;
      });
  },
};

let schema: string;
let here: Started;
let there: Started;

type Started = SluiceApp & { stop(): Promise<void> };

async function start(change: Partial<Store> = {}, settings: SettingsInput = {}): Promise<Started> {
  const workspace = await createWorkspace();
  const store = (await openStore({ schema })) as unknown as Store;
  const app = await buildApp({
    settings: {
      ...{ port: 0, enforcementMode: 'Enforce', drainSeconds: 0, databaseUrl: inject('postgresUrl') },
      ...{ databaseSchema: schema, storeKey: `sluice-key-${'5'.repeat(64)}`, ...settings },
    },
    folder: workspace.folder,
    logger: pino({ level: 'silent' }),
    store: { ...store, changes: unheard, ...change },
  });
  await app.listen();
  const stop = async () => {
    await app.close();
    await workspace.remove();
  };
  return { ...app, stop };
}

/** A replica for one test. */
async function startOwn(...given: Parameters<typeof start>): Promise<SluiceApp> {
  const app = await start(...given);
  onTestFinished(app.stop);
  return app;
}

beforeAll(async () => {
  schema = takeSchema();
  here = await start({ changes: heard });
  there = await start();
});
beforeEach(() => {
  tests += 1;
});
afterEach(() => {
  vi.restoreAllMocks();
});
afterAll(async () => {
  await here.stop();
  await there.stop();
  await returnSchema(schema);
});

const manifestOf = (flow: string, hook: object = {}, version = '1') => ({
  ...{ id: idOf(flow), name: nameOf(flow), version },
  triggers: {
    push: {
      type: 'webhook',
      inputs: {
        ...{ webhookSlug: slug(), webhookShared: true, webhookSignatureScheme: 'GitHub' },
        ...{ webhookHmacKey: GITHUB_SECRET, webhookNonceHeader: 'X-GitHub-Delivery', ...hook },
      },
    },
  },
  steps: { only: { type: 'NoOp' } },
});

async function ask(app: SluiceApp, method: 'POST' | 'PUT' | 'DELETE', path: string, body: object = {}) {
  const headers = { 'content-type': 'application/json' };
  const response = await app.fastify.inject({
    method,
    url: `/flows/api${path}`,
    payload: JSON.stringify(body),
    headers,
  });
  return { status: response.statusCode, answer: response.json() };
}

async function deploy(app: SluiceApp, ...flows: object[]) {
  const { status, answer } = await ask(app, 'PUT', '/flows?allow=caution,access', flows);
  const refusals = answer.outcomes?.map(({ refusal }: { refusal: unknown }) => refusal) ?? answer;
  expect({ status, refusals }).toEqual({
    status: 200,
    refusals: flows.map(() => null),
  });
}

async function deliver(app: SluiceApp, { to = slug(), nonce = randomUUID() as string } = {}) {
  const payload = '{"n":1}';
  const response = await app.fastify.inject({
    ...{ method: 'POST', url: `/flows/api/webhook/${to}`, payload },
    headers: {
      'content-type': 'application/json',
      'x-hub-signature-256': `sha256=${createHmac('sha256', GITHUB_SECRET).update(payload).digest('hex')}`,
      'x-github-delivery': nonce,
    },
  });
  return { status: response.statusCode, ...(response.body !== '' && response.json()) };
}

/** Letters of the test's flows, once for each stored run. */
const runs = async () => {
  const { items } = await there.store.listRuns({ skip: 0, take: 99 });
  return items.flatMap(({ flowId }) => (isOwn(flowId) ? [flowId.slice(1, 2)] : [])).sort();
};

/** The number of held deliveries of each flow of the test. */
const held = async () => {
  const counts = await countHeld(there.store);
  return Object.fromEntries(Object.entries(counts).filter(([flowId]) => isOwn(flowId)));
};

describe('a slug that flows share', () => {
  test('starts a run of each that is deployed, whichever of them the replica has heard of', async () => {
    await deploy(there, manifestOf('a'));
    expect(await deliver(here)).toMatchObject({ status: 200 });
    await deploy(there, manifestOf('b'), manifestOf('c'));
    const answer = await deliver(here);
    expect(answer.runs).toHaveLength(3);
    expect(await runs()).toEqual(['a', 'a', 'b', 'c']);
  });

  test('starts a run of each where the replica has taken up one flow of a deploy so far', async () => {
    await deploy(there, manifestOf('a'), manifestOf('b'), manifestOf('c'));
    // The state between two notices.
    say({ kind: 'flow', flowId: idOf('b') });
    await until(() => here.triggers().find(slug()) !== undefined);
    expect(here.triggers().findAll(slug())).toHaveLength(1);
    expect((await deliver(here)).runs).toHaveLength(3);
    expect(await runs()).toEqual(['a', 'b', 'c']);
  });

  test('starts a run of a flow that was deployed while the gates of the others thought', async () => {
    await deploy(there, manifestOf('a'));
    await deliver(here);
    const accept = here.engine.accept.bind(here.engine);
    vi.spyOn(here.engine, 'accept').mockImplementationOnce(async (acceptance) => {
      await deploy(there, manifestOf('b'));
      return accept(acceptance);
    });
    expect((await deliver(here)).runs).toHaveLength(2);
    expect(await runs()).toEqual(['a', 'a', 'b']);
  });

  test('is refused as a replay for all of them after one delivery', async () => {
    await deploy(there, manifestOf('a'));
    await deliver(here);
    await deploy(there, manifestOf('b'));
    expect(await deliver(here, { nonce: 'one' })).toMatchObject({ status: 200 });
    expect(await deliver(there, { nonce: 'one' })).toMatchObject({ status: 409 });
    expect(await runs()).toEqual(['a', 'a', 'b']);
  });

  test('goes to the flow that took it over', async () => {
    await deploy(there, manifestOf('a', { webhookShared: false }));
    await deliver(here);
    await deploy(
      there,
      manifestOf('a', { webhookShared: false, webhookSlug: `former-${slug()}` }, '2'),
      manifestOf('b', { webhookShared: false }),
    );
    expect(await deliver(here)).toMatchObject({ status: 200 });
    expect(await runs()).toEqual(['a', 'b']);
  });
});

describe('a slug that the replica has not heard of', () => {
  test.each<[string, () => string]>([
    ['written in the manifest', slug],
    ['in capitals', () => slug().toUpperCase()],
    ['the id of its flow', () => idOf('a')],
  ])('is found, as %s', async (_name, spelled) => {
    const to = spelled();
    expect(await deliver(here, { to })).toMatchObject({ status: 404, reason: 'unknown_flow' });
    await deploy(there, manifestOf('a'));
    expect(await deliver(here, { to })).toMatchObject({ status: 200 });
  });

  test('lets a publisher of CloudEvents ask', async () => {
    await deploy(there, manifestOf('a'));
    const headers = { 'webhook-request-origin': 'example.com' };
    const answer = await here.fastify.inject({ method: 'OPTIONS', url: `/flows/api/webhook/${slug()}`, headers });
    expect(answer.statusCode).toBe(200);
  });

  test('gets 503 while the database cannot be asked', async () => {
    const listFlows = async () => Promise.reject(new StoreUnavailableError('the database is away'));
    const app = await startOwn({ listFlows });
    expect(await deliver(app)).toMatchObject({ status: 503, reason: 'store_unavailable' });
  });

  test('is unknown where no flow has it, and one that no database can store breaks no other', async () => {
    const names = ['nothing', 'a%00b', 'x'.repeat(200), '%F0%9F%98%80', "o'hara", idOf('f')];
    const answers = await Promise.all(names.map((to) => deliver(here, { to })));
    expect(answers.map(({ status }) => status)).toEqual(names.map(() => 404));
  });

  test('is asked for by one question at a time, however many wait', async () => {
    const { listFlows } = here.store;
    let underWay = 0;
    const atOnce: number[] = [];
    vi.spyOn(here.store, 'listFlows').mockImplementation(async (names) => {
      underWay += 1;
      atOnce.push(underWay);
      const flows = await listFlows(names);
      underWay -= 1;
      return flows;
    });
    const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => deliver(here, { to: `stranger-${n}` })));
    expect(answers.every(({ status }) => status === 404)).toBe(true);
    expect(new Set(atOnce)).toEqual(new Set([1]));
  });
});

describe('a deploy to a slug that another replica gave to a flow', () => {
  test.each<[string, object, string]>([
    ['does not share it', { webhookShared: false }, 'belongs to the deployed flow'],
    ['has other gates', { webhookEnforcementMode: 'Off' }, 'deploy both together'],
  ])('is refused where it %s', async (_name, hook, why) => {
    await deploy(there, manifestOf('a'));
    const { status, answer } = await ask(here, 'PUT', '/flows?allow=caution,access', [manifestOf('b', hook)]);
    expect([status, answer.outcomes[0].refusal]).toEqual([409, expect.stringContaining(why)]);
    await deliver(here);
    await deliver(there);
    expect(await runs()).toEqual(['a', 'a']);
  });
});

describe('a flow that another replica closed or opened', () => {
  const close = (app: SluiceApp, flow: string, hold?: boolean) =>
    ask(app, 'POST', `/flows/${idOf(flow)}/disable`, { hold });
  const open = (app: SluiceApp, flow: string) => ask(app, 'POST', `/flows/${idOf(flow)}/enable`);
  const prepare = async (...flows: string[]) => {
    await deploy(there, ...flows.map((flow) => manifestOf(flow)));
    // From now on the replica knows them.
    await deliver(here);
  };

  test('starts a run where this one remembers it closed', async () => {
    await prepare('a');
    await close(here, 'a');
    await open(there, 'a');
    expect(await deliver(here)).toMatchObject({ status: 200 });
    expect(await runs()).toEqual(['a', 'a']);
  });

  test('holds a delivery where this one remembers that it refuses', async () => {
    await prepare('a');
    await close(here, 'a', false);
    await open(there, 'a');
    await close(there, 'a', true);
    expect(await deliver(here)).toMatchObject({ status: 200, held: true });
    expect(await held()).toEqual({ [idOf('a')]: 1 });
  });

  test('refuses a delivery where this one remembers that it holds', async () => {
    await prepare('a');
    await close(here, 'a', true);
    await open(there, 'a');
    await close(there, 'a', false);
    expect(await deliver(here)).toMatchObject({ status: 403, reason: 'flow_disabled' });
    expect(await held()).toEqual({});
  });

  test('of several that share a slug starts its run, is held or refuses as it is now', async () => {
    await prepare('a', 'b', 'c', 'd');
    await close(here, 'b', false);
    await close(here, 'c', false);
    await close(here, 'd', true);
    for (const flow of ['b', 'c', 'd']) await open(there, flow);
    await close(there, 'c', true);
    await close(there, 'd', false);
    expect(await deliver(here)).toMatchObject({ status: 200 });
    expect(await runs()).toEqual(['a', 'a', 'b', 'b', 'c', 'd']);
    expect(await held()).toEqual({ [idOf('c')]: 1 });
  });

  test('is started by hand and by its schedule where this one remembers it closed', async () => {
    const cron = { nightly: { type: 'cron', inputs: { cronExpression: '0 0 1 1 *' } } };
    const manifest = manifestOf('a');
    await deploy(there, { ...manifest, triggers: { ...manifest.triggers, ...cron } });
    await deliver(here);
    await close(here, 'a');
    await open(there, 'a');
    expect((await ask(here, 'POST', `/flows/${idOf('a')}/trigger`)).status).toBe(200);
    await close(here, 'a');
    await open(there, 'a');
    expect((await ask(here, 'POST', `/schedules/flow-${idOf('a')}-nightly/trigger`)).status).toBe(200);
    expect(await runs()).toEqual(['a', 'a', 'a']);
  });

  test('is started by hand where this one has not heard of it', async () => {
    await deploy(there, manifestOf('a'));
    expect((await ask(here, 'POST', `/flows/${idOf('a')}/trigger`)).status).toBe(200);
    expect(await runs()).toEqual(['a']);
  });
});

describe('a call about a flow', () => {
  const cron = { nightly: { type: 'cron', inputs: { cronExpression: '0 0 1 1 *' } } };
  const withCron = (flow: string) => {
    const manifest = manifestOf(flow);
    return { ...manifest, triggers: { ...manifest.triggers, ...cron } };
  };
  const path = (rest = '') => `/flows/${idOf('a')}${rest}`;
  const schedule = (verb: string) => `/schedules/flow-${idOf('a')}-nightly/${verb}`;
  const look = async (app: SluiceApp, of: string) => {
    const response = await app.fastify.inject(`/flows/api${of}`);
    return { status: response.statusCode, answer: response.json() };
  };
  const sample = { body: '{"n":1}', headers: {} };

  test.each<[string, () => Promise<{ readonly status: number }>]>([
    ['is read', () => look(here, path())],
    ['has its paths read', () => look(here, path('/paths'))],
    ['has its drain read', () => look(here, path('/drain'))],
    ['is drained', () => ask(here, 'POST', path('/drain'))],
    ['is resumed', () => ask(here, 'POST', path('/resume'))],
    ['is disabled', () => ask(here, 'POST', path('/disable'))],
    ['is deleted', () => ask(here, 'DELETE', path())],
    ['has its schedule paused', () => ask(here, 'POST', schedule('pause'))],
    ['has its schedule fired', () => ask(here, 'POST', schedule('trigger'))],
    ['has its schedule changed', () => ask(here, 'PUT', schedule('cron'), { cronExpression: '0 1 * * *' })],
    ['has a dry run', () => ask(here, 'POST', `/webhooks/dry-run/${slug()}`, sample)],
  ])('of which the replica has not heard: it %s', async (_what, call) => {
    await deploy(there, withCron('a'));
    expect((await call()).status).toBe(200);
  });

  test('that another replica drained and resumed says so', async () => {
    await deploy(there, manifestOf('a'));
    await deliver(here);
    await ask(there, 'POST', path('/drain'));
    expect((await look(here, path('/drain'))).answer).toMatchObject({ draining: true });
    await ask(there, 'POST', path('/resume'));
    expect((await look(here, path('/drain'))).answer).toMatchObject({ draining: false });
  });

  test('that another replica deleted gets 404', async () => {
    await deploy(there, withCron('a'));
    await deliver(here);
    expect((await ask(there, 'DELETE', path())).status).toBe(200);
    expect((await look(here, path())).status).toBe(404);
    expect((await ask(here, 'DELETE', path())).status).toBe(404);
    expect((await ask(here, 'POST', schedule('pause'))).status).toBe(404);
  });
});

describe('a deploy', () => {
  const own = { webhookShared: false };

  test('gets a slug that another replica freed: the flow was deleted', async () => {
    await deploy(there, manifestOf('a', own));
    await deliver(here);
    await ask(there, 'DELETE', `/flows/${idOf('a')}`);
    await deploy(here, manifestOf('b', own));
    expect(await deliver(there)).toMatchObject({ status: 200 });
    expect(await runs()).toEqual(['a', 'b']);
  });

  test('gets a slug that another replica freed: the flow has another', async () => {
    await deploy(there, manifestOf('a', own));
    await deliver(here);
    await deploy(there, manifestOf('a', { ...own, webhookSlug: `former-${slug()}` }, '2'));
    await deploy(here, manifestOf('b', own));
    expect(await deliver(there)).toMatchObject({ status: 200 });
    expect(await runs()).toEqual(['a', 'b']);
  });

  test('may start a flow that another replica deployed', async () => {
    await deploy(there, manifestOf('a', own));
    const call = { type: 'RunFlow', inputs: { flow: idOf('a') } };
    const caller = { ...manifestOf('b'), triggers: {}, steps: { call }, onFailure: idOf('a') };
    await deploy(here, caller);
  });

  test('may not start a flow that another replica deleted', async () => {
    await deploy(there, manifestOf('a', own));
    await deliver(here);
    await ask(there, 'DELETE', `/flows/${idOf('a')}`);
    const call = { type: 'RunFlow', inputs: { flow: idOf('a') } };
    const caller = { ...manifestOf('b'), triggers: {}, steps: { call } };
    const { status, answer } = await ask(here, 'PUT', `/flows/${idOf('b')}`, caller);
    expect([status, answer.refusal]).toEqual([409, expect.stringContaining('is not deployed')]);
  });
});

describe('a delivery that this replica refuses by what it remembers', () => {
  const OTHER_KEY = { webhookHmacKey: 'another-key-of-the-test' };
  const LONGEST_PAUSE_MS = 1000;
  const questions = (app: SluiceApp) => vi.spyOn(app.store, 'listFlows');
  /** Deploys at `there`, and lets the replica remember it. */
  const remember = async (hook: object, app: SluiceApp = here) => {
    await deploy(there, manifestOf('a', hook));
    return deliver(app);
  };

  test.each([
    ['another key', OTHER_KEY, { status: 401, reason: 'signature_mismatch' }],
    ['other addresses', { webhookIpAllowList: ['203.0.113.0/24'] }, { status: 403, reason: 'ip_not_allowed' }],
    [
      'another schema',
      { webhookBodySchema: { type: 'object', required: ['other'] } },
      { status: 422, reason: 'body_schema' },
    ],
    ['another filter', { webhookWhen: 'body.n == 2' }, { status: 200, filtered: true }],
  ])('starts a run where another one deployed a manifest that takes it: %s', async (_what, former, refusal) => {
    expect(await remember(former)).toMatchObject(refusal);
    await deploy(there, manifestOf('a', {}, '2'));
    expect(await deliver(here)).toMatchObject({ status: 200, runId: expect.any(String) });
    expect(await runs()).toEqual(['a']);
  });

  test('starts the runs of all flows that share the slug by now', async () => {
    await remember(OTHER_KEY);
    await deploy(there, manifestOf('a', {}, '2'), manifestOf('b'));
    expect((await deliver(here)).runs).toHaveLength(2);
    expect(await runs()).toEqual(['a', 'b']);
  });

  test('is refused, and kept as that, by what was deployed last', async () => {
    await remember({});
    await deploy(there, manifestOf('a', { webhookIpAllowList: ['203.0.113.0/24'], ...OTHER_KEY }, '2'));
    expect(await deliver(here)).toMatchObject({ status: 403, reason: 'ip_not_allowed' });
    const { items } = await there.store.listDeliveries({ skip: 0, take: 9, flowId: idOf('a') });
    expect(items.map(({ reason }) => reason)).toEqual(['ip_not_allowed', null]);
  });

  test('is answered as a handshake where the newest manifest has one', async () => {
    await remember({});
    const shake = () =>
      here.fastify.inject(`/flows/api/webhook/${slug()}?hub.mode=subscribe&hub.challenge=7&hub.verify_token=word`);
    expect((await shake()).statusCode).toBe(405);
    await deploy(there, manifestOf('a', { webhookSignatureScheme: 'Meta', webhookVerifyToken: 'word' }, '2'));
    expect((await shake()).body).toBe('7');
  });

  test.each([
    ['answers', { status: 202 }, { status: 202 }],
    ['refuses', { body: '${body.missing}' }, { status: 400 }],
  ])('starts a run where the handshake that it %s is gone from the newest manifest', async (_what, answer, before) => {
    expect(await remember({ webhookHandshake: { method: 'POST', when: 'body.n == 1', answer } })).toMatchObject(before);
    await deploy(there, manifestOf('a', {}, '2'));
    expect(await deliver(here)).toMatchObject({ status: 200, runId: expect.any(String) });
    expect(await runs()).toEqual(['a']);
  });

  test('gets 503 while the database cannot be asked', async () => {
    await remember(OTHER_KEY);
    questions(here).mockRejectedValueOnce(new StoreUnavailableError('the database is away'));
    expect(await deliver(here)).toMatchObject({ status: 503, reason: 'store_unavailable' });
    expect(await deliver(here)).toMatchObject({ status: 401 });
  });

  test('asks for nothing where the gates pass it', async () => {
    await remember({});
    const asked = questions(here);
    expect(await deliver(here)).toMatchObject({ status: 200 });
    expect(asked).not.toHaveBeenCalled();
  });

  test('waits for one question together with all others, which comes after a pause', async () => {
    // Under this clock, a pause that begins never ends by itself.
    const app = await startOwn();
    const open = `open-${slug()}`;
    await remember(OTHER_KEY, app);
    await deploy(there, { ...manifestOf('b', { webhookSlug: open }) });
    await deliver(app, { to: open });
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    // Ends the pause after the previous question.
    vi.advanceTimersByTime(LONGEST_PAUSE_MS);
    const asked = questions(app);
    expect(await deliver(app)).toMatchObject({ status: 401 });
    const refused = Promise.all(Array.from({ length: 30 }, () => deliver(app)));
    expect(await deliver(app, { to: open })).toMatchObject({ status: 200 });
    expect(asked).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(LONGEST_PAUSE_MS);
    expect(new Set((await refused).map(({ status }) => status))).toEqual(new Set([401]));
    expect(asked).toHaveBeenCalledTimes(2);
  });
});

describe('a token that is limited to flows', () => {
  const limited = () =>
    startOwn({}, {
      tokens: [{ name: 'shop', token: 'shop-0123456789abcdef', scopes: ['read'], flows: [nameOf('a')] }],
    } as SettingsInput);
  const look = async (app: SluiceApp, path: string) => {
    const headers = { authorization: 'Bearer shop-0123456789abcdef' };
    return (await app.fastify.inject({ url: `/flows/api${path}`, headers })).statusCode;
  };
  const paths = async () => {
    const { items } = await there.store.listRuns({ skip: 0, take: 1 });
    return [`/flows/${idOf('a')}`, `/runs/${items[0]?.id}`];
  };

  test('sees a flow, and its runs, that its replica has not heard of', async () => {
    const app = await limited();
    expect(await look(app, `/flows/${idOf('a')}`)).toBe(404);
    await deploy(there, manifestOf('a'));
    await deliver(there);
    const [flow = '', run = ''] = await paths();
    expect([await look(app, run), await look(app, flow)]).toEqual([200, 200]);
  });

  test('sees no flow that got another name, of which its replica has not heard', async () => {
    const app = await limited();
    await deploy(there, manifestOf('a'));
    await deliver(there);
    const seen = await paths();
    expect(await Promise.all(seen.map((path) => look(app, path)))).toEqual([200, 200]);
    await deploy(there, { ...manifestOf('a', {}, '2'), name: 'hidden' });
    for (const path of seen) expect(await look(app, path)).toBe(404);
  });
});

describe('a delivery that is sent again by hand', () => {
  const refused = async () => {
    const { items } = await there.store.listDeliveries({ skip: 0, take: 1 });
    return items[0]?.id ?? '';
  };
  const again = (id: string) => ask(here, 'POST', `/webhooks/${id}/redeliver`, { force: true });

  test('starts its runs though another flow shares the slug by now', async () => {
    const other = { webhookHmacKey: 'another-key-of-the-test' };
    await deploy(there, manifestOf('a', other), manifestOf('b', other));
    expect(await deliver(here)).toMatchObject({ status: 401 });
    await deploy(there, manifestOf('a', {}, '2'), manifestOf('b', {}, '2'), manifestOf('c'));
    const { status, answer } = await again(await refused());
    expect({ status, answer }).toMatchObject({ status: 200, answer: { outcome: 'accepted' } });
    expect(await runs()).toEqual(expect.arrayContaining(['a', 'b']));
  });

  test('starts a run of a flow of which this replica has not heard', async () => {
    await deploy(there, manifestOf('a', { webhookHmacKey: 'another-key-of-the-test' }));
    expect(await deliver(there)).toMatchObject({ status: 401 });
    await deploy(there, manifestOf('a', {}, '2'));
    expect((await again(await refused())).answer).toMatchObject({ outcome: 'accepted' });
    expect(await runs()).toEqual(['a']);
  });
});

describe('a step of a run in flight', () => {
  const steps = (first: object, value: number) => ({
    first,
    second: { type: 'Transform', inputs: { value }, runAfter: { first: ['Succeeded'] } },
  });
  const secondOf = async (runId: string) => {
    const listed = await until(
      () => there.store.listSteps(runId),
      (found) => found?.find(({ stepKey }) => stepKey === 'second')?.status === 'Succeeded',
    );
    return listed?.find(({ stepKey }) => stepKey === 'second');
  };
  const newest = { output: 2, attempts: [{ inputsRevision: 2 }] };

  test('that follows at once has the inputs that another replica deployed meanwhile', async () => {
    const first = { type: 'NoOp' };
    await deploy(there, { ...manifestOf('a'), steps: steps(first, 1) });
    const advance = here.store.advance.bind(here.store);
    vi.spyOn(here.store, 'advance').mockImplementationOnce(async (...outcome) => {
      await deploy(there, { ...manifestOf('a', {}, '2'), steps: steps(first, 2) });
      return advance(...outcome);
    });
    const { runId } = await deliver(here);
    expect(await secondOf(runId)).toMatchObject(newest);
    expect(here.triggers().find(slug())?.flow.record.revision).toBe(1);
  });

  test('that waited has the inputs that another replica deployed meanwhile', async () => {
    const first = { type: 'WaitForSignal', inputs: { signalName: 'go' } };
    await deploy(there, { ...manifestOf('a'), steps: steps(first, 1) });
    vi.spyOn(there.store, 'claimDue').mockResolvedValue({ claims: [], nextDueAt: null, isKept: false });
    const { runId } = await deliver(here);
    await deploy(there, { ...manifestOf('a', {}, '2'), steps: steps(first, 2) });
    expect((await ask(here, 'POST', `/runs/${runId}/signals/go`)).status).toBe(200);
    expect(await secondOf(runId)).toMatchObject(newest);
    expect(here.triggers().find(slug())?.flow.record.revision).toBe(1);
  });
});
