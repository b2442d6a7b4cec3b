import fc from 'fast-check';
import { expect, it } from 'vitest';
import { anyStory, live } from './any-retry.ts';
import { openStore } from './fixture.ts';

/** Another seed tells other stories; it is printed, and fast-check names the story that fails. */
const SEED = Number(process.env.TEST_MODEL_SEED ?? 20_261_121);
const STORIES = Number(process.env.TEST_MODEL_STORIES ?? 3_000);

it('keeps what the rules say through thousands of random retries, failures, handlers, cancels, signals and kills', async () => {
  console.info(`seed ${SEED}, ${STORIES} stories (TEST_MODEL_SEED, TEST_MODEL_STORIES)`);
  const store = await openStore();
  let number = 0;
  await fc.assert(
    fc.asyncProperty(anyStory, async (story) => {
      number += 1;
      await live(store, number, story);
    }),
    { numRuns: STORIES, seed: SEED },
  );
  expect(number).toBeGreaterThanOrEqual(STORIES);
});
