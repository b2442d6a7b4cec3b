import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { openEmpty } from '../postgres/schemas.ts';
import { anyOrderStory, deployOrderedFlows, liveInOrder } from './any-order.ts';
import { openKind } from './stores.ts';

/** fast-check names the story that fails. */
const STORIES = Number(process.env.TEST_MODEL_STORIES ?? 1_000);

const STORES: readonly (readonly [name: string, open: () => Promise<Store>, share: number])[] = [
  ['SQLite', () => openKind('log in memory', ':memory:'), 1],
  ['PostgreSQL', openEmpty, 1 / 5],
];

it.each(STORES)(
  '%s lets the first run of each key run, and nobody else, as plain queues would',
  async (_, open, share) => {
    const stories = Math.ceil(STORIES * share);
    const store = await open();
    await deployOrderedFlows(store);
    let number = 0;
    await fc.assert(
      fc.asyncProperty(anyOrderStory, async (story) => {
        number += 1;
        await liveInOrder(store, number * 1000, story);
      }),
      { numRuns: stories },
    );
    expect(number).toBeGreaterThanOrEqual(stories);
    await store.close();
  },
);
