import { describe, expect, it, onTestFinished } from 'vitest';
import { StoreUnavailableError } from '../../../src/errors.ts';
import { createLearnedKeys } from '../../../src/features/learned-keys/service.ts';
import { learnedKeysStore } from '../../../src/features/learned-keys/store.ts';
import type { Store } from '../../../src/store/store.ts';
import { gateChain, gatePreparer } from '../../../src/webhooks/gates/index.ts';
import { takeKey } from '../../../src/webhooks/handshakes.ts';
import { runGates } from '../../../src/webhooks/pipeline.ts';
import { createTriggerTable } from '../../../src/webhooks/triggers.ts';
import { openEmptyStore } from '../../database.ts';
import {
  deployedFlow,
  FakeClock,
  FLOW_ID,
  sampleDelivery,
  sampleSettings,
  sampleTrigger,
} from '../../webhooks/samples.ts';

const OWNER = { flowId: FLOW_ID, triggerKey: 'webhook', scheme: 'Asana' };
const SECRET = 'b537207f20cbfa02357cf448134da559';

async function openStore() {
  const store = await openEmptyStore();
  onTestFinished(() => store.close());
  return store;
}

async function keysOf(store: Pick<Store, 'of'>) {
  const keys = createLearnedKeys({ clock: new FakeClock(), sealer: undefined });
  await keys.open(store);
  return keys;
}

describe('learned keys', () => {
  it('are not learned before the store is open', async () => {
    const keys = createLearnedKeys({ clock: new FakeClock(), sealer: undefined });
    await expect(keys.learn(OWNER, SECRET)).rejects.toThrow('not open');
    expect(keys.find(OWNER)).toBeUndefined();
  });

  it('are those of the store, each for its trigger and scheme alone', async () => {
    const store = await openStore();
    const before = await keysOf(store);
    expect(await before.learn(OWNER, SECRET)).toBe(true);
    const keys = await keysOf(store);
    expect(keys.find(OWNER)).toBe(SECRET);
    expect(keys.find({ ...OWNER, scheme: 'Other' })).toBeUndefined();
    expect(keys.find({ ...OWNER, triggerKey: 'other' })).toBeUndefined();
    expect(await keys.learn(OWNER, SECRET)).toBe(true);
    expect(await keys.learn(OWNER, 'another')).toBe(false);
    expect(await keys.learn({ ...OWNER, scheme: 'Other' }, SECRET)).toBe(false);
  });

  it('that another process learned or forgot are read again, those of one flow alone', async () => {
    const store = await openStore();
    const [here, there] = [await keysOf(store), await keysOf(store)];
    const elsewhere = { ...OWNER, flowId: 'another flow' };
    await there.learn(OWNER, SECRET);
    await there.learn(elsewhere, SECRET);
    expect(here.find(OWNER)).toBeUndefined();
    await here.refresh(FLOW_ID);
    expect([here.find(OWNER), here.find(elsewhere)]).toEqual([SECRET, undefined]);
    await there.forget(OWNER);
    await there.learn(OWNER, 'a newer one');
    await here.refresh(FLOW_ID);
    expect(here.find(OWNER)).toBe('a newer one');
    await there.forget(OWNER);
    await here.refresh(FLOW_ID);
    expect(here.find(OWNER)).toBeUndefined();
  });

  it('are learned anew from a handshake, though another process forgot them unheard', async () => {
    const store = await openStore();
    const [here, there] = [await keysOf(store), await keysOf(store)];
    await here.learn(OWNER, SECRET);
    await there.forget(OWNER);
    expect(await here.learn(OWNER, SECRET)).toBe(true);
    await there.refresh(FLOW_ID);
    expect(there.find(OWNER)).toBe(SECRET);
    await there.forget(OWNER);
    expect(await here.learn(OWNER, 'a newer one')).toBe(true);
    expect(here.find(OWNER)).toBe('a newer one');
  });

  it('that this process learns while it reads them again are kept', async () => {
    const store = await openStore();
    let onRead = async () => {};
    const own = store.of(learnedKeysStore);
    const listLearnedKeys = async () => {
      const stale = await own.listLearnedKeys();
      await onRead();
      return stale;
    };
    const here = await keysOf({ of: () => ({ ...own, listLearnedKeys }) as never });
    onRead = async () => {
      await here.learn(OWNER, SECRET);
    };
    await here.refresh(FLOW_ID);
    expect(here.find(OWNER)).toBe(SECRET);
  });

  it('that cannot be stored are not believed, and not answered', async () => {
    const store = await openStore();
    const keys = await keysOf(store);
    await store.close();
    await expect(keys.learn(OWNER, SECRET)).rejects.toThrow(StoreUnavailableError);
    expect(keys.find(OWNER)).toBeUndefined();
    const inputs = { webhookSignatureScheme: 'Asana', webhookLearnKey: true };
    const [trigger] = createTriggerTable({
      flows: [deployedFlow({ webhooks: [sampleTrigger(inputs)] })],
      defaultMode: 'Enforce',
      preparer: gatePreparer(gateChain(), sampleSettings({ learnedKeys: keys })),
    }).list();
    if (trigger === undefined) throw new Error('there is no trigger');
    const delivery = sampleDelivery({ headers: { 'x-hook-secret': SECRET } });
    const judgement = await runGates(trigger.gates, delivery, 'Enforce');
    await expect(takeKey(SECRET, { delivery, trigger, judgement })).rejects.toThrow(StoreUnavailableError);
    expect(trigger).toMatchObject({ lacksKey: true, keys: { current: undefined } });
  });
});

it('hears a gate of the operator’s that judges behind the signature, before it believes a key', async () => {
  const store = await openStore();
  const learnedKeys = await keysOf(store);
  const tenant = {
    name: 'tenant',
    prepare: () => ({ name: 'tenant', check: () => ({ passed: false as const, reason: 'ip_not_allowed' as const }) }),
  };
  const [trigger] = createTriggerTable({
    flows: [deployedFlow({ webhooks: [sampleTrigger({ webhookSignatureScheme: 'Asana', webhookLearnKey: true })] })],
    defaultMode: 'Enforce',
    preparer: gatePreparer(gateChain([tenant]), sampleSettings({ learnedKeys })),
  }).list();
  if (trigger === undefined) throw new Error('there is no trigger');
  const delivery = sampleDelivery({ headers: { 'x-hook-secret': SECRET } });
  const judgement = await runGates(trigger.gates, delivery, 'Enforce');
  expect(judgement.reason).toBe('key_not_configured');
  expect(await takeKey(SECRET, { delivery, trigger, judgement })).toMatchObject({ reason: 'ip_not_allowed' });
  expect(await store.of(learnedKeysStore).listLearnedKeys()).toEqual([]);
});
