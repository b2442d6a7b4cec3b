import { expect, test } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { chanceOf } from '../chance.ts';
import { acceptanceOf, claimAll, finish, graphOf, id, startRun, succeeded, T0 } from '../store/samples.ts';
import { borrowSchema, openReplicas } from './schemas.ts';

const ROUNDS = 40;

test('a delivery and the wait for it that meet at two replicas find each other once', async () => {
  const { stores } = await openReplicas(['one', 'two'], borrowSchema());
  const [one, two] = stores as [Store, Store];
  const chance = chanceOf('signals that meet');
  for (let round = 0; round < ROUNDS; round += 1) {
    const key = `k${round}`;
    await startRun(one, graphOf({ a: [] }), { id: id(1000 + round) });
    const [claim] = await claimAll(one);
    if (claim === undefined) throw new Error('no step is due');
    const given = acceptanceOf(1 + round, { at: T0 });
    const deliveryId = given.delivery?.id ?? null;
    const signal = { step: 'a', key, choice: undefined, deliveryId, at: T0, body: JSON.stringify({ round }) };
    const waits = { kind: 'waiting', state: null, dueAt: null, signalName: 'go', signalKey: key } as const;
    const both = [() => finish(one, claim, waits), () => two.accept({ ...given, signal })];
    if (chance.below(2) === 1) both.reverse();
    await Promise.all(both.map((start) => start()));
    const resumed = await claimAll(two);
    expect(
      resumed.map(({ runId, resumed: by }) => [runId, Object(by?.signal?.body)]),
      `round ${round}`,
    ).toEqual([[id(1000 + round), { round }]]);
    for (const each of resumed) await finish(two, each, succeeded());
    expect(await claimAll(one), `round ${round}`).toEqual([]);
  }
});
