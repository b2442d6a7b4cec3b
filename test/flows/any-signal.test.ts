import fc from 'fast-check';
import { it } from 'vitest';
import { id } from '../store/samples.ts';
import { anySignalStory, liveWithSignals } from './any-signal.ts';
import { openStore } from './fixture.ts';

it('hands every signal to one step, once, whatever times out, fails, is retried, cancelled or killed', async () => {
  const store = await openStore();
  let number = 0;
  await fc.assert(
    fc.asyncProperty(anySignalStory, async (story) => {
      number += 1;
      await liveWithSignals(store, id(number), story);
    }),
    // Failures are not shrunk here; the proof of the same name does that.
    { numRuns: 15, endOnFailure: true },
  );
});
