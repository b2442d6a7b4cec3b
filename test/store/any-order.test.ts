import fc from 'fast-check';
import { it } from 'vitest';
import { anyOrderStory, deployOrderedFlows, liveInOrder } from './any-order.ts';
import { openKind } from './stores.ts';

it('lets the first run of each key run, and nobody else, as plain queues would', async () => {
  const store = await openKind('log in memory', ':memory:');
  await deployOrderedFlows(store);
  let from = 0;
  await fc.assert(
    fc.asyncProperty(anyOrderStory, async (story) => {
      from += 1000;
      await liveInOrder(store, from, story);
    }),
    { numRuns: 6 },
  );
  await store.close();
});
