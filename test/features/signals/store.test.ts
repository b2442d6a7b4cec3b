import { expect, it } from 'vitest';
import { signalsStore } from '../../../src/features/signals/store.ts';
import type { SignalClaim } from '../../../src/model/delivery.ts';
import type { Claim, StepResult, Store } from '../../../src/store/store.ts';
import { openStore } from '../../flows/fixture.ts';
import { acceptanceOf, aDelivery, claimAll, finish, graphOf, id, minute, startRun, T0 } from '../../store/samples.ts';

const waits: StepResult = { kind: 'waiting', state: null, dueAt: null, signalName: 'go', signalKey: 'k' };

/** The n-th delivery, with a text of so many bytes. */
function answerOf(n: number, { at = T0 + n, bytes = 0, ...change }: Partial<SignalClaim> & { bytes?: number } = {}) {
  const given = acceptanceOf(n, { at });
  const body = JSON.stringify({ n, text: 'x'.repeat(bytes) });
  const signal = {
    step: 'a',
    key: 'k',
    choice: undefined,
    deliveryId: given.delivery?.id ?? id(n),
    at,
    body,
    ...change,
  };
  return { ...given, signal };
}

async function answer(store: Store, ...given: Parameters<typeof answerOf>): Promise<number | string> {
  const result = await store.accept(answerOf(...given));
  return result.kind === 'answered' ? result.answered : result.kind;
}

async function waitAll(store: Store, runs: number): Promise<void> {
  for (let n = 0; n < runs; n += 1) await startRun(store, graphOf({ a: [] }), { id: id(1000 + n) });
  for (const claim of await claimAll(store, T0, runs)) await finish(store, claim, waits);
}

const bodiesOf = (claims: readonly Claim[]) => claims.map(({ resumed }) => Object(resumed?.signal?.body).n);

it('answers at most 100 steps at once, and fewer by a large body; the next delivery answers the others', async () => {
  const store = await openStore();
  await waitAll(store, 103);
  expect(await answer(store, 1)).toBe(100);
  expect(bodiesOf(await claimAll(store, T0 + 1, 200))).toEqual(Array(100).fill(1));
  expect(await answer(store, 2, { bytes: 6 * 1024 * 1024 })).toBe(1);
  expect(await answer(store, 3)).toBe(2);
  expect(await answer(store, 4)).toBe(0);
});

it('gives a run each delivery once, in the order of their arrival, also behind a restart of its attempt', async () => {
  const store = await openStore();
  await startRun(store, graphOf({ a: [] }));
  const [claim] = await claimAll(store);
  expect([await answer(store, 1), await answer(store, 2)]).toEqual([0, 0]);
  for (const n of [1, 2]) {
    const [held] = n === 1 ? [claim] : await claimAll(store, T0 + n);
    await finish(store, held as Claim, waits, T0 + n);
  }
  const [resumed] = await claimAll(store, T0 + 3);
  expect(bodiesOf([resumed as Claim])).toEqual([2]);
});

it('answers nothing of another step, key or flow, and nothing without a key', async () => {
  const store = await openStore();
  await waitAll(store, 1);
  expect(await answer(store, 1, { step: 'b' })).toBe(0);
  expect(await answer(store, 2, { key: 'other' })).toBe(0);
  expect(await answer(store, 3, { key: undefined })).toBe(0);
  expect(await answer(store, 4)).toBe(1);
  expect(await store.of(signalsStore).listAnswered(answerOf(4).signal.deliveryId ?? '')).toMatchObject([
    { stepKey: 'a' },
  ]);
});

it('is answered once by what a person delivers again, however often', async () => {
  const store = await openStore();
  await waitAll(store, 2);
  const again = (n: number) => {
    const given = answerOf(n);
    return { ...given, delivery: { ...aDelivery(given.delivery), redeliveredFrom: id(900) } };
  };
  expect(await store.accept(again(1))).toMatchObject({ kind: 'answered', answered: 2 });
  expect(await store.accept(again(2))).toMatchObject({ kind: 'duplicate', runId: null });
  expect(await answer(store, 3)).toBe(0);
});

it('forgets kept deliveries that are old, and the oldest of too many or too large ones', async () => {
  const store = await openStore();
  for (let n = 1; n <= 6; n += 1) await answer(store, n);
  const purge = (given: object) =>
    store.of(signalsStore).purgeKeptSignals({ before: 0, maxRows: 9, maxBytes: 1e6, limit: 9, ...given });
  expect(await purge({ limit: 1, before: T0 + 3 })).toBe(true);
  expect(await purge({ before: T0 + 3 })).toBe(false);
  await purge({ maxRows: 3 });
  await purge({ maxBytes: 2 * JSON.stringify({ n: 1, text: '' }).length });
  await startRun(store, graphOf({ a: [] }));
  const [claim] = await claimAll(store, T0 + minute);
  await finish(store, claim as Claim, waits, T0 + minute);
  expect(bodiesOf(await claimAll(store, T0 + minute))).toEqual([5]);
});
