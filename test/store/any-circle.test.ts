import fc from 'fast-check';
import { it } from 'vitest';
import { anyCircleStory, deployCircles, liveInCircles } from './any-circle.ts';
import { openKind } from './stores.ts';

it('lets no set of runs wait for itself for ever', async () => {
  const store = await openKind('log in memory', ':memory:');
  await deployCircles(store);
  let from = 0;
  await fc.assert(
    fc.asyncProperty(anyCircleStory, async (story) => {
      from += 1000;
      await liveInCircles([store], from, story);
    }),
    { numRuns: 6 },
  );
  await store.close();
});
