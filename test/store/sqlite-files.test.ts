import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import { openReader, openWriter } from '../../src/store/sqlite/connection.ts';
import { inspectDatabase } from '../../src/store/sqlite/inspect.ts';
import { migrations } from '../../src/store/sqlite/migrations/index.ts';
import { Deliveries } from './conformance/routes.ts';
import { newPaths } from './files.ts';
import { acceptanceOf, aNonce, claimAll, deployOf, flowId, graphOf, id, runIds, T0 } from './samples.ts';

const newPath = newPaths();

describe('a database file', () => {
  test('keeps all of it over a restart', async () => {
    const path = newPath();
    const graph = graphOf({ first: [] });
    const before = await openSqliteStore({ path });
    await before.deployFlow(deployOf(graph));
    await before.accept(acceptanceOf(1, { nonce: aNonce(), idempotencyKey: 'key' }));
    await claimAll(before);
    const kept = async (store: typeof before) => [
      await store.listFlows(),
      await store.findRevision(flowId, 1),
      await store.findRun(id(1001)),
      await store.listSteps(id(1001)),
      await store.findDelivery(id(1)),
    ];
    const expected = await kept(before);
    await before.close();

    const after = await openSqliteStore({ path });
    onTestFinished(() => after.close());
    expect(await kept(after)).toEqual(expected);
    expect(await after.accept(acceptanceOf(2, { nonce: aNonce() }))).toMatchObject({ kind: 'replayed' });
    expect(await after.accept(acceptanceOf(3, { idempotencyKey: 'key' }))).toMatchObject({ kind: 'duplicate' });
    expect(await after.recover({ owner: 'me', now: T0 })).toBe(1);
  });

  test('takes nothing new for a nonce of a former trigger when it is opened without any', async () => {
    const path = newPath();
    const before = await openSqliteStore({ path });
    const deliveries = new Deliveries(before);
    await deliveries.deploy({ a: { k: 's' } });
    for (const value of ['one', 'two', 'three']) await deliveries.accept('s', value);
    await deliveries.deploy({ a: { k: 't' }, b: { k: 's' } });
    await before.purgeNonces({ now: T0 + 1_000_000, limit: 10 });
    await before.close();

    const after = await openSqliteStore({ path });
    onTestFinished(() => after.close());
    deliveries.restarted(after);
    expect(await deliveries.accept('t', 'new')).toBe('accepted');
    expect(await deliveries.accept('s', 'new')).toBe('accepted');
  });

  test('of an earlier build, which stored no routes of ids, still knows what was accepted at the id of a flow', async () => {
    const path = newPath();
    const before = await openSqliteStore({ path });
    const deliveries = new Deliveries(before);
    await deliveries.deploy({ a: { k: '' } });
    await deliveries.accept('id a', 'one');
    for (const none of [{}, {}]) await deliveries.deploy({ a: none });
    await before.close();
    const file = new SqliteDatabase(path);
    expect(file.prepare('DELETE FROM routes').run().changes).toBe(1);
    file.close();

    const after = await openSqliteStore({ path });
    onTestFinished(() => after.close());
    deliveries.restarted(after);
    expect(await after.listRoutes(['0 a', '0 b'])).toEqual([
      { slug: '0 a', flowId: '0 a', triggerKey: 'k', revision: 1 },
    ]);
    await deliveries.deploy({ a: { l: '' } });
    expect(await deliveries.accept('id a', 'one')).toBe('replayed');
    expect(await deliveries.accept('id a', 'two')).toBe('accepted');
  });

  test('is one file, without a log, once its store is closed', async () => {
    const path = newPath();
    const store = await openSqliteStore({ path });
    await store.accept(acceptanceOf(1));
    await store.close();
    expect(existsSync(path)).toBe(true);
    expect(existsSync(`${path}-wal`)).toBe(false);
  });

  test('a process that is killed loses nothing that it acknowledged, and its lock', async () => {
    const path = newPath();
    const child = storeProcess(
      path,
      'for (let n = 1; ; n += 1) { await store.accept(acceptance(n)); console.log(n); }',
    );
    const acknowledged: number[] = [];
    for await (const line of createInterface({ input: child.stdout ?? process.stdin })) {
      acknowledged.push(Number(line));
      if (acknowledged.length === 50) child.kill('SIGKILL');
    }
    const store = await openSqliteStore({ path });
    onTestFinished(() => store.close());
    const kept = new Set(await runIds(store));
    expect(acknowledged.length).toBeGreaterThanOrEqual(50);
    for (const n of acknowledged) {
      expect(kept).toContain(id(1000 + n));
      const replay = acceptanceOf(5000 + n, { nonce: aNonce({ value: `nonce ${n}` }) });
      expect(await store.accept(replay)).toMatchObject({ kind: 'replayed', runId: id(1000 + n) });
    }
  });

  test('is refused to a second process, and free again once the first has ended', async () => {
    const path = newPath();
    const child = storeProcess(path, 'console.log("open"); setInterval(() => {}, 1000);');
    await once(child.stdout ?? child, 'data');
    const refused = openSqliteStore({ path });
    await expect(refused).rejects.toThrow(StoreUnavailableError);
    await expect(refused).rejects.toThrow(`${path} cannot be opened: it is in use by another process`);
    child.kill('SIGKILL');
    await once(child, 'exit');
    const store = await openSqliteStore({ path });
    await store.close();
  });

  test('is refused to a second store of one process, under another name too', async () => {
    const path = newPath();
    const store = await openSqliteStore({ path });
    onTestFinished(() => store.close());
    await expect(openSqliteStore({ path })).rejects.toThrow('in use by another process');
    const alias = newPath();
    mkdirSync(dirname(alias), { recursive: true });
    symlinkSync(path, alias);
    await expect(openSqliteStore({ path: alias })).rejects.toThrow('in use by another process');
    await expect(store.ping()).resolves.toBeUndefined();
  });

  test('is made where a first start was cut off while it wrote its lock', () => {
    const path = newPath();
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, '');
    const lock = new SqliteDatabase(`${path}.lock`);
    lock.pragma('user_version = 1');
    lock.exec('BEGIN EXCLUSIVE');
    lock.pragma('user_version = 2');
    const journal = readFileSync(`${path}.lock-journal`);
    lock.close();
    // A journal has its first bytes only after it is flushed: sqlite.org/fileformat2.html, read 2026-11.
    Buffer.from('d9d505f920a163d7', 'hex').copy(journal);
    writeFileSync(`${path}.lock-journal`, journal);
    openWriter(path).close();
    expect(statSync(path).size).toBeGreaterThan(0);
  });

  test('a store in memory is its own', async () => {
    const stores = await Promise.all([1, 2].map(() => openSqliteStore({ path: ':memory:' })));
    for (const store of stores) onTestFinished(() => store.close());
    await stores[0]?.accept(acceptanceOf(1));
    expect(await Promise.all(stores.map((store) => runIds(store)))).toEqual([[id(1001)], []]);
  });
});

