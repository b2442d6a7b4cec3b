import { randomUUID } from 'node:crypto';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import {
  COPIED_TABLES,
  type CopiedDatabase,
  type CopyEnd,
  SLICE_ROWS,
} from '../../src/features/copy/copied-database.ts';
import { copyDatabase } from '../../src/features/copy/copy-database.ts';
import { openCopiedPostgres } from '../../src/features/copy/postgres-rows.ts';
import { openCopiedSqlite } from '../../src/features/copy/sqlite-rows.ts';
import { httpRequestStore } from '../../src/features/http-request/store.ts';
import { openPostgresStore } from '../../src/store/postgres/client.ts';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import { newPaths } from '../store/files.ts';
import { acceptanceOf, aDelivery, aNonce, deployOf, flowId, id, T0 } from '../store/samples.ts';
import { answers, filled, graph, type Reads } from './everything.ts';
import { dropSchema, runSql, storeOptions } from './schemas.ts';

const newPath = newPaths();
const sqlite = (path: string) => openCopiedSqlite(path, { isSource: false });

function newTarget() {
  const schema = `test_${randomUUID().replaceAll('-', '')}`;
  onTestFinished(() => dropSchema(schema));
  return {
    schema,
    open: ({ isSource }: CopyEnd = { isSource: false }) =>
      openCopiedPostgres({ url: inject('postgresUrl'), schema, isSource }),
  };
}

/** Copies between two databases, and closes both in any case. Returns the number of rows of each table. */
async function copy(from: CopiedDatabase, to: CopiedDatabase): Promise<Record<string, number>> {
  const compared: Record<string, number> = {};
  try {
    const total = await copyDatabase(from, to, ({ phase, table, rows }) => {
      if (phase === 'compared') compared[table] = rows;
    });
    expect(total).toBe(Object.values(compared).reduce((sum, rows) => sum + rows, 0));
    return compared;
  } finally {
    await from.close();
    await to.close();
  }
}

