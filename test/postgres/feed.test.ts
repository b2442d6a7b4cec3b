import { createHash, randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterEach, describe, expect, inject, onTestFinished, test, vi } from 'vitest';
import { learnedKeysStore } from '../../src/features/learned-keys/store.ts';
import { schedulesStore } from '../../src/features/schedules/store.ts';
import { openPostgresStore } from '../../src/store/postgres/client.ts';
import { Feed } from '../../src/store/postgres/feed.ts';
import type { Sql } from '../../src/store/postgres/sql.ts';
import type { Change, Store } from '../../src/store/store.ts';
import { eventually } from '../eventually.ts';
import { deployOf, flowId, graphOf, T0 } from '../store/samples.ts';
import { borrowSchema, openReplicas, runSql, storeOptions } from './schemas.ts';

const flowChanged: Change = { kind: 'flow', flowId };
const keyLearned: Change = { kind: 'key', flowId };
const key = { flowId, triggerKey: 'asana', scheme: 'Asana', secret: new Uint8Array([1]), learnedAt: T0 };

/** Reads changes until the wanted one comes. */
async function taken(reader: AsyncIterator<Change>, wanted: Change): Promise<void> {
  for (;;) {
    const { value, done } = await reader.next();
    if (done === true) throw new Error(`the changes ended without ${JSON.stringify(wanted)}`);
    if (JSON.stringify(value) === JSON.stringify(wanted)) return;
  }
}

async function twoReplicas() {
  const { schema, stores } = await openReplicas(['one', 'two'], borrowSchema());
  const [one, two] = stores as [Store, Store];
  return { schema, one, two };
}

const channelOf = (schema: string) =>
  `sluice_changes_${createHash('sha256').update(schema).digest('hex').slice(0, 32)}`;

/** Ends the connections that listen for the schema's changes, so that they are opened again. */
async function endListeners(schema: string): Promise<void> {
  const ending = 'SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE query = $1';
  await eventually(
    () => runSql(ending, [`LISTEN "${channelOf(schema)}"`]),
    ({ length }) => length > 0,
  );
}

afterEach(() => {
  vi.useRealTimers();
});