describe('the schema', () => {
  test('is applied once, however often the database is opened', async () => {
    const path = newPath();
    const versions = () => inspect(path, (db) => db.prepare('SELECT * FROM schema_migrations').all());
    await (await openSqliteStore({ path })).close();
    const first = versions();
    await (await openSqliteStore({ path })).close();
    expect(first).toMatchObject(migrations.map(({ version, name }) => ({ version, name })));
    expect(versions()).toEqual(first);
  });

  test('of a newer release is refused and left as it is', async () => {
    const path = newPath();
    await (await openSqliteStore({ path })).close();
    inspect(path, (db) => db.exec("INSERT INTO schema_migrations VALUES (99, 'later', 0)"));
    const before = readFileSync(path);
    await expect(openSqliteStore({ path })).rejects.toThrow(
      `the database ${path} cannot be opened: its schema version is 99 and the newest that this release knows is ${migrations.at(-1)?.version}`,
    );
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  test('of a build between two releases is refused and left as it is', async () => {
    const path = newPath();
    await (await openSqliteStore({ path })).close();
    inspect(path, (db) => db.exec("UPDATE schema_migrations SET name = 'initial'"));
    const before = readFileSync(path);
    await expect(openSqliteStore({ path })).rejects.toThrow(
      `the database ${path} cannot be opened: its schema is that of a build between two releases (version 1 is "initial" there`,
    );
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  test('has pages of 2 KiB and can give space back; every connection waits for the disk', () => {
    const path = newPath();
    const writer = openWriter(path);
    onTestFinished(() => writer.close());
    const reader = openReader(path);
    onTestFinished(() => reader.close());
    const both = (name: string) => [writer, reader].map(({ db }) => db.pragma(name, { simple: true }));
    expect(both('page_size')).toEqual([2048, 2048]);
    expect(both('auto_vacuum')).toEqual([2, 2]);
    expect(both('journal_mode')).toEqual(['wal', 'wal']);
    expect(both('synchronous')).toEqual([2, 2]);
    expect(both('wal_autocheckpoint')).toEqual([0, 0]);
    expect(() => reader.db.exec('DELETE FROM flows')).toThrow('readonly');
  });
});

describe('a file that is not a database of ours', () => {
  test.each<[string, (path: string) => void, string]>([
    ['a file of something else', (path) => writeFileSync(path, 'x'.repeat(5000)), 'file is not a database'],
    ['a folder', (path) => mkdirSync(path), 'it is a folder; name a file'],
    ['a pipe', (path) => execFileSync('mkfifo', [path]), 'it is a device, a pipe or a socket; name a file'],
    [
      'a database of another program, which stays as it is',
      (path) => inspect(path, (db) => db.exec('CREATE TABLE theirs (n)')),
      'it is a database of another program (it has a table "theirs")',
    ],
  ])('%s is refused by name', async (_name, make, reason) => {
    const path = newPath();
    mkdirSync(dirname(path), { recursive: true });
    make(path);
    const before = statSync(path).isFile() ? readFileSync(path) : undefined;
    await expect(openSqliteStore({ path })).rejects.toThrow(`the database ${path} cannot be opened: ${reason}`);
    if (before !== undefined) expect(readFileSync(path).equals(before)).toBe(true);
  });

  test.runIf(existsSync('/proc/self'))('a device is refused before anything is written next to it', async () => {
    await expect(openSqliteStore({ path: '/dev/null' })).rejects.toThrow('/dev/null cannot be opened: it is a device');
    expect(existsSync('/dev/null.lock')).toBe(false);
    // A pipe would block its reader for ever.
    expect(() => inspectDatabase('/dev/null')).toThrow('/dev/null cannot be read: it is a device');
  });

  test.runIf(existsSync('/proc/self'))('a place where no folder can be made is refused by name', async () => {
    for (const path of ['/proc/sluice/sluice.db', '/proc/self/a/b/sluice.db', '/proc/sluice.db'])
      await expect(openSqliteStore({ path })).rejects.toThrow(`the database ${path} cannot be opened: ENOENT`);
  });

  test('a folder that cannot be made is refused by name', async () => {
    const path = newPath();
    mkdirSync(dirname(dirname(path)), { recursive: true });
    writeFileSync(dirname(path), '');
    await expect(openSqliteStore({ path })).rejects.toThrow(`the database ${path} cannot be opened: `);
  });

  test('a refused open ends its threads: the file can be opened once it is put right', async () => {
    const path = newPath();
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, 'x'.repeat(5000));
    await expect(openSqliteStore({ path })).rejects.toThrow('not a database');
    writeFileSync(path, '');
    await (await openSqliteStore({ path })).close();
  });
});

function inspect<T>(path: string, look: (db: SqliteDatabase.Database) => T): T {
  const db = new SqliteDatabase(path);
  try {
    return look(db);
  } finally {
    db.close();
  }
}

/** A process with an open store that runs a script. There, `acceptance(n)` is `acceptanceOf(n)` with nonce n. */
function storeProcess(path: string, script: string): ChildProcess {
  const built = join(import.meta.dirname, '../../dist/store/sqlite');
  const sample = acceptanceOf(0, { nonce: aNonce() });
  const source = `
    import { openSqliteStore } from ${JSON.stringify(pathToFileURL(join(built, 'client.js')).href)};
    const sample = ${JSON.stringify(sample)};
    const id = (n) => '019aa000-0000-7000-8000-' + n.toString(16).padStart(12, '0');
    const acceptance = (n) => ({
      delivery: { ...sample.delivery, id: id(n) },
      nonce: { ...sample.nonce, value: 'nonce ' + n },
      run: { ...sample.run, id: id(1000 + n), deliveryId: id(n), trigger: { ...sample.run.trigger, body: Buffer.from('{}') } },
    });
    const store = await openSqliteStore({ path: ${JSON.stringify(path)} });
    ${script}`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', source], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  return child;
}
