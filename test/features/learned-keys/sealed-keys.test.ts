import { expect, it, onTestFinished } from 'vitest';
import { withSealedKeys } from '../../../src/features/learned-keys/service.ts';
import { type LearnedKey, learnedKeysStore } from '../../../src/features/learned-keys/store.ts';
import { bodySealer, newKey } from '../../../src/store/sealed-body.ts';
import { openSqliteStore } from '../../../src/store/sqlite/client.ts';
import { flowId, T0 } from '../../store/samples.ts';

const sealer = bodySealer(newKey());
const SECRET = Buffer.from('b537207f20cbfa02357cf448134da559');
const LEARNED: LearnedKey = { flowId, triggerKey: 'tasks', scheme: 'Asana', secret: SECRET, learnedAt: T0 };
const textOf = (key: LearnedKey | undefined) => Buffer.from(key?.secret ?? []).toString();

async function openStores() {
  const store = await openSqliteStore({ path: ':memory:' });
  onTestFinished(() => store.close());
  const plain = store.of(learnedKeysStore);
  return { plain, sealed: withSealedKeys(plain, sealer) };
}

it('keeps no readable byte of a learned key and gives it back', async () => {
  const { plain, sealed } = await openStores();
  expect(textOf(await sealed.learnKey(LEARNED))).toBe(SECRET.toString());
  const [kept] = await plain.listLearnedKeys();
  expect(kept?.sealedWith).toBe(sealer.keyId);
  expect(textOf(kept)).not.toContain(SECRET.toString().slice(0, 8));
  const [listed] = await sealed.listLearnedKeys();
  expect(textOf(listed)).toBe(SECRET.toString());
  expect(listed?.sealedWith).toBeUndefined();
});

it('yields the first key when another is offered, sealed as it is', async () => {
  const { sealed } = await openStores();
  await sealed.learnKey(LEARNED);
  expect(textOf(await sealed.learnKey({ ...LEARNED, secret: Buffer.from('another') }))).toBe(SECRET.toString());
});

it('shows a key that was learnt before there was a key to seal it with', async () => {
  const { plain, sealed } = await openStores();
  await plain.learnKey(LEARNED);
  expect((await sealed.listLearnedKeys()).map(textOf)).toEqual([SECRET.toString()]);
});

it.each([undefined, bodySealer(newKey())])('shows no secret that another key sealed', async (wrong) => {
  const { plain, sealed } = await openStores();
  await sealed.learnKey(LEARNED);
  const found = { ...LEARNED, secret: null, sealedWith: sealer.keyId };
  expect(await withSealedKeys(plain, wrong).listLearnedKeys()).toEqual([found]);
  expect(await withSealedKeys(plain, wrong).learnKey(LEARNED)).toEqual(found);
});

it('opens a sealed key for its own trigger alone', async () => {
  const { plain, sealed } = await openStores();
  await sealed.learnKey(LEARNED);
  const [kept] = await plain.listLearnedKeys();
  if (kept === undefined) throw new Error('nothing was kept');
  await plain.learnKey({ ...kept, triggerKey: 'others' });
  const secrets = (await sealed.listLearnedKeys()).map(({ triggerKey, secret }) => [triggerKey, secret === null]);
  expect(Object.fromEntries(secrets)).toEqual({ tasks: false, others: true });
});
