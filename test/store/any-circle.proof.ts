import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { openReplicas } from '../postgres/schemas.ts';
import { anyCircleStory, deployCircles, liveInCircles } from './any-circle.ts';
import { newPaths } from './files.ts';
import { openKind } from './stores.ts';

/** fast-check names the story that fails. */
const STORIES = Number(process.env.TEST_CIRCLE_STORIES ?? 150);

const newPath = newPaths();
const STORES: readonly (readonly [name: string, open: () => Promise<readonly Store[]>, share: number])[] = [
  ['SQLite', async () => [await openKind('log in the database', newPath())], 1],
  ['PostgreSQL with two replicas', async () => (await openReplicas(['one', 'two'])).stores, 1 / 5],
];

it.each(STORES)('%s lets no set of runs wait for itself for ever', async (_, open, share) => {
  const stories = Math.ceil(STORIES * share);
  const stores = await open();
  await deployCircles(stores[0] as Store);
  let number = 0;
  let refused = 0;
  await fc.assert(
    fc.asyncProperty(anyCircleStory, async (story) => {
      number += 1;
      refused += await liveInCircles(stores, number * 1000, story);
    }),
    { numRuns: stories },
  );
  console.info(`${refused} waits were refused`);
  expect(refused).toBeGreaterThan(stories / 10);
  if (share === 1) await Promise.all(stores.map((store) => store.close()));
});
