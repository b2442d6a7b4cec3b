import { statSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import { newPaths } from './files.ts';
import { acceptanceOf, aNonce, T0 } from './samples.ts';

const newPath = newPaths();

test('a store says what its files take, when its oldest nonce ends, and how long each commit took', async () => {
  const path = newPath();
  const commits: number[] = [];
  const store = await openSqliteStore({ path, onCommitted: (seconds) => commits.push(seconds) });
  onTestFinished(() => store.close());
  expect(await store.measureStorage()).toMatchObject({ oldestNonceEnd: null });
  expect(commits).toEqual([]);
  for (const n of [1, 2]) {
    await store.accept(acceptanceOf(n, { nonce: aNonce({ value: `nonce ${n}`, expiresAt: T0 + n }) }));
  }
  expect(commits).toHaveLength(2);
  for (const seconds of commits) expect(seconds).toBeGreaterThan(0);
  expect(await store.measureStorage()).toEqual({
    fileBytes: statSync(path).size,
    walBytes: statSync(`${path}-wal`).size,
    freeBytes: expect.any(Number),
    oldestNonceEnd: T0 + 1,
  });
});

test('a store in memory has no files', async () => {
  const store = await openSqliteStore({ path: ':memory:' });
  onTestFinished(() => store.close());
  expect(await store.measureStorage()).toEqual({ fileBytes: 0, walBytes: 0, freeBytes: null, oldestNonceEnd: null });
});
