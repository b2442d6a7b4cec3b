import { describe, expect } from 'vitest';
import { StoreUnavailableError } from '../../../src/errors.ts';
import type { Change } from '../../../src/store/store.ts';
import type { StoreUnderTest } from '../conformance.ts';
import { acceptanceOf, flowId } from '../samples.ts';

export function lifetime({ test }: StoreUnderTest): void {
  describe('lifetime', () => {
    test('an open store answers a ping', async (store) => {
      await expect(store.ping()).resolves.toBeUndefined();
    });

    test('closing finishes what was called before', async (store) => {
      const calls = Array.from({ length: 100 }, (_, n) => store.accept(acceptanceOf(n)));
      const reads = [store.listFlows(), store.findFlow(flowId)];
      await store.close();
      const results = await Promise.all([...calls, ...reads]);
      expect(results).toHaveLength(102);
    });

    test('what others change ends when the store closes, for every reader, and after it', async (store) => {
      const readAll = async () => {
        const changes: Change[] = [];
        for await (const change of store.changes) changes.push(change);
        return changes;
      };
      const readers = [readAll(), readAll()];
      await store.accept(acceptanceOf(1));
      await store.close();
      for (const changes of [...(await Promise.all(readers)), await readAll()]) {
        // A backend may also report a process's own changes.
        expect(changes.filter((change) => change.kind !== 'runs')).toEqual([]);
      }
    });

    test('a closed store refuses every call and closes again without complaint', async (store) => {
      const closing = store.close();
      await expect(store.accept(acceptanceOf(1))).rejects.toThrow(StoreUnavailableError);
      await Promise.all([closing, store.close()]);
      await store.close();
      await expect(store.ping()).rejects.toThrow(StoreUnavailableError);
      await expect(store.listFlows()).rejects.toThrow(StoreUnavailableError);
    });
  });
}
