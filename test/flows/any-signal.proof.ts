import fc from 'fast-check';
import { expect, it } from 'vitest';
import { id } from '../store/samples.ts';
import { anySignalStory, liveWithSignals } from './any-signal.ts';
import { openStore } from './fixture.ts';

/** fast-check names the story that fails. */
const STORIES = Number(process.env.TEST_MODEL_STORIES ?? 2_000);

it('hands every signal to one step, once, through thousands of random waits, limits, retries, cancels and kills', async () => {
  const store = await openStore();
  let number = 0;
  await fc.assert(
    fc.asyncProperty(anySignalStory, async (story) => {
      number += 1;
      await liveWithSignals(store, id(number), story);
    }),
    { numRuns: STORIES },
  );
  expect(number).toBeGreaterThanOrEqual(STORIES);
});
