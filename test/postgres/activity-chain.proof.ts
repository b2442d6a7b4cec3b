import { expect, onTestFinished, test } from 'vitest';
import { activityStore } from '../../src/features/activity/store.ts';
import { bodySealer } from '../../src/store/sealed-body.ts';
import type { Store } from '../../src/store/store.ts';
import { chainAttacks } from '../store/chain-attacks.ts';
import { id, T0 } from '../store/samples.ts';
import { newSchema, openReplicas, openStore, returnSchema, runSql, takeSchema } from './schemas.ts';

chainAttacks(async () => {
  const schema = takeSchema();
  onTestFinished(() => returnSchema(schema));
  return {
    open: (chainKey) => openStore({ schema, chainKey }) as unknown as Promise<Store>,
    async write(...statements) {
      for (const statement of statements) {
        await runSql(statement.replace(/\b(interventions|intervention_ends)\b/g, `"${schema}".$1`));
      }
    },
  };
});

test('replicas that add at the same time make one chain', async () => {
  const { stores } = await openReplicas(['one', 'two']);
  const about = { actor: 'oncall', clientIp: null, action: 'reloadFlows', target: null, details: {}, reason: null };
  const acts = stores.flatMap((store, place) =>
    Array.from({ length: 20 }, async (_, n) => {
      const own = id(100 * place + n + 1);
      await store.of(activityStore).beginIntervention({ id: own, at: T0, ...about });
      await store.of(activityStore).endIntervention({ id: own, statusCode: 200 });
    }),
  );
  await Promise.all(acts);
  for (const store of stores) {
    expect(await store.of(activityStore).checkInterventions({ limit: 500 })).toMatchObject({
      rows: 80,
      faults: [],
      ends: { newestSeq: 80 },
    });
  }
});

test('replicas that begin to use a key at the same time say so once', async () => {
  const { chainKey } = bodySealer('the key of both');
  const schema = newSchema();
  const stores = await Promise.all(['one', 'two'].map((replica) => openStore({ schema, replica, chainKey })));
  try {
    await Promise.all(stores.map((store, n) => store.of(activityStore).changeActivityKey({ id: id(n + 1), at: T0 })));
    expect(await stores[0]?.of(activityStore).checkInterventions({ limit: 5 })).toMatchObject({ rows: 1, faults: [] });
  } finally {
    await Promise.all(stores.map((store) => store.close()));
  }
});
