import { expect, onTestFinished, test } from 'vitest';
import { acceptanceOf, aNonce, T0 } from '../store/samples.ts';
import { openEmpty } from './schemas.ts';

test('a store says what its schema takes, when its oldest nonce ends, and how long each commit took', async () => {
  const commits: number[] = [];
  const store = await openEmpty({ onCommitted: (seconds) => commits.push(seconds) });
  onTestFinished(() => store.close());
  const before = commits.length;
  await store.accept(acceptanceOf(1, { nonce: aNonce({ expiresAt: T0 + 1 }) }));
  expect(commits).toHaveLength(before + 1);
  const { fileBytes, ...others } = await store.measureStorage();
  expect(fileBytes).toBeGreaterThan(0);
  expect(others).toEqual({ walBytes: null, freeBytes: null, oldestNonceEnd: T0 + 1 });
});