describe('what other replicas change', () => {
  test('has not been seen for as long as no look at it succeeds', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const { schema, one, two } = await twoReplicas();
    await one.deployFlow(deployOf(graphOf({ a: [] })));
    await taken(two.changes[Symbol.asyncIterator](), flowChanged);
    await runSql(`ALTER TABLE "${schema}".changes RENAME TO hidden`);
    vi.advanceTimersByTime(31_000);
    two.changes[Symbol.asyncIterator]();
    expect(two.changes.unseenMs()).toBeGreaterThanOrEqual(31_000);
    await runSql(`ALTER TABLE "${schema}".hidden RENAME TO changes`);
    // Each new reader triggers a look at the rows; the clock advances a little with each try.
    const unseenMs = () => two.changes[Symbol.asyncIterator]() && two.changes.unseenMs();
    await eventually(unseenMs, (ms) => ms < 31_000);
  });

  test('reaches every reader, whichever member changed it', async () => {
    const { one, two } = await twoReplicas();
    const readers = [two.changes[Symbol.asyncIterator](), two.changes[Symbol.asyncIterator]()];
    await one.deployFlow(deployOf(graphOf({ a: [] })));
    for (const reader of readers) await taken(reader, flowChanged);
    await one.of(learnedKeysStore).learnKey(key);
    for (const reader of readers) await taken(reader, keyLearned);
    await one.setFlowEnabled({ flowId, isEnabled: false, at: T0 });
    for (const reader of readers) await taken(reader, flowChanged);
    await one.setFlowDraining({ flowId, isDraining: true, at: T0 });
    for (const reader of readers) await taken(reader, flowChanged);
  });

  test('is told by a notice with the commit, which every reader hears', async () => {
    const { schema, one, two } = await twoReplicas();
    const reader = two.changes[Symbol.asyncIterator]();
    await one.deployFlow(deployOf(graphOf({ a: [] })));
    await taken(reader, flowChanged);
    // No row has this change, so only the notice can bring it.
    await runSql('SELECT pg_notify($1, $2)', [channelOf(schema), JSON.stringify({ kind: 'flow', flowId: 'noticed' })]);
    await taken(reader, { kind: 'flow', flowId: 'noticed' });
    const client = new pg.Client({ connectionString: inject('postgresUrl') });
    const payloads: unknown[] = [];
    const heard = new Promise<void>((resolve) => {
      client.on('notification', ({ payload }) => {
        payloads.push(JSON.parse(payload ?? ''));
        resolve();
      });
    });
    await client.connect();
    await client.query(`LISTEN "${channelOf(schema)}"`);
    await one.of(learnedKeysStore).learnKey(key);
    await heard;
    await client.end();
    expect(payloads).toEqual([keyLearned]);
  });

  test('is listened for where the writes are: a connection that does not hear what is said there is made again', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const said: unknown[] = [];
    let isElsewhere = true;
    const moves: string[] = [];
    const sql = {
      get: async () => ({ seen: '1' }),
      async all(text: string, values: unknown[]) {
        if (!text.includes('pg_notify')) return [];
        said.push(values[0]);
        return isElsewhere ? [] : runSql(text, values);
      },
    } as unknown as Sql;
    const applicationName = `listener-${randomUUID()}`;
    const feed = new Feed({
      ...{ url: inject('postgresUrl'), schema: 'elsewhere', applicationName, nameLock: applicationName },
      onMoved: () => moves.push('moved'),
      read: (work) => work(sql),
    });
    onTestFinished(() => feed.close());
    const listeners = async () => {
      feed[Symbol.asyncIterator]();
      const query = 'SELECT pid FROM pg_stat_activity WHERE application_name = $1';
      return (await runSql(query, [`${applicationName}/changes`])).map(({ pid }) => pid);
    };
    const [former] = await eventually(listeners, (pids) => pids.length === 1 && said.length > 1);
    const isAnother = (pids: unknown[]) => pids.length === 1 && pids[0] !== former;
    const looked = said.length;
    await eventually(listeners, () => said.length > looked + 2);
    expect(await listeners()).toEqual([former]);
    vi.advanceTimersByTime(5001);
    const [present] = await eventually(listeners, isAnother);
    expect(moves).toEqual(['moved']);
    isElsewhere = false;
    const heard = said.length;
    await eventually(listeners, () => said.length > heard + 2);
    vi.advanceTimersByTime(5001);
    const again = said.length;
    await eventually(listeners, () => said.length > again + 2);
    expect(await listeners()).toEqual([present]);
    expect(moves).toEqual(['moved']);
  });

  test('before the reader listened, but after the store was opened, is not missed', async () => {
    const { one, two } = await twoReplicas();
    await one.deployFlow(deployOf(graphOf({ a: [] })));
    await taken(two.changes[Symbol.asyncIterator](), flowChanged);
  });

  test('while its connection is lost is found by the rows', async () => {
    const { schema, one, two } = await twoReplicas();
    const reader = two.changes[Symbol.asyncIterator]();
    await one.deployFlow(deployOf(graphOf({ a: [] })));
    await taken(reader, flowChanged);
    await endListeners(schema);
    await one.of(learnedKeysStore).learnKey(key);
    await taken(reader, keyLearned);
  });

  test('in a transaction that was under way at the last look is found by the next', async () => {
    const { schema, stores } = await openReplicas(['one'], borrowSchema());
    const [one] = stores as [Store];
    const client = new pg.Client({ connectionString: inject('postgresUrl') });
    await client.connect();
    await client.query('BEGIN');
    await client.query(`INSERT INTO "${schema}".changes (flow_id, kind) VALUES ('late', 'flow')`);
    const two = await openPostgresStore({ ...storeOptions(schema), replica: 'two' });
    const reader = two.changes[Symbol.asyncIterator]();
    await one.of(learnedKeysStore).learnKey(key);
    await taken(reader, keyLearned);
    await client.query('COMMIT');
    await client.end();
    await endListeners(schema);
    await taken(reader, { kind: 'flow', flowId: 'late' });
    await two.close();
  });

  test('is told of no member that changed nothing', async () => {
    const { one, two } = await twoReplicas();
    const reader = two.changes[Symbol.asyncIterator]();
    const seen: Change[] = [];
    await one
      .of(schedulesStore)
      .fireSchedule({ flowId, triggerKey: 'nightly', dueAt: T0, nextAt: null, run: null, at: T0 });
    await one.of(learnedKeysStore).learnKey(key);
    for (let value: Change | undefined; value?.kind !== 'key'; ) {
      value = (await reader.next()).value as Change;
      seen.push(value);
    }
    expect(seen).toEqual([keyLearned]);
  });
});
