import { describe, expect, onTestFinished, test } from 'vitest';
import type { Claim, NewRun, Store } from '../../src/store/store.ts';
import { aRun, deployOf, finish, graphOf, id, minute, retryAt, succeeded, T0 } from '../store/samples.ts';
import { openEmpty } from './schemas.ts';

async function open(): Promise<Store> {
  const store = await openEmpty();
  onTestFinished(() => store.close());
  await store.deployFlow(deployOf(graphOf({ a: [] })));
  return store as unknown as Store;
}

/** Starts runs with one due step. */
async function startMany(store: Store, numbers: readonly number[], change: Partial<NewRun> = {}): Promise<void> {
  for (const n of numbers) {
    const steps = [{ stepKey: 'a', stepType: 'NoOp', dueAt: T0 + n }];
    await store.accept({ run: aRun({ id: id(n), steps, ...change }) });
  }
}

async function claim(store: Store, limit: number, now = T0 + 100): Promise<Claim[]> {
  return (await store.claimDue({ owner: 'me', now, leasedUntil: now + minute, limit, mayWriteLater: true })).claims;
}

const shown = (claims: readonly Claim[]) =>
  claims.map(({ runId, isUnwritten }) => `${runId} ${isUnwritten === true ? 'unwritten' : 'written'}`);

describe('a claim that may write attempts later', () => {
  test('writes the attempt of none that nobody leased before, and of all that were tried', async () => {
    const store = await open();
    await startMany(store, [1, 2]);
    const first = await claim(store, 2);
    expect(shown(first)).toEqual([`${id(1)} unwritten`, `${id(2)} unwritten`]);
    for (const each of first) await finish(store, each, retryAt(T0));
    await startMany(store, [3, 4]);
    expect(shown(await claim(store, 3))).toEqual([`${id(1)} written`, `${id(2)} written`, `${id(3)} unwritten`]);
    const { claims } = await store.claimDue({ owner: 'me', now: T0 + 100, leasedUntil: T0 + minute, limit: 9 });
    expect(shown(claims)).toEqual([`${id(4)} written`]);
  });

  test('writes the attempt of one whose process died, so that the next death is counted', async () => {
    const store = await open();
    await startMany(store, [1]);
    expect(shown(await claim(store, 1))).toEqual([`${id(1)} unwritten`]);
    await store.recover({ owner: 'me', now: T0 + 200 });
    expect(shown(await claim(store, 1, T0 + 200))).toEqual([`${id(1)} written`]);
    await store.recover({ owner: 'me', now: T0 + 300 });
    const again = await claim(store, 1, T0 + 300);
    expect(shown(again)).toEqual([`${id(1)} written`]);
    expect(again).toMatchObject([{ attempt: 2 }]);
  });

  test('writes the attempt of one whose lease ran out', async () => {
    const store = await open();
    await startMany(store, [1]);
    await claim(store, 1);
    expect(shown(await claim(store, 1, T0 + 200 + minute))).toEqual([`${id(1)} written`]);
  });

  test('may take one again that was returned before it began', async () => {
    const store = await open();
    await startMany(store, [1]);
    const [first] = await claim(store, 1);
    await store.returnLeases({ tokens: [first?.token ?? ''], at: T0 + 50 });
    expect((await store.listSteps(id(1)))?.[0]).toMatchObject({ status: 'Pending', attemptCount: 0, startedAt: null });
    const [again] = await claim(store, 1);
    expect(again).toMatchObject({ attempt: 1, isUnwritten: true, dueAt: T0 + 50 });
    if (first === undefined || again === undefined) throw new Error('nothing was claimed');
    expect(await finish(store, first, succeeded())).toBeUndefined();
    expect(await finish(store, again, succeeded())).toMatchObject({ runStatus: 'Succeeded' });
  });

  test('writes the attempts of a flow that is limited', async () => {
    const store = await open();
    const graph = graphOf({ a: [] });
    const snapshot = { steps: graph, concurrency: 3 };
    const { revision } = await store.deployFlow({ ...deployOf(graph), hash: 'limited', snapshot: snapshot as never });
    await startMany(store, [1], { revision });
    expect(shown(await claim(store, 1))).toEqual([`${id(1)} written`]);
  });
});
