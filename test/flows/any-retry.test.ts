import fc from 'fast-check';
import { it } from 'vitest';
import { anyStory, live } from './any-retry.ts';
import { openStore } from './fixture.ts';

it('keeps what the rules say, whatever fails, is handled, retried, cancelled or killed, in loops of loops too', async () => {
  const store = await openStore();
  let number = 0;
  await fc.assert(
    fc.asyncProperty(anyStory, async (story) => {
      number += 1;
      await live(store, number, story);
    }),
    // Failures are not shrunk here; the proof of the same name does that.
    { numRuns: 15, endOnFailure: true },
  );
});
