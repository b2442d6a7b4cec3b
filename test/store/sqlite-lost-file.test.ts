import { copyFileSync, mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import { newPaths } from './files.ts';
import { acceptanceOf, aDelivery, id, runIds } from './samples.ts';

const newPath = newPaths();

/** With one accepted delivery in it. */
async function openStore(path = newPath()) {
  const first = await openSqliteStore({ path });
  await first.accept(acceptanceOf(1));
  // A close moves the log into the file, so that there is something to cut.
  await first.close();
  const onLost = vi.fn();
  const store = await openSqliteStore({ path, onLost });
  onTestFinished(() => store.close());
  return { path, store, onLost };
}

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
    ['loses its write-ahead log', (path) => rmSync(`${path}-wal`)],
    ['loses the index of its log', (path) => rmSync(`${path}-shm`)],
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

  test('are made so where an earlier release left them open; a folder that was there stays as it is', async () => {
    const path = newPath();
    mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
    for (const suffix of ['', '.lock']) writeFileSync(`${path}${suffix}`, '', { mode: 0o644 });
    await openStore(path);
    for (const suffix of ['', '-wal', '-shm', '.lock']) expect(modeOf(`${path}${suffix}`)).toBe('600');
    expect(modeOf(dirname(path))).toBe('755');
  });
});
