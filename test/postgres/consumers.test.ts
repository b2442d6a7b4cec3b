import { isDeepStrictEqual } from 'node:util';
import pg from 'pg';
import { expect, inject, onTestFinished, test } from 'vitest';
import { consumersStore } from '../../src/features/consumers/store.ts';
import type { Store } from '../../src/store/store.ts';
import { eventually } from '../eventually.ts';
import { acceptanceOf, id, T0 } from '../store/samples.ts';
import { borrowSchema, openReplicas, runSql } from './schemas.ts';

const MADE = 0x019aa0000000;
const opened = {
  name: 'ada',
  flowId: null,
  triggerKey: null,
  since: MADE,
  at: T0,
  idleBefore: 0,
  most: 3,
  mostOfFlow: 3,
};
const page = { name: 'ada', limit: 100, bytes: 1_000_000 };

async function openOne() {
  const { schema, stores } = await openReplicas(['one'], borrowSchema());
  const [store] = stores as [Store];
  return { schema, store };
}

const idsFrom = async (store: Store) =>
  (await store.of(consumersStore).readForwarding(page))?.deliveries.map(({ deliveryId }) => deliveryId);

/** Waits for these deliveries: nothing is forwarded past an open transaction, even another test's on the server. */
const untilThere = (store: Store, ids: readonly string[]) =>
  eventually(
    () => idsFrom(store),
    (found) => isDeepStrictEqual(found, ids),
  );

async function drain(store: Store): Promise<void> {
  const { consumer, upTo } = (await store.of(consumersStore).readForwarding(page)) ?? {};
  if (consumer === undefined || upTo === undefined) throw new Error('no consumer');
  expect(
    await store.of(consumersStore).advanceConsumer({ name: 'ada', from: consumer.deliveryId, to: upTo, at: T0 }),
  ).toBe('moved');
}

/** Starts to insert the run of a delivery, as another replica does; `end` commits it. */
async function beginRun(schema: string, n: number) {
  const client = new pg.Client({ connectionString: inject('postgresUrl') });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query('BEGIN');
  await client.query(
    `INSERT INTO "${schema}".runs (id, flow_id, flow_name, flow_version, revision, status, trigger_key, trigger_type,
      delivery_id, started_at, trigger_headers) VALUES ($1, 'f', 'F', '1', 1, 'Running', 'hook', 'webhook', $2, 0, '{}')`,
    [id(1000 + n), id(n)],
  );
  return { end: () => client.query('COMMIT') };
}

/** Starts to add a delivery to a run, as another replica does; `end` commits it. */
async function beginJoin(schema: string, { n, runId, place }: { n: number; runId: string; place: number }) {
  const client = new pg.Client({ connectionString: inject('postgresUrl') });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query('BEGIN');
  await client.query(
    `INSERT INTO "${schema}".run_deliveries (run_id, place, delivery_id, received_at, headers, body)
      VALUES ($1, $2, $3, 0, '{}', '')`,
    [runId, place, id(n)],
  );
  return { end: () => client.query('COMMIT') };
}

test('a delivery that is committed late is not left out, and what was committed meanwhile waits for it', async () => {
  const { schema, store } = await openOne();
  await store.of(consumersStore).openConsumer(opened);
  await store.accept(acceptanceOf(1));
  const late = await beginRun(schema, 2);
  await store.accept(acceptanceOf(3));
  await untilThere(store, [id(1)]);
  await drain(store);
  expect(await idsFrom(store)).toEqual([]);
  await late.end();
  await untilThere(store, [id(2), id(3)]);
});

test('a delivery that joins a run and is committed late is not left out, nor what was committed meanwhile', async () => {
  const { schema, store } = await openOne();
  await store.of(consumersStore).openConsumer(opened);
  await store.accept(acceptanceOf(1));
  await untilThere(store, [id(1)]);
  await drain(store);
  const late = await beginJoin(schema, { n: 3, runId: id(1001), place: 2 });
  await store.accept(acceptanceOf(4));
  const meanwhile = await beginJoin(schema, { n: 2, runId: id(1001), place: 3 });
  await meanwhile.end();
  expect(await idsFrom(store)).toEqual([]);
  await late.end();
  await untilThere(store, [id(3), id(4), id(2)]);
  await drain(store);
  expect(await idsFrom(store)).toEqual([]);
});

test('one that begins while a delivery is being committed gets it', async () => {
  const { schema, store } = await openOne();
  const late = await beginRun(schema, 1);
  await store.of(consumersStore).openConsumer({ ...opened, since: T0 });
  await late.end();
  await untilThere(store, [id(1)]);
});

test.each([1, 2])(
  'a server that counts anew, as after a restore from a dump, leaves nothing out: %i sent',
  async (sent) => {
    const { schema, store } = await openOne();
    await store.of(consumersStore).openConsumer(opened);
    const numbers = Array.from({ length: sent }, (_, n) => n + 1);
    for (const n of numbers) await store.accept(acceptanceOf(n));
    await untilThere(
      store,
      numbers.map((n) => id(n)),
    );
    await drain(store);
    await runSql(`UPDATE "${schema}".runs SET xid = xid + 1000000000`);
    await runSql(`UPDATE "${schema}".consumers SET position = position + 1000000000`);
    await store.accept(acceptanceOf(sent + 1));
    expect(await store.of(consumersStore).openConsumer(opened)).toMatchObject({ isNew: false });
    // Forwards the deliveries of the last ten minutes again rather than missing any.
    await untilThere(
      store,
      [...numbers, sent + 1].map((n) => id(n)),
    );
    await drain(store);
    await store.accept(acceptanceOf(sent + 2));
    await untilThere(store, [id(sent + 2)]);
  },
);
