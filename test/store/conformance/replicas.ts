import { describe, expect } from 'vitest';
import type { StoreUnderTest } from '../conformance.ts';
import { claimAll, graphOf, startRun, T0 } from '../samples.ts';

const beat = {
  version: '1.2.3',
  startedAt: T0 - 5,
  clockOffsetMs: 7,
  fingerprint: { keys: ['a'] },
  judgesOthers: true,
  ledgerAt: T0,
  now: T0,
};

export function replicas({ test }: StoreUnderTest): void {
  describe('replicas', () => {
    test('a replica that beats is listed with what it said', async (store) => {
      const { replicas, died, at = T0 } = await store.beat(beat);
      expect({ replicas, died }).toEqual({ replicas: 1, died: [] });
      expect(await store.listReplicas({ now: T0 })).toEqual([
        {
          name: store.replica,
          version: '1.2.3',
          startedAt: T0 - 5,
          seenAt: at,
          clockOffsetMs: expect.any(Number),
          fingerprint: { keys: ['a'] },
          steps: 0,
        },
      ]);
    });

    test('beats again without becoming another one', async (store) => {
      await store.beat(beat);
      expect(await store.beat({ ...beat, version: '1.2.4', now: T0 + 5000 })).toMatchObject({ replicas: 1 });
      expect(await store.listReplicas({ now: T0 + 5000 })).toMatchObject([{ version: '1.2.4' }]);
    });

    test('the beat of one that lives frees nothing', async (store) => {
      await startRun(store, graphOf({ a: [] }));
      await claimAll(store);
      expect(await store.beat(beat)).toMatchObject({ died: [] });
      expect(await claimAll(store)).toEqual([]);
    });
  });
}
