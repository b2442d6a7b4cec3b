import fc from 'fast-check';
import { expect, it } from 'vitest';
import { anyStory, live } from './any-retry.ts';
import { openStore } from './fixture.ts';

/** fast-check names the story that fails. */
const STORIES = Number(process.env.TEST_MODEL_STORIES ?? 3_000);

it('keeps what the rules say through thousands of random retries, failures, handlers, cancels, signals and kills', async () => {
  const store = await openStore();
  let number = 0;
  await fc.assert(
    fc.asyncProperty(anyStory, async (story) => {
      number += 1;
      await live(store, number, story);
    }),
    { numRuns: STORIES },
  );
  expect(number).toBeGreaterThanOrEqual(STORIES);
});
