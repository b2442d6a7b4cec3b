import pg from 'pg';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { acceptAll } from '../../src/store/postgres/accept-batch.ts';
import { createConnections } from '../../src/store/postgres/connections.ts';
import { LOCK_OF_FLOW } from '../../src/store/postgres/flows.ts';
import { Statements } from '../../src/store/postgres/sql.ts';
import type { Acceptance } from '../../src/store/store.ts';
import { acceptanceOf, aDelivery, aNonce, aRun, deployOf, flowId, graphOf, id, T0 } from '../store/samples.ts';
import { newSchema, openStore, runSql, storeOptions } from './schemas.ts';

async function open() {
  const schema = newSchema();
  const store = await openStore({ schema });
  onTestFinished(() => store.close());
  const connections = createConnections({ ...storeOptions(schema), replica: 'test' });
  onTestFinished(() => connections.close());
  return {
    schema,
    store,
    acceptTogether: (acceptances: readonly Acceptance[]) =>
      connections.transact('accept', (sql) =>
        acceptAll(
          sql,
          acceptances.map((acceptance) => ({ acceptance })),
        ),
      ),
    async countRows() {
      const tables = ['nonces', 'idempotency_keys', 'redeliveries', 'deliveries', 'runs', 'steps'];
      const counts = tables.map((table) => `(SELECT count(*)::integer FROM "${schema}".${table}) AS ${table}`);
      return (await runSql(`SELECT ${counts.join(', ')}`))[0];
    },
  };
}

const accepted = (n: number) => ({ kind: 'accepted', runId: id(1000 + n), isReplay: false });

describe('a batch of acceptances', () => {
  test.each<[string, Partial<Acceptance>]>([
    ['a nonce that is known', { nonce: aNonce({ value: 'known' }), idempotencyKey: 'new' }],
    ['an idempotency key that is known', { nonce: aNonce({ value: 'new' }), idempotencyKey: 'known' }],
    ['a delivery that was refused', { delivery: aDelivery({ id: id(2), redeliveredFrom: id(77) }) }],
    ['the nonce of another in it', { nonce: aNonce({ value: 'beside' }), idempotencyKey: 'new' }],
    ['the idempotency key of another in it', { nonce: aNonce({ value: 'new' }), idempotencyKey: 'beside' }],
  ])('leaves one with %s to be run alone, and stores nothing of it', async (_name, change) => {
    const { store, acceptTogether, countRows } = await open();
    await store.accept(acceptanceOf(1, { nonce: aNonce({ value: 'known' }), idempotencyKey: 'known' }));
    const beside = acceptanceOf(3, { nonce: aNonce({ value: 'beside' }), idempotencyKey: 'beside' });
    expect(await acceptTogether([beside, acceptanceOf(2, change)])).toEqual([accepted(3), undefined]);
    const two = { nonces: 2, idempotency_keys: 2, deliveries: 2, runs: 2, steps: 2 };
    expect(await countRows()).toEqual({ ...two, redeliveries: 0 });
  });

  test('leaves one of a renamed trigger to be run alone where it is known under a former key, or claimed under another', async () => {
    const { schema, store, acceptTogether, countRows } = await open();
    const former = { flowId, triggerKey: 'former' };
    const known = { nonce: aNonce({ value: 'known' }), idempotencyKey: 'known' };
    await store.accept({ run: aRun({ id: id(1001), ...former }), ...known });
    await runSql(`INSERT INTO "${schema}".former_trigger_keys VALUES ($1, 'github', 'former')`, [flowId]);
    const results = await acceptTogether([
      acceptanceOf(2, { nonce: aNonce({ value: 'new' }), idempotencyKey: 'new' }),
      acceptanceOf(3, { nonce: known.nonce, idempotencyKey: 'other' }),
      acceptanceOf(4, { idempotencyKey: 'known' }),
      { run: aRun({ id: id(1005), ...former }), nonce: aNonce({ value: 'new' }) },
      { run: aRun({ id: id(1006), ...former }), nonce: aNonce({ value: 'newer' }) },
      acceptanceOf(7),
    ]);
    expect(results).toEqual([accepted(2), undefined, undefined, undefined, accepted(6), accepted(7)]);
    expect(await countRows()).toMatchObject({ nonces: 3, idempotency_keys: 2, runs: 4, deliveries: 2 });
  });

  test('counts what is known under a former key only as far as that is not another trigger’s by now', async () => {
    const { schema, store, acceptTogether } = await open();
    const former = (n: number, value: string) => ({
      run: aRun({ id: id(1000 + n), flowId, triggerKey: 'former', startedAt: T0 + n }),
      nonce: aNonce({ value }),
      idempotencyKey: `key ${value}`,
    });
    await store.accept(former(1, 'own'));
    await runSql(
      `INSERT INTO "${schema}".former_trigger_keys
      SELECT $1, 'github', 'former', max(seq), $2 FROM "${schema}".nonces`,
      [flowId, T0 + 2],
    );
    await store.accept(former(2, 'of another'));
    const results = await acceptTogether([
      acceptanceOf(3, { nonce: aNonce({ value: 'own' }) }),
      acceptanceOf(4, { nonce: aNonce({ value: 'of another' }) }),
      acceptanceOf(5, { idempotencyKey: 'key own' }),
      acceptanceOf(6, { idempotencyKey: 'key of another' }),
    ]);
    expect(results).toEqual([undefined, accepted(4), undefined, accepted(6)]);
  });

  test('is judged flow by flow', async () => {
    const { store, acceptTogether } = await open();
    await store.deployFlow(deployOf(graphOf({ first: [] })));
    await store.setFlowEnabled({ flowId, isEnabled: false, at: T0 });
    const { run } = acceptanceOf(2);
    const ofOther = { run: { ...run, flowId: 'another flow' } };
    expect(await acceptTogether([acceptanceOf(1), ofOther])).toEqual([{ kind: 'outdated' }, accepted(2)]);
  });

  test('lets who changes its flow have a turn before the next', async () => {
    const { schema, store } = await open();
    await store.deployFlow(deployOf(graphOf({ first: [] })));
    // An acceptance of another process that is under way.
    const other = new pg.Client({ connectionString: inject('postgresUrl') });
    await other.connect();
    onTestFinished(() => other.end());
    await other.query('BEGIN');
    const lock = `SELECT pg_advisory_xact_lock_shared(${LOCK_OF_FLOW}) FROM (SELECT $1::text AS id) AS flow`;
    await other.query(new Statements({ schema, isPrepared: false }).rename(lock), [flowId]);
    await other.query(`SELECT FROM "${schema}".flows FOR SHARE`);
    const disabled = store.setFlowEnabled({ flowId, isEnabled: false, at: T0 });
    await locksAwaited(other, 1);
    const result = store.accept(acceptanceOf(1));
    await locksAwaited(other, 2);
    await other.query('COMMIT');
    await disabled;
    expect(await result).toEqual({ kind: 'outdated' });
  });
});

/** Waits until so many transactions wait for the flow's lock. */
async function locksAwaited(client: pg.Client, expected: number): Promise<void> {
  const waiting = `SELECT count(*)::integer AS count FROM pg_locks AS waiting
    JOIN pg_locks AS held USING (locktype, classid, objid, objsubid)
    WHERE NOT waiting.granted AND held.pid = pg_backend_pid() AND held.granted AND locktype = 'advisory'`;
  for (;;) {
    const { rows } = await client.query<{ count: number }>(waiting);
    if (rows[0]?.count === expected) return;
  }
}
