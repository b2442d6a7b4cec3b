import { describe, expect, it, vi } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import { createCatalog } from '../../src/flows/catalog.ts';
import { PLAN } from '../store/samples.ts';
import { FLOW_ID, fakeClock, loadedFlow, manifestOf, openStore, stepOf } from './fixture.ts';
import { graphOf } from './graphs.ts';

const one = loadedFlow(manifestOf(graphOf({ a: [], b: ['a'] })));
const two = loadedFlow(manifestOf({ a: stepOf('NoOp', { inputs: { n: 2 } }) }, { version: '2.0' }));

async function open() {
  const store = await openStore();
  const findRevision = vi.fn(store.findRevision);
  return { store, findRevision, catalog: createCatalog({ ...store, findRevision }, fakeClock()) };
}

describe('a deploy', () => {
  it('makes a new revision of what changed and none of what did not', async () => {
    const { catalog } = await open();
    expect((await catalog.deploy(one)).record).toMatchObject({ revision: 1, isEnabled: true, version: '1.0' });
    expect((await catalog.deploy(one)).record).toMatchObject({ revision: 1 });
    expect((await catalog.deploy(two)).record).toMatchObject({ revision: 2, version: '2.0' });
    expect(catalog.find(FLOW_ID)).toMatchObject({ record: { revision: 2 }, loaded: two });
    expect(catalog.list()).toHaveLength(1);
  });

  it('changes nothing where the store fails', async () => {
    const { store, catalog } = await open();
    await catalog.deploy(one);
    await store.close();
    await expect(catalog.deploy(two)).rejects.toBeInstanceOf(StoreUnavailableError);
    expect(catalog.find(FLOW_ID)?.loaded).toBe(one);
  });
});

describe('disabling', () => {
  it('is in force and stored when it resolves, and outlasts a deploy', async () => {
    const { store, catalog } = await open();
    await catalog.deploy(one);
    expect(await catalog.setEnabled(FLOW_ID, false)).toMatchObject({ isEnabled: false });
    expect(catalog.find(FLOW_ID)?.record.isEnabled).toBe(false);
    expect(await store.findFlow(FLOW_ID)).toMatchObject({ isEnabled: false });
    await catalog.deploy(two);
    expect(catalog.find(FLOW_ID)?.record.isEnabled).toBe(false);
    await catalog.setEnabled(FLOW_ID, true);
    expect(catalog.find(FLOW_ID)?.record.isEnabled).toBe(true);
  });

  it('yields undefined for an unknown flow', async () => {
    const { catalog } = await open();
    expect(await catalog.setEnabled(FLOW_ID, false)).toBeUndefined();
  });
});

const step = (stepKey: string, revision: number, newestRevision?: number) => ({
  ...{ flowId: FLOW_ID, stepKey, revision, newestRevision },
});

describe('a pinned revision', () => {
  it('keeps its graph, read from the store once', async () => {
    const { catalog, findRevision } = await open();
    await catalog.deploy(one);
    expect((await catalog.pinned(FLOW_ID, 1)).graph).toBe(one.manifest.steps);
    await catalog.deploy(two);
    expect((await catalog.pinned(FLOW_ID, 1)).graph).toEqual(one.manifest.steps);
    expect((await catalog.pinned(FLOW_ID, 1)).graph).toEqual(one.manifest.steps);
    expect((await catalog.pinned(FLOW_ID, 2)).graph).toBe(two.manifest.steps);
    expect(findRevision).toHaveBeenCalledTimes(1);
  });

  it('takes the inputs of the newest, and its own where the step is gone', async () => {
    const { catalog } = await open();
    await catalog.deploy(one);
    await catalog.deploy(two);
    expect(await catalog.inputsOf(step('a', 1))).toMatchObject({
      inputs: { written: { n: 2 } },
      source: 'folder',
      revision: 2,
    });
    expect(await catalog.inputsOf(step('b', 1))).toMatchObject({
      inputs: { written: {} },
      source: 'folder',
      revision: 1,
    });
    await expect(catalog.inputsOf(step('toString', 1))).rejects.toThrow('no step "toString"');
  });

  it('takes its own inputs where it pins them, whatever the newest says of that', async () => {
    const { catalog } = await open();
    const pinning = loadedFlow({ ...one.manifest, pinInputs: true });
    await catalog.deploy(pinning);
    await catalog.deploy(two);
    expect(await catalog.inputsOf(step('a', 1))).toMatchObject({ inputs: { written: {} }, revision: 1 });
    expect(await catalog.inputsOf(step('a', 2))).toMatchObject({ inputs: { written: { n: 2 } }, revision: 2 });
    await catalog.deploy(pinning);
    expect(await catalog.inputsOf(step('a', 2))).toMatchObject({ inputs: { written: {} }, revision: 3 });
  });

  it('takes the inputs of a newer one that another process deployed, before it hears of that', async () => {
    const { store, catalog, findRevision } = await open();
    await catalog.deploy(one);
    const other = createCatalog(store, fakeClock());
    await other.deploy(two);
    expect(await catalog.inputsOf(step('a', 1))).toMatchObject({ inputs: { written: {} }, revision: 1 });
    const newer = { inputs: { written: { n: 2 } }, revision: 2 };
    expect(await catalog.inputsOf(step('a', 1, 2))).toMatchObject(newer);
    expect(await catalog.inputsOf(step('a', 1, 2))).toMatchObject(newer);
    expect(await catalog.inputsOf(step('b', 1, 2))).toMatchObject({ inputs: { written: {} }, revision: 1 });
    expect(findRevision).toHaveBeenCalledTimes(1);
  });

  it('says where the inputs came from: the revision that has the step', async () => {
    const { store, catalog } = await open();
    const { id, name, version } = one.manifest;
    const common = { ...PLAN, id, name, version, at: 0 };
    const apply = ({ hash, snapshot }: typeof one, basedOn: number | null, source: 'folder' | 'api') =>
      store.applyDeploys([{ ...common, hash, snapshot, basedOn, source }]);
    await apply(one, null, 'api');
    const applied = await apply(two, 1, 'folder');
    const [record] = applied.kind === 'applied' ? applied.flows : [];
    if (record === undefined) throw new Error(applied.kind);
    expect(await catalog.inputsOf(step('a', 1))).toMatchObject({ source: 'folder' });
    expect(await catalog.inputsOf(step('b', 1))).toMatchObject({ source: 'api' });
    catalog.put({ record, loaded: { ...two, source: 'api' } });
    expect(await catalog.inputsOf(step('a', 1))).toMatchObject({ source: 'api' });
  });

  it('is found where the manifest is not loaded', async () => {
    const { store, catalog } = await open();
    await catalog.deploy(one);
    await catalog.deploy(two);
    const other = createCatalog(store, fakeClock());
    expect((await other.pinned(FLOW_ID, 1)).graph).toEqual(one.manifest.steps);
    expect(await other.inputsOf(step('a', 1))).toMatchObject({ inputs: { written: { n: 2 } }, source: 'folder' });
    expect(other.find(FLOW_ID)).toBeUndefined();
  });

  it('that is not stored is said so', async () => {
    const { catalog } = await open();
    await catalog.deploy(one);
    await expect(catalog.pinned(FLOW_ID, 9)).rejects.toThrow(`revision 9 of the flow ${FLOW_ID}`);
    await expect(catalog.inputsOf({ ...step('a', 1), flowId: 'other' })).rejects.toThrow('the flow other');
  });
});
