import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { SluiceApp } from '../../src/app.ts';
import type { SettingsInput } from '../../src/config/settings-schema.ts';
import { StoreUnavailableError } from '../../src/errors.ts';
import type { Change, Changes, Store } from '../../src/store/store.ts';
import { buildApp, openEmptyStore } from '../database.ts';
import { createWorkspace, FLOW_ID, type Workspace } from '../e2e/service.ts';
import { eventually, until } from '../eventually.ts';
import { ask, push } from '../folder-app.ts';
import { countHeld } from '../store/samples.ts';

/* Two services on one store: `here` does not hear of changes by `there` unless a test says so. */

/** Reports no changes of others, as on SQLite. */
const unheard: Changes = {
  [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }),
  unseenMs: () => 0,
};

let here: SluiceApp;
let store: Store;
let workspaces: Workspace[];
let say: (change: Change) => void;

beforeEach(async () => {
  store = await openEmptyStore();
  workspaces = [];
});
afterEach(() => store.close());

const manifest = ({
  version = '1',
  hook = {},
  steps = {},
}: {
  version?: string;
  hook?: object;
  steps?: object;
} = {}) => ({
  id: FLOW_ID,
  name: 'push',
  version,
  triggers: {
    byHand: { type: 'manual' },
    hook: { type: 'webhook', inputs: { webhookSlug: 'push', ...hook } },
    nightly: { type: 'cron', inputs: { cronExpression: '0 0 1 1 *' } },
  },
  steps: { first: { type: 'NoOp' }, ...steps },
});

/** Starts a service on the store; `change` replaces members of the store for this service. */
async function start(change: Partial<Store> = {}, settings: SettingsInput = {}): Promise<SluiceApp> {
  const workspace = await createWorkspace();
  workspaces.push(workspace);
  await workspace.writeManifest('push.json', manifest());
  const app = await buildApp({
    settings: { enforcementMode: 'Enforce', port: 0, ...settings },
    folder: workspace.folder,
    store: { ...store, close: async () => {}, changes: unheard, ...change },
  });
  await app.listen();
  return app;
}

/** Starts the run of the schedule now. */
const NIGHTLY = `/schedules/flow-${FLOW_ID}-nightly/trigger`;

const deliver = (order = 7) => ask(here, 'POST', '/webhook/push', { order });
const put = async (there: SluiceApp, next: object) => {
  const { status, answer } = await ask(there, 'PUT', `/flows/${FLOW_ID}?allow=caution,access`, next);
  expect({ status, refusal: answer.refusal }).toEqual({ status: 200, refusal: null });
};
const runs = async () => (await store.listRuns({ skip: 0, take: 9 })).items;

const CLOSINGS: readonly [string, (there: SluiceApp) => Promise<unknown>][] = [
  ['disabled', (there) => ask(there, 'POST', `/flows/${FLOW_ID}/disable`)],
  ['drained', (there) => ask(there, 'POST', `/flows/${FLOW_ID}/drain`)],
];

describe('a flow that another process has closed', () => {
  it.each(CLOSINGS)(
    'starts no run by a delivery where it was %s, and the service knows it from then on',
    async (_name, close) => {
      here = await start();
      await close(await start());
      expect(await deliver()).toMatchObject({ status: 403, answer: { reason: 'flow_disabled' } });
      const accept = vi.spyOn(here.engine, 'accept');
      expect(await deliver()).toMatchObject({ status: 403, answer: { reason: 'flow_disabled' } });
      expect(accept).not.toHaveBeenCalled();
      expect(await runs()).toEqual([]);
    },
  );

  it('holds the delivery where deliveries are held', async () => {
    here = await start({}, { holdDeliveries: true });
    await ask(await start(), 'POST', `/flows/${FLOW_ID}/drain`);
    expect(await deliver()).toMatchObject({ status: 200 });
    expect(await countHeld(store)).toEqual({ [FLOW_ID]: 1 });
    expect(await runs()).toEqual([]);
  });

  it.each(CLOSINGS)('starts no run by hand, by a re-run or by its schedule where it was %s', async (_name, close) => {
    here = await start();
    const { runId } = (await ask(here, 'POST', `/flows/${FLOW_ID}/trigger`)).answer;
    await close(await start());
    expect((await ask(here, 'POST', `/runs/${runId}/rerun`)).status).toBe(403);
    expect((await ask(here, 'POST', `/flows/${FLOW_ID}/trigger`)).status).toBe(403);
    expect((await ask(here, 'POST', NIGHTLY)).status).toBe(403);
    expect(await runs()).toHaveLength(1);
  });
});

describe('a flow that another process has deleted', () => {
  const remove = async () => {
    const there = await start();
    for (const { folder } of workspaces.slice(1)) await rm(join(folder, 'manifests', 'push.json'));
    expect(await ask(there, 'DELETE', `/flows/${FLOW_ID}`)).toMatchObject({ status: 200 });
  };

  it.each([{}, { holdDeliveries: true }])(
    'is unknown to a delivery, and from then on to all who ask: %o',
    async (settings) => {
      here = await start({}, settings);
      await ask(here, 'POST', `/flows/${FLOW_ID}/${'holdDeliveries' in settings ? 'disable' : 'enable'}`);
      await remove();
      expect(await deliver()).toMatchObject({ status: 404, answer: { reason: 'unknown_flow' } });
      expect((await ask(here, 'GET', `/flows/${FLOW_ID}`)).status).toBe(404);
      expect([await countHeld(store), await runs()]).toEqual([{}, []]);
    },
  );

  it('starts no run by hand or by its schedule', async () => {
    here = await start();
    await remove();
    expect((await ask(here, 'POST', `/flows/${FLOW_ID}/trigger`)).status).toBe(404);
    expect((await ask(here, 'POST', NIGHTLY)).status).toBe(404);
    expect((await ask(here, 'GET', '/schedules')).answer).toEqual([]);
    expect(await runs()).toEqual([]);
  });
});

