import fc from 'fast-check';
import pg from 'pg';
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest';
import { LOCK_OF_FLOW } from '../../src/store/decisions/flows.ts';
import { acceptAll } from '../../src/store/postgres/acceptance.ts';
import { createConnections } from '../../src/store/postgres/connections.ts';
import { Statements } from '../../src/store/postgres/sql.ts';
import type { Acceptance } from '../../src/store/store.ts';
import { eventually } from '../eventually.ts';
import { acceptanceOf, aDelivery, aNonce, aRun, deployOf, flowId, graphOf, id, T0 } from '../store/samples.ts';
import { borrowSchema, openStore, runSql, storeOptions } from './schemas.ts';

async function open() {
  const schema = borrowSchema();
  const applicationName = `batch-${schema}`.slice(0, 50);
  const store = await openStore({ schema, applicationName });
  onTestFinished(() => store.close());
  const connections = createConnections({ ...storeOptions(schema), replica: 'test' });
  onTestFinished(() => connections.close());
  return {
    schema,
    applicationName,
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

const replayOf = (n: number) => ({ kind: 'replayed', runId: id(1000 + n), hasSameBody: true });
const duplicateOf = (n: number) => ({ kind: 'duplicate', runId: id(1000 + n), isReplay: false });

describe('a batch of acceptances', () => {
  const two = { nonces: 2, idempotency_keys: 2, deliveries: 2, runs: 2, steps: 2, redeliveries: 0 };
  test.each<[string, Partial<Acceptance>, object, object]>([
    ['a nonce that is known', { nonce: aNonce({ value: 'known' }), idempotencyKey: 'new' }, replayOf(1), two],
    [
      'an idempotency key that is known',
      { nonce: aNonce({ value: 'new' }), idempotencyKey: 'known' },
      duplicateOf(1),
      { ...two, nonces: 3, deliveries: 3 },
    ],
    [
      'a delivery that was refused',
      { delivery: aDelivery({ id: id(2), redeliveredFrom: id(77) }) },
      accepted(2),
      { ...two, deliveries: 3, runs: 3, steps: 3, redeliveries: 1 },
    ],
    ['the nonce of another in it', { nonce: aNonce({ value: 'beside' }), idempotencyKey: 'new' }, replayOf(3), two],
    [
      'the idempotency key of another in it',
      { nonce: aNonce({ value: 'new' }), idempotencyKey: 'beside' },
      duplicateOf(3),
      { ...two, nonces: 3, deliveries: 3 },
    ],
  ])('answers one with %s as if those before it were stored', async (_name, change, expected, rows) => {
    const { store, acceptTogether, countRows } = await open();
    await store.accept(acceptanceOf(1, { nonce: aNonce({ value: 'known' }), idempotencyKey: 'known' }));
    const beside = acceptanceOf(3, { nonce: aNonce({ value: 'beside' }), idempotencyKey: 'beside' });
    expect(await acceptTogether([beside, acceptanceOf(2, change)])).toEqual([accepted(3), expected]);
    expect(await countRows()).toEqual(rows);
  });

  test('leaves names free that none of its calls kept, whichever of them asked first', async () => {
    const { store, acceptTogether } = await open();
    await store.accept(acceptanceOf(1, { nonce: aNonce({ value: 'known' }) }));
    const results = await acceptTogether([
      acceptanceOf(2, { nonce: aNonce({ value: 'known' }), idempotencyKey: 'shared' }),
      acceptanceOf(3, { nonce: aNonce({ value: 'known' }), idempotencyKey: 'unused' }),
      acceptanceOf(4, { nonce: aNonce({ value: 'new' }), idempotencyKey: 'shared' }),
    ]);
    expect(results).toEqual([replayOf(1), replayOf(1), accepted(4)]);
    expect(await store.accept(acceptanceOf(5, { idempotencyKey: 'shared' }))).toEqual(duplicateOf(4));
    expect(await store.accept(acceptanceOf(6, { idempotencyKey: 'unused' }))).toEqual(accepted(6));
  });

  test('judges replays that come at once in one transaction, and stores their records in one', async () => {
    const { store, applicationName } = await open();
    await store.accept(acceptanceOf(1, { nonce: aNonce({ value: 'known' }) }));
    const query = vi.spyOn(pg.Client.prototype, 'query');
    onTestFinished(() => query.mockRestore());
    // Only of this store: the spy sees every connection of the process.
    const isOwn = (client: unknown) => JSON.stringify(Object(client).connectionParameters).includes(applicationName);
    const begun = () =>
      query.mock.calls.filter(
        ([text], at) => (text as unknown) === 'BEGIN ISOLATION LEVEL READ COMMITTED' && isOwn(query.mock.contexts[at]),
      ).length;
    const replays = Array.from({ length: 100 }, (_, n) =>
      acceptanceOf(n + 2, { nonce: aNonce({ value: 'known' }), idempotencyKey: `key ${n}` }),
    );
    const before = begun();
    const results = await Promise.all(replays.map((replay) => store.accept(replay)));
    expect(results).toEqual(replays.map(() => replayOf(1)));
    expect(begun()).toBe(before + 1);
    await Promise.all(
      replays.map((_, n) => store.recordDelivery(aDelivery({ id: id(n + 500), reason: 'nonce_replayed' }))),
    );
    expect(begun()).toBe(before + 2);
  });

  test('takes over a nonce that expired between the arrivals of its calls', async () => {
    const { store, acceptTogether } = await open();
    const nonce = aNonce();
    await store.accept(acceptanceOf(1, { nonce }));
    const later = acceptanceOf(3, { nonce: aNonce({ expiresAt: nonce.expiresAt + 9 }), at: nonce.expiresAt });
    expect(await acceptTogether([acceptanceOf(2, { nonce }), later])).toEqual([replayOf(1), accepted(3)]);
    expect(await store.accept(acceptanceOf(4, { nonce, at: nonce.expiresAt + 8 }))).toEqual(replayOf(3));
  });

  test('leaves a nonce that has expired to deliveries that arrived before, where it starts nothing itself', async () => {
    const { store } = await open();
    const nonce = aNonce();
    const source = (n: number, at: number) => {
      const { delivery = aDelivery(), run } = acceptanceOf(n, { at });
      return store.accept({ delivery: { ...delivery, redeliveredFrom: id(77) }, run, nonce });
    };
    await source(1, T0);
    expect(await source(2, nonce.expiresAt)).toEqual(duplicateOf(1));
    expect(await store.accept(acceptanceOf(3, { nonce, at: nonce.expiresAt - 1 }))).toEqual(replayOf(1));
  });

  test('answers each call as if they had come one after the other', async () => {
    const { store, acceptTogether } = await open();
    const call = fc.record({
      nonce: fc.option(fc.constantFrom('n1', 'n2', 'n3'), { nil: undefined }),
      isEnforced: fc.boolean(),
      key: fc.option(fc.constantFrom('k1', 'k2'), { nil: undefined }),
      source: fc.option(fc.constantFrom(1, 2), { nil: undefined, freq: 3 }),
      body: fc.constantFrom('a', 'b'),
      at: fc.nat(4),
      lifetime: fc.integer({ min: 1, max: 4 }),
      isOutdated: fc.boolean(),
    });
    type Call = typeof call extends fc.Arbitrary<infer Value> ? Value : never;
    let last = 0;
    // Each group of calls has different ids and names.
    const given = (calls: readonly Call[], group: number): Acceptance[] =>
      calls.map(({ nonce, isEnforced, key, source, body, at, lifetime, isOutdated }, n) => {
        const deliveryId = id(group + n);
        const redeliveredFrom = source === undefined ? undefined : id(group + 500 + source);
        return {
          delivery: aDelivery({ id: deliveryId, receivedAt: T0 + at, redeliveredFrom, flowId: `flow ${group}` }),
          run: aRun({
            id: id(group + 100 + n),
            flowId: isOutdated ? flowId : `flow ${group}`,
            deliveryId,
            startedAt: T0 + at,
          }),
          nonce: nonce && aNonce({ value: nonce, isEnforced, bodySha256: body, expiresAt: T0 + at + lifetime }),
          idempotencyKey: key,
        };
      });
    await store.deployFlow(deployOf(graphOf({ first: [] })));
    await store.setFlowEnabled({ flowId, isEnabled: false, at: T0 });
    const answersOf = (results: readonly (object | undefined)[], group: number) =>
      JSON.parse(JSON.stringify(results), (name, value) =>
        name === 'runId' ? Number.parseInt(String(value).slice(-12), 16) - group : value,
      );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(call, { minLength: 1, maxLength: 6 }), { maxLength: 3 }), async (batches) => {
        const [together, alone] = [last + 10_000, last + 20_000];
        last = alone;
        for (const [n, calls] of batches.entries()) {
          const [left, right] = [together + n * 10, alone + n * 10];
          const batch = given(calls, together).map((one, at) => renumbered(one, left + at));
          const singles = given(calls, alone).map((one, at) => renumbered(one, right + at));
          const results = [];
          for (const single of singles) results.push(await store.accept(single));
          expect(answersOf(await acceptTogether(batch), together)).toEqual(answersOf(results, alone));
        }
      }),
      { numRuns: 60 },
    );
  });

  test('knows what was stored or is stored with it under a former key of a renamed trigger', async () => {
    const { schema, store, acceptTogether, countRows } = await open();
    const former = { flowId, triggerKey: 'former' };
    const known = { nonce: aNonce({ value: 'known' }), idempotencyKey: 'known' };
    await store.accept({ run: aRun({ id: id(1001), ...former }), ...known });
    await runSql(`INSERT INTO "${schema}".former_trigger_keys VALUES ($1, 'github', $1, 'former')`, [flowId]);
    const results = await acceptTogether([
      acceptanceOf(2, { nonce: aNonce({ value: 'new' }), idempotencyKey: 'new' }),
      acceptanceOf(3, { nonce: known.nonce, idempotencyKey: 'other' }),
      acceptanceOf(4, { idempotencyKey: 'known' }),
      { run: aRun({ id: id(1005), ...former }), nonce: aNonce({ value: 'new' }) },
      { run: aRun({ id: id(1006), ...former }), nonce: aNonce({ value: 'newer' }) },
      acceptanceOf(7),
    ]);
    expect(results).toEqual([accepted(2), replayOf(1), duplicateOf(1), replayOf(2), accepted(6), accepted(7)]);
    expect(await countRows()).toMatchObject({ nonces: 3, idempotency_keys: 2, runs: 4, deliveries: 3 });
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
      SELECT $1, 'github', $1, 'former', max(seq), $2 FROM "${schema}".nonces`,
      [flowId, T0 + 2],
    );
    await store.accept(former(2, 'of another'));
    const results = await acceptTogether([
      acceptanceOf(3, { nonce: aNonce({ value: 'own' }) }),
      acceptanceOf(4, { nonce: aNonce({ value: 'of another' }) }),
      acceptanceOf(5, { idempotencyKey: 'key own' }),
      acceptanceOf(6, { idempotencyKey: 'key of another' }),
    ]);
    expect(results).toEqual([replayOf(1), accepted(4), duplicateOf(1), accepted(6)]);
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
    // An acceptance of another process is under way.
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

/** The same acceptance with new ids; its flow and its names stay. */
function renumbered({ delivery, run, ...names }: Acceptance, n: number): Acceptance {
  return {
    ...names,
    run: { ...run, id: id(n + 100), deliveryId: id(n) },
    delivery: delivery && { ...delivery, id: id(n) },
  };
}

/** Waits until this many transactions wait for the flow's lock. */
async function locksAwaited(client: pg.Client, expected: number): Promise<void> {
  const waiting = `SELECT count(*)::integer AS count FROM pg_locks AS waiting
    JOIN pg_locks AS held USING (locktype, classid, objid, objsubid)
    WHERE NOT waiting.granted AND held.pid = pg_backend_pid() AND held.granted AND locktype = 'advisory'`;
  await eventually(
    async () => (await client.query<{ count: number }>(waiting)).rows[0]?.count ?? 0,
    (count) => count >= expected,
  );
}
