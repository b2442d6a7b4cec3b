import {
  closeSync,
  copyFileSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import { PAGE_BYTES } from '../../src/store/sqlite/connection.ts';
import type { Store } from '../../src/store/store.ts';
import { eventually } from '../eventually.ts';
import { newPaths } from './files.ts';
import { acceptanceOf, aDelivery, id, runIds } from './samples.ts';

const newPath = newPaths();

/** With one accepted delivery in it. */
async function openStore(path = newPath()) {
  const first = await openSqliteStore({ path });
  await first.accept(acceptanceOf(1));
  // Closing moves the log into the file, so that tests can cut it.
  await first.close();
  copyFileSync(path, `${path}.backup`);
  const onLost = vi.fn();
  const store = await openSqliteStore({ path, onLost });
  onTestFinished(() => store.close());
  return { path, store, onLost };
}

/** As `cp` does: the file keeps its inode, and is not cut first, which alone would be noticed. */
function overwrite(path: string, bytes: Uint8Array, at = 0) {
  const file = openSync(path, 'r+');
  writeSync(file, bytes, 0, bytes.length, at);
  if (at === 0) ftruncateSync(file, bytes.length);
  closeSync(file);
}

const sameLength = (bytes: Buffer, length: number) => Buffer.concat([bytes, Buffer.alloc(length)]).subarray(0, length);

const SOME_DATABASE = { path: '' };

beforeAll(async () => {
  SOME_DATABASE.path = newPath();
  const other = await openSqliteStore({ path: SOME_DATABASE.path });
  await other.accept(acceptanceOf(7));
  await other.close();
});

describe('an open database whose file is touched', () => {
  test.each<[string, (path: string) => void]>([
    ['is removed', (path) => rmSync(path)],
    [
      'is replaced',
      (path) => {
        copyFileSync(path, `${path}.copy`);
        renameSync(`${path}.copy`, path);
      },
    ],
    [
      'is removed and created again, empty',
      (path) => {
        rmSync(path);
        writeFileSync(path, '');
      },
    ],
    ['is emptied', (path) => truncateSync(path)],
    ['loses its write-ahead log', (path) => rmSync(`${path}-wal`)],
    ['loses the index of its log', (path) => rmSync(`${path}-shm`)],
    ['has another database copied over it', (path) => overwrite(path, readFileSync(SOME_DATABASE.path))],
    [
      'has another database of the same length copied over it',
      (path) => overwrite(path, sameLength(readFileSync(SOME_DATABASE.path), statSync(path).size)),
    ],
    [
      'has the index of its log filled with zeros',
      (path) => overwrite(`${path}-shm`, Buffer.alloc(statSync(`${path}-shm`).size)),
    ],
    [
      'has all but the header of that index filled with zeros',
      (path) => overwrite(`${path}-shm`, Buffer.alloc(statSync(`${path}-shm`).size - 136), 136),
    ],
    ['lies in a folder that is renamed', (path) => renameSync(dirname(path), `${dirname(path)}-moved`)],
  ])('acknowledges nothing from the instant when it %s, and tells so once', async (_name, harm) => {
    const { path, store, onLost } = await openStore();
    harm(path);
    const calls = [store.accept(acceptanceOf(2)), store.recordDelivery(aDelivery({ id: id(9) }))];
    for (const call of calls) await expect(call).rejects.toThrow(StoreUnavailableError);
    for (const call of calls) await expect(call).rejects.toMatchObject({ isForGood: true });
    await expect(store.ping()).rejects.toThrow('while it was in use');
    await expect(store.accept(acceptanceOf(3))).rejects.toThrow('while it was in use');
    expect(onLost).toHaveBeenCalledTimes(1);
    expect(onLost.mock.lastCall?.[0]).toMatchObject({ message: expect.stringContaining('while it was in use') });
  });

  test('goes on through checkpoints, and notices a copy of itself from before them', async () => {
    const { path, store, onLost } = await openStore();
    const reader = new SqliteDatabase(path, { readonly: true });
    onTestFinished(() => void reader.close());
    const stampOf = () => readFileSync(path).readUInt32BE(60);
    const stamps = new Set([stampOf()]);
    for (let n = 2; stamps.size < 4; n += 1) {
      const { run, ...acceptance } = acceptanceOf(n);
      const trigger = { ...run.trigger, body: Buffer.alloc(900_000, n) };
      await store.accept({ ...acceptance, run: { ...run, trigger } });
      stamps.add(stampOf());
    }
    // A pending checkpoint would overwrite the copy's stamp with its own.
    await eventually(
      async () => {
        await store.ping();
        return { inFile: stampOf(), last: reader.pragma('user_version', { simple: true }) };
      },
      ({ inFile, last }) => inFile === last,
    );
    expect(onLost).not.toHaveBeenCalled();
    overwrite(path, readFileSync(`${path}.backup`));
    await expect(store.ping()).rejects.toThrow('was overwritten while it was in use');
  });

  test('acknowledges nothing from the instant when its write-ahead log is emptied', async () => {
    const { path, store, onLost } = await openStore();
    await store.accept(acceptanceOf(2));
    truncateSync(`${path}-wal`);
    await expect(store.accept(acceptanceOf(3))).rejects.toMatchObject({ isForGood: true });
    expect(onLost).toHaveBeenCalledTimes(1);
  });

  test.each<[string, (store: Store) => Promise<unknown>]>([
    ['a read', (store) => runIds(store)],
    ['a write', (store) => store.accept(acceptanceOf(2))],
  ])('acknowledges nothing once %s finds the file malformed, and tells so once', async (_name, find) => {
    const { path, store, onLost } = await openStore();
    // Everything after the header, as a broken disk may leave it.
    overwrite(path, Buffer.alloc(statSync(path).size - 100, 'x'), 100);
    await expect(find(store)).rejects.toThrow(StoreUnavailableError);
    await expect(store.ping()).rejects.toMatchObject({ isForGood: true });
    await expect(store.accept(acceptanceOf(3))).rejects.toMatchObject({ isForGood: true });
    expect(onLost).toHaveBeenCalledTimes(1);
    const message = expect.stringMatching(/sluice\.db is damaged .*restore a backup, see docs\/recovery\.md/);
    expect(onLost.mock.lastCall?.[0]).toMatchObject({ message });
  });

  test('stays lost when it is put back: what was refused meanwhile is for a restart to take', async () => {
    const { path, store } = await openStore();
    renameSync(path, `${path}.away`);
    await expect(store.ping()).rejects.toThrow('was removed');
    renameSync(`${path}.away`, path);
    await expect(store.ping()).rejects.toThrow('was removed');
    await store.close();
    const after = await openSqliteStore({ path });
    onTestFinished(() => after.close());
    expect(await runIds(after)).toEqual([id(1001)]);
    await expect(after.ping()).resolves.toBeUndefined();
  });

  test.each(['-wal', '-shm'])('has all that was acknowledged after a close, also without its %s', async (suffix) => {
    const { path, store } = await openStore();
    await store.accept(acceptanceOf(2));
    rmSync(`${path}${suffix}`);
    await store.close();
    const after = await openSqliteStore({ path });
    onTestFinished(() => after.close());
    expect(await runIds(after)).toEqual([id(1002), id(1001)]);
  });
});

describe('a start', () => {
  /** The files of a killed process: the acknowledged data is only in the log. */
  async function killed(): Promise<string> {
    const { path, store } = await openStore();
    await store.accept(acceptanceOf(2));
    const left = newPath();
    mkdirSync(dirname(left), { recursive: true });
    for (const suffix of ['', '-wal', '.lock']) copyFileSync(`${path}${suffix}`, `${left}${suffix}`);
    return left;
  }

  async function closed(): Promise<string> {
    const { path, store } = await openStore();
    await store.close();
    return path;
  }

  test.each<[string, () => Promise<string>, (path: string) => void]>([
    ['an empty file next to the lock of a database', closed, (path) => truncateSync(path)],
    [
      'an empty file that was put next to such a lock',
      closed,
      (path) => {
        rmSync(path);
        writeFileSync(path, '');
      },
    ],
    ['an empty file next to a write-ahead log', killed, (path) => truncateSync(path)],
    ['no file next to a write-ahead log', killed, (path) => rmSync(path)],
  ])('takes %s for a lost one, and leaves it as it is', async (_name, make, harm) => {
    const path = await make();
    harm(path);
    const files = () =>
      ['', '-wal', '.lock'].map((suffix) => statSync(`${path}${suffix}`, { throwIfNoEntry: false })?.size);
    const before = files();
    for (let tries = 0; tries < 2; tries += 1) {
      await expect(openSqliteStore({ path })).rejects.toThrow(/sluice\.db cannot be opened: it is .*restore a backup/);
    }
    expect(files()).toEqual(before);
  });

  test('names the file and what to do where it is malformed', async () => {
    const path = await closed();
    writeFileSync(path, Buffer.alloc(statSync(path).size, 'x'), { flag: 'r+' });
    await expect(openSqliteStore({ path })).rejects.toThrow(
      /sluice\.db cannot be opened: file is not a database; .*restore a backup, see docs\/recovery\.md/,
    );
  });

  test.each([1, 2, 3, 5, 8, 13])('names the file and what to do where its page %i is malformed', async (page) => {
    const path = await closed();
    overwrite(path, Buffer.alloc(PAGE_BYTES - 100, 'x'), page === 1 ? 100 : (page - 1) * PAGE_BYTES);
    const onLost = vi.fn();
    const start = async () => {
      const store = await openSqliteStore({ path, onLost });
      onTestFinished(() => store.close());
      // As a service does.
      for (const read of [store.listDeployed(), store.listFlows(), runIds(store)]) await read;
      for (const n of [2, 3]) await store.accept(acceptanceOf(n));
      return 'unharmed';
    };
    expect(await start().catch(({ message }: Error) => message)).toMatch(
      /unharmed|sluice\.db .*restore a backup, see docs\/recovery\.md/,
    );
  });

  test('tells of a new, empty database, and of no other', async () => {
    const path = newPath();
    const onCreated = vi.fn();
    for (let starts = 0; starts < 2; starts += 1) {
      await (await openSqliteStore({ path, onCreated })).close();
      expect(onCreated).toHaveBeenCalledTimes(1);
    }
  });

  test('makes a new database where a first start was killed before it had one', async () => {
    const path = newPath();
    const store = await openSqliteStore({ path });
    await store.close();
    const lock = new SqliteDatabase(`${path}.lock`);
    // As the lock is before the first table exists.
    lock.pragma('application_id = 0');
    lock.close();
    truncateSync(path);
    const next = await openSqliteStore({ path });
    onTestFinished(() => next.close());
    expect(await runIds(next)).toEqual([]);
  });
});

describe('a lock file that is removed from under an open store', () => {
  test('lets no other store in, also where others have tried before', async () => {
    const { path, store } = await openStore();
    rmSync(`${path}.lock`);
    for (let tries = 0; tries < 3; tries += 1) {
      await expect(openSqliteStore({ path })).rejects.toThrow('in use by another process');
    }
    await expect(store.accept(acceptanceOf(2))).resolves.toMatchObject({ kind: 'accepted' });
    await store.close();
    const next = await openSqliteStore({ path });
    onTestFinished(() => next.close());
    expect(await runIds(next)).toEqual([id(1002), id(1001)]);
  });

  test('and brought along with a copy of the database does not count for the copy', async () => {
    const { path, store } = await openStore();
    await store.close();
    const copy = newPath();
    mkdirSync(dirname(copy), { recursive: true });
    for (const suffix of ['', '.lock']) copyFileSync(`${path}${suffix}`, `${copy}${suffix}`);
    const first = await openSqliteStore({ path: copy });
    onTestFinished(() => first.close());
    expect(await runIds(first)).toEqual([id(1001)]);
  });
});

describe.skipIf(process.platform === 'win32')('the files of a database', () => {
  const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);

  test('are for their owner alone, and so are the folders made for them', async () => {
    const path = join(dirname(newPath()), 'deep', 'sluice.db');
    await openStore(path);
    for (const suffix of ['', '-wal', '-shm', '.lock']) expect(modeOf(`${path}${suffix}`)).toBe('600');
    expect(modeOf(dirname(path))).toBe('700');
    expect(modeOf(dirname(dirname(path)))).toBe('700');
  });

  test('are made so where they were left open; a folder that was there stays as it is', async () => {
    const path = newPath();
    mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
    for (const suffix of ['', '.lock']) writeFileSync(`${path}${suffix}`, '', { mode: 0o644 });
    await openStore(path);
    for (const suffix of ['', '-wal', '-shm', '.lock']) expect(modeOf(`${path}${suffix}`)).toBe('600');
    expect(modeOf(dirname(path))).toBe('755');
  });
});