describe('a flow that another process has deployed', () => {
  it('runs with the new revision, however it is started', async () => {
    here = await start();
    const there = await start();
    const starts = [
      deliver,
      () => ask(here, 'POST', `/flows/${FLOW_ID}/trigger`),
      async () => ask(here, 'POST', `/runs/${(await runs())[0]?.id}/rerun`),
      () => ask(here, 'POST', NIGHTLY),
    ];
    for (const [at, begin] of starts.entries()) {
      await put(there, manifest({ version: `${at + 2}` }));
      expect((await begin()).status).toBe(200);
      expect((await runs())[0]).toMatchObject({ revision: at + 2, flowVersion: `${at + 2}` });
    }
  });

  it('has its deliveries judged again by its new gates', async () => {
    here = await start();
    await put(await start(), manifest({ version: '2', hook: { webhookIpDenyList: ['127.0.0.0/8'] } }));
    expect(await deliver()).toMatchObject({ status: 403, answer: { reason: 'ip_denied' } });
    expect(await runs()).toEqual([]);
  });

  it('is not found where its trigger is gone', async () => {
    here = await start();
    const { triggers, ...rest } = manifest({ version: '2' });
    await put(await start(), { ...rest, triggers: { byHand: triggers.byHand } });
    expect(await deliver()).toMatchObject({ status: 404, answer: { reason: 'unknown_flow' } });
  });

  it('judges a redelivery by its new gates', async () => {
    const denied = { hook: { webhookIpDenyList: ['127.0.0.0/8'] } };
    here = await start();
    const there = await start();
    await put(there, manifest({ version: '2', ...denied }));
    expect((await deliver()).status).toBe(403);
    const [refused] = (await store.listDeliveries({ skip: 0, take: 1 })).items;
    await put(there, manifest({ version: '3' }));
    await ask(here, 'POST', `/flows/${FLOW_ID}/trigger`);
    await put(there, manifest({ version: '4', ...denied }));
    const answer = (await ask(here, 'POST', `/webhooks/${refused?.id}/redeliver`)).answer;
    expect(answer).toMatchObject({ outcome: 'refused', reason: 'ip_denied' });
    expect(await runs()).toHaveLength(1);
  });

  it('is verified with no key that only this process’ manifest has', async () => {
    const key = 'an older key, written out';
    const signed = (webhookHmacKey: string) => ({ webhookSignatureScheme: 'GitHub', webhookHmacKey });
    here = await start();
    const there = await start();
    await put(here, manifest({ version: '2', hook: signed(key) }));
    const deliverSigned = async () => (await push(here, { key })).status;
    expect(await deliverSigned()).toBe(200);
    await put(there, manifest({ version: '3', hook: signed('the newer key, written out') }));
    expect(await deliverSigned()).toBeGreaterThanOrEqual(400);
    expect(await runs()).toHaveLength(1);
  });
});

describe('a flow that changes each time that a run of it is about to start', () => {
  it.each([
    ['a delivery', () => deliver()],
    ['a start by hand', () => ask(here, 'POST', `/flows/${FLOW_ID}/trigger`)],
  ])('has %s answered 503 after the third time', async (_name, begin) => {
    const accept = vi.fn(async () => ({ kind: 'outdated' }) as const);
    here = await start({ accept });
    expect((await begin()).status).toBe(503);
    expect(accept).toHaveBeenCalledTimes(3);
  });

  it('has the delivery answered 503 where it cannot be read', async () => {
    let isDown = false;
    const findFlow: Store['findFlow'] = (id) =>
      isDown ? Promise.reject(new StoreUnavailableError('the database is away')) : store.findFlow(id);
    here = await start({ findFlow });
    await ask(await start(), 'POST', `/flows/${FLOW_ID}/disable`);
    isDown = true;
    expect(await deliver()).toMatchObject({ status: 503, answer: { reason: 'store_unavailable' } });
    isDown = false;
    expect(await deliver()).toMatchObject({ status: 403, answer: { reason: 'flow_disabled' } });
  });
});

describe('what another process changed', () => {
  const heard: Changes = {
    ...unheard,
    async *[Symbol.asyncIterator]() {
      for (;;)
        yield await new Promise<Change>((resolve) => {
          say = resolve;
        });
    },
  };

  it('is in force as soon as the store tells of it', async () => {
    here = await start({ changes: heard });
    const there = await start();
    const other = { ...manifest(), id: '11111111-6c1d-4f0e-9a51-3f0f8d1c2a10', name: 'other' };
    const { triggers } = manifest({ hook: { webhookSlug: 'fresh' } });
    expect((await ask(there, 'PUT', `/flows/${other.id}`, { ...other, triggers })).status).toBe(200);
    expect((await ask(here, 'POST', '/webhook/fresh', {})).status).toBe(404);
    say({ kind: 'flow', flowId: other.id });
    await until(() => here.triggers().find('fresh') !== undefined);
    expect((await ask(here, 'POST', '/webhook/fresh', {})).status).toBe(200);
  });

  it('opens the flow again, and starts what it held', async () => {
    here = await start({ changes: heard }, { holdDeliveries: true });
    const there = await start();
    await ask(there, 'POST', `/flows/${FLOW_ID}/drain`);
    await deliver();
    await ask(there, 'DELETE', `/flows/${FLOW_ID}/drain`);
    say({ kind: 'flow', flowId: FLOW_ID });
    await eventually(runs, ({ length }) => length > 0);
    expect(await deliver()).toMatchObject({ status: 200 });
    expect(await runs()).toHaveLength(2);
  });
});
