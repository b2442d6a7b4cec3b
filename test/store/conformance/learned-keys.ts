import { describe, expect } from 'vitest';
import { type LearnedKey, learnedKeysStore } from '../../../src/features/learned-keys/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { flowId, T0 } from '../samples.ts';

const key = (change: Partial<LearnedKey> = {}): LearnedKey => ({
  flowId,
  triggerKey: 'tasks',
  scheme: 'Asana',
  secret: new TextEncoder().encode('the first secret'),
  learnedAt: T0,
  ...change,
});
const other = new TextEncoder().encode('another secret');

export function learnedKeys({ test }: StoreUnderTest): void {
  describe('learned keys', () => {
    test('the first key of a trigger is kept, bytes and all, and given back', async (store) => {
      const bytes = new Uint8Array([0, 255, 10, 128]);
      for (const kept of [key(), key({ triggerKey: 'binary', secret: bytes })]) {
        expect(await store.of(learnedKeysStore).learnKey(kept)).toEqual(kept);
        expect(await store.of(learnedKeysStore).listLearnedKeys()).toContainEqual(kept);
      }
    });

    test('no later one takes its place, nor its scheme or time', async (store) => {
      await store.of(learnedKeysStore).learnKey(key());
      expect(
        await store.of(learnedKeysStore).learnKey(key({ secret: other, scheme: 'Other', learnedAt: T0 + 1 })),
      ).toEqual(key());
      expect(await store.of(learnedKeysStore).listLearnedKeys()).toEqual([key()]);
    });

    test('of many at once one is kept, and all are told which', async (store) => {
      const offered = Array.from({ length: 20 }, (_, at) => key({ secret: new Uint8Array([at]) }));
      const kept = await Promise.all(offered.map((each) => store.of(learnedKeysStore).learnKey(each)));
      expect(new Set(kept.map(({ secret }) => secret?.[0])).size).toBe(1);
    });

    test('triggers and flows have keys of their own', async (store) => {
      const keys = [key(), key({ triggerKey: 'Tasks', secret: other }), key({ flowId: 'another', secret: other })];
      for (const each of keys) await store.of(learnedKeysStore).learnKey(each);
      const listed = await store.of(learnedKeysStore).listLearnedKeys();
      expect(listed).toHaveLength(3);
      expect(listed).toEqual(expect.arrayContaining(keys));
    });

    test('a forgotten key makes room for another; there is nothing to forget twice', async (store) => {
      await store.of(learnedKeysStore).learnKey(key());
      expect(await store.of(learnedKeysStore).forgetKey({ flowId, triggerKey: 'others' })).toBe(false);
      expect(await store.of(learnedKeysStore).forgetKey({ flowId, triggerKey: 'tasks' })).toBe(true);
      expect(await store.of(learnedKeysStore).forgetKey({ flowId, triggerKey: 'tasks' })).toBe(false);
      expect(await store.of(learnedKeysStore).listLearnedKeys()).toEqual([]);
      expect(await store.of(learnedKeysStore).learnKey(key({ secret: other }))).toEqual(key({ secret: other }));
    });
  });
}
