import { expect } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { aNonce, aRun, id } from './samples.ts';

/** The first milliseconds there are: purging runs that ended then removes nothing of a test. */
const LONG_AGO = 1;

/**
 * The same store, but no delivery is accepted alone: others are accepted and refused in the same turn, and leave no run
 * behind. A store that takes several together must answer each as if it had come alone.
 */
export function inCompany(store: Store): Store {
  let met = 0;
  const another = (nonce: string) => {
    met += 1;
    const ended = { status: 'Succeeded', startedAt: LONG_AGO, completedAt: LONG_AGO, steps: [] } as const;
    const run = aRun({ id: id(0xc0_0000_0000 + met), flowId: 'company', ...ended });
    return store.accept({
      run,
      nonce: aNonce({ value: nonce, expiresAt: Number.MAX_SAFE_INTEGER }),
      idempotencyKey: `key ${met}`,
    });
  };
  // One removal at a time, shared by all calls of a turn.
  let removing = Promise.resolve();
  let next: Promise<void> | undefined;
  const removeOthers = () => {
    next ??= removing.then(async () => {
      next = undefined;
      while (!(await store.purgeRuns({ before: LONG_AGO + 1, maxRows: 1000 })).isDone);
    });
    removing = next;
    return next;
  };
  async function among<Answer>(call: () => Promise<Answer>): Promise<Answer> {
    const nonce = `nonce ${met}`;
    const first = another(nonce);
    const answer = call();
    const [before, , after] = await Promise.all([first, answer.catch(() => {}), another(nonce)]);
    expect([before.kind, after.kind].sort()).toEqual(['accepted', 'replayed']);
    await removeOthers();
    return answer;
  }
  return {
    ...store,
    accept: (...given) => among(() => store.accept(...given)),
    acceptShared: (...given) => among(() => store.acceptShared(...given)),
    holdDelivery: (...given) => among(() => store.holdDelivery(...given)),
  };
}
