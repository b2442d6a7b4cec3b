import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { openPostgresStore } from '../../src/store/postgres/client.ts';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import { version } from '../../src/version.ts';
import { newPaths } from '../store/files.ts';
import {
  asJson,
  digestsNow,
  frozenReleases,
  readFrozen,
  restorePostgres,
  restoreSqlite,
} from '../store/frozen/frozen.ts';
import { answers, type Reads } from './everything.ts';
import { newSchema, storeOptions } from './schemas.ts';

const newPath = newPaths();
const plain = (value: unknown) => JSON.parse(asJson(value));

/** Later releases may return more about stored data, but never less and nothing different. */
async function expectAnswers(store: unknown, expected: unknown) {
  expect(plain(await answers(store as Reads))).toMatchObject(expected as object);
}

test('the databases of this version are kept', () => {
  expect(frozenReleases()).toContain(version);
});

describe.each(frozenReleases())('the databases that %s left', (release) => {
  const frozen = readFrozen(release);

  test('have rows in every table, but for those about processes that run', () => {
    const empty = Object.entries(frozen.postgres.tables).filter(([, rows]) => rows.length === 0);
    expect(empty.map(([table]) => table)).toEqual(['changes', 'dead_replicas', 'host_places', 'pings', 'replicas']);
  });

  test('got there by migrations that are still the same', () => {
    expect(digestsNow()).toMatchObject(frozen.migrations);
  });

  test('answer the same from SQLite', async () => {
    const path = newPath();
    restoreSqlite(path, frozen);
    const store = await openSqliteStore({ path });
    onTestFinished(() => store.close());
    await expectAnswers(store, frozen.answers);
  });

  test('answer the same from PostgreSQL', async () => {
    const schema = newSchema();
    await restorePostgres(inject('postgresUrl'), schema, frozen);
    const store = await openPostgresStore(storeOptions(schema));
    onTestFinished(() => store.close());
    await expectAnswers(store, frozen.answers);
  });
});