describe('a copy of a database', { timeout: 60_000 }, () => {
  test('answers as the original, there and back again', async () => {
    const { path, expected } = await filled(newPath());
    const target = newTarget();
    const rows = await copy(sqlite(path), await target.open());
    expect(Object.keys(rows)).toEqual(COPIED_TABLES.map(({ name }) => name));
    const replica = await openPostgresStore(storeOptions(target.schema));
    onTestFinished(() => replica.close());
    expect(await answers(replica as unknown as Reads)).toEqual(expected);
    await replica.close();

    const back = newPath();
    expect(await copy(await target.open(), sqlite(back))).toEqual(rows);
    const again = await openSqliteStore({ path: back });
    onTestFinished(() => again.close());
    expect(await answers(again)).toEqual(expected);
  });

  test('knows every nonce and key that the original knew, under former keys of a trigger too', async () => {
    const { path } = await filled(newPath());
    const target = newTarget();
    await copy(sqlite(path), await target.open());
    const back = newPath();
    await copy(await target.open(), sqlite(back));
    const replica = await openPostgresStore(storeOptions(target.schema));
    const again = await openSqliteStore({ path: back });
    onTestFinished(async () => {
      await replica.close();
      await again.close();
    });
    for (const store of [replica, again]) {
      const accept = async (n: number, change: object) => (await store.accept(acceptanceOf(n, change))).kind;
      expect(await accept(61, { nonce: aNonce() })).toBe('replayed');
      expect(await accept(62, { idempotencyKey: 'key ü' })).toBe('duplicate');
      expect(await accept(63, { nonce: aNonce({ value: 'again' }), at: T0 + 20 })).toBe('replayed');
      await store.setFlowEnabled({ flowId: 'renamed', isEnabled: true, at: T0 });
      const { run } = acceptanceOf(64);
      const renamed = { ...run, flowId: 'renamed', revision: 2, triggerKey: 'github' };
      const nonce = aNonce({ value: 'before the rename' });
      expect((await store.accept({ run: renamed, nonce })).kind).toBe('replayed');
      expect(await accept(65, { nonce: aNonce({ value: 'a new one' }) })).toBe('accepted');
    }
  });

  test('that was interrupted opens no store, goes on where it was, and then does', async () => {
    const { path, expected } = await filled(newPath());
    const target = newTarget();
    const to = await target.open();
    let left = 9;
    const broken: CopiedDatabase = {
      ...to,
      async write(table, slice) {
        left -= 1;
        if (left < 0) throw new Error('the cable was pulled');
        await to.write(table, slice);
      },
    };
    await expect(copy(sqlite(path), broken)).rejects.toThrow('the cable was pulled');
    await expect(openPostgresStore(storeOptions(target.schema))).rejects.toThrow('an unfinished copy');
    const written: string[] = [];
    const resumed = await target.open();
    const counted: CopiedDatabase = {
      ...resumed,
      async write(table, slice) {
        written.push(table.name);
        await resumed.write(table, slice);
      },
    };
    await copy(sqlite(path), counted);
    expect(written).not.toContain('flows');
    const replica = await openPostgresStore(storeOptions(target.schema));
    onTestFinished(() => replica.close());
    expect(await answers(replica as unknown as Reads)).toEqual(expected);
  });

  test.each(['there', 'back'])('that was interrupted within a table goes on within it: %s', async (way) => {
    const path = newPath();
    const store = await openSqliteStore({ path });
    const count = 2 * SLICE_ROWS + 7;
    const refused = { rejected: true, reason: 'ip_denied', statusCode: 401 } as const;
    const record = (n: number) => store.recordDelivery(aDelivery({ id: id(n), ...refused, body: new Uint8Array(n) }));
    await Promise.all(Array.from({ length: count }, (_, n) => record(n)));
    await store.close();
    const target = newTarget();
    const there = async () => [sqlite(path), await target.open()] as const;
    const copyPath = newPath();
    const back = async () => [await target.open(), sqlite(copyPath)] as const;
    if (way === 'back') await copy(...(await there()));
    const open = way === 'there' ? there : back;
    const [from, to] = await open();
    const totals: number[] = [];
    const watched = (database: CopiedDatabase, last: number): CopiedDatabase => ({
      ...database,
      async write(table, slice) {
        await database.write(table, slice);
        if (table.name !== 'deliveries') return;
        totals.push(slice.total);
        if (totals.length === last) throw new Error('the cable was pulled');
      },
    });
    await expect(copy(from, watched(to, 2))).rejects.toThrow('the cable was pulled');
    const [again, rest] = await open();
    expect(await copy(again, watched(rest, Number.POSITIVE_INFINITY))).toMatchObject({ deliveries: count });
    expect(totals).toEqual([...new Set(totals)].sort((a, b) => a - b));
    expect(totals.at(-1)).toBe(count);
    expect(totals.length).toBeGreaterThan(2);
  });

  test('to SQLite that was interrupted opens no store either', async () => {
    const path = newPath();
    const to = sqlite(path);
    await to.begin('another database');
    await to.close();
    await expect(openSqliteStore({ path })).rejects.toThrow('an unfinished copy');
    const { path: source } = await filled(newPath());
    await expect(copy(sqlite(source), sqlite(path))).rejects.toThrow('is an unfinished copy of another database');
  });

  test('is refused where the source changed between two tries', async () => {
    const { path } = await filled(newPath());
    const target = newTarget();
    const to = await target.open();
    const cut: CopiedDatabase = { ...to, derive: () => Promise.reject(new Error('the cable was pulled')) };
    await expect(copy(sqlite(path), cut)).rejects.toThrow('the cable was pulled');
    const source = await openSqliteStore({ path });
    await source.setFlowEnabled({ flowId, isEnabled: false, at: T0 + 99 });
    await source.close();
    await expect(copy(sqlite(path), await target.open())).rejects.toThrow(/^flows has \d+ rows .* they differ/);
    await expect(openPostgresStore(storeOptions(target.schema))).rejects.toThrow('an unfinished copy');
  });

  test('names the table that has what the other database does not store', async () => {
    const path = newPath();
    const store = await openSqliteStore({ path });
    await store.accept(acceptanceOf(1));
    await store.cancelRun({ runId: id(1001), reason: 'a\u0000b', at: T0 });
    await store.close();
    await expect(copy(sqlite(path), await newTarget().open())).rejects.toThrow(/^runs: invalid byte sequence/);
  });

  test('is made neither of nor into a database that a service uses, nor into one with rows', async () => {
    const { path } = await filled(newPath());
    const target = newTarget();
    const replica = await openPostgresStore(storeOptions(target.schema));
    await expect(target.open()).rejects.toThrow('it is in use by');
    await replica.deployFlow(deployOf(graph));
    await replica.close();
    await expect(copy(sqlite(path), await target.open())).rejects.toThrow('is not empty');
    const source = await openSqliteStore({ path });
    onTestFinished(() => source.close());
    expect(() => sqlite(path)).toThrow('it is in use by another process');
  });

  test('is not made into one that has rows in any table, however few', async () => {
    const { path } = await filled(newPath());
    const target = newTarget();
    const replica = await openPostgresStore(storeOptions(target.schema));
    const used = newPath();
    const service = await openSqliteStore({ path: used });
    for (const store of [replica, service]) {
      await store
        .of(httpRequestStore)
        .changeCircuit({ queue: 'https://example.com', version: null, next: 1, circuit: { openedAt: T0 } });
      await store.close();
    }
    await expect(copy(sqlite(path), await target.open())).rejects.toThrow('is not empty');
    await expect(copy(sqlite(path), sqlite(used))).rejects.toThrow('is not empty');
    // Nothing was started, so a service may use the database.
    await (await openPostgresStore(storeOptions(target.schema))).close();
  });

  test('is not made of a database that is not there', async () => {
    expect(() => openCopiedSqlite(newPath(), { isSource: true })).toThrow('there is no such file');
    const target = newTarget();
    await expect(target.open({ isSource: true })).rejects.toThrow(`it has no schema ${target.schema} of Sluice`);
    expect(await runSql('SELECT 1 FROM pg_namespace WHERE nspname = $1', [target.schema])).toEqual([]);
  });
});
