import { expect, onTestFinished, test } from 'vitest';
import { createConnections } from '../../src/store/postgres/connections.ts';
import { operations } from '../../src/store/postgres/operations.ts';
import type { Sql } from '../../src/store/postgres/sql.ts';
import { acceptanceOf, aRun, deployOf, flowId, graphOf, id, minute, T0 } from '../store/samples.ts';
import { borrowSchema, openStore, storeOptions } from './schemas.ts';

const otherId = '6f2b1c1e-2222-4222-8333-444455556666';

/** Creates runs with a step due at these times; returns a function that claims, and counts its looks at what waits. */
async function waitingSince(dueAts: readonly number[], flowOf = (_n: number) => flowId) {
  const schema = borrowSchema();
  const store = await openStore({ schema });
  onTestFinished(() => store.close());
  const connections = createConnections({ ...storeOptions(schema), replica: 'test' });
  onTestFinished(() => connections.close());
  for (const own of [flowId, otherId]) await store.deployFlow(deployOf(graphOf({ a: [] }), { id: own }));
  for (const [n, dueAt] of dueAts.entries()) {
    const steps = [{ stepKey: 'a', stepType: 'NoOp', dueAt }];
    await store.accept({
      ...acceptanceOf(n),
      run: aRun({ id: id(1000 + n), deliveryId: id(n), flowId: flowOf(n), steps }),
    });
  }
  return async (limit: number) => {
    let looks = 0;
    const counting = (sql: Sql): Sql => ({
      ...sql,
      port: {
        ...sql.port,
        all(query) {
          if (query.strings.some((text) => text.includes('WITH RECURSIVE'))) looks += 1;
          return sql.port.all(query);
        },
      },
    });
    const request = { owner: 'test', now: T0 + 10, leasedUntil: T0 + minute, limit };
    const { claims, nextDueAt } = await connections.transact('write', (sql) =>
      operations.claimDue.run(counting(sql), request),
    );
    return { taken: claims.length, nextDueAt, looks };
  };
}

test('a claim looks once at what waits where more is due than it may take', async () => {
  const claim = await waitingSince([T0, T0 + 1, T0 + 2, T0 + 3]);
  expect(await claim(2)).toEqual({ taken: 2, nextDueAt: T0 + 2, looks: 1 });
  expect(await claim(1)).toEqual({ taken: 1, nextDueAt: T0 + 3, looks: 1 });
});

test('and once where it leaves steps of another flow', async () => {
  const claim = await waitingSince([T0, T0 + 1], (n) => (n === 0 ? flowId : otherId));
  expect(await claim(1)).toEqual({ taken: 1, nextDueAt: T0 + 1, looks: 1 });
});

test('a claim that takes all that is due looks again for what is due later', async () => {
  const claim = await waitingSince([T0, T0 + 1, T0 + 500]);
  expect(await claim(2)).toEqual({ taken: 2, nextDueAt: T0 + 500, looks: 2 });
  expect(await claim(2)).toEqual({ taken: 0, nextDueAt: T0 + 500, looks: 1 });
});
