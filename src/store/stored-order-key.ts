import { createRequire } from 'node:module';
import type { OrderKey, RunTrigger } from '../model/run.ts';

const load = createRequire(import.meta.url);

/**
 * Reads the keys of stored runs, as `orderKeyReader` does. Loads the expressions synchronously, with the first key: the
 * threads of the store hardly ever need them, and they take 3 MB and 15 ms of CPU in each thread.
 */
export function storedKeyReader(source: string): (trigger: RunTrigger) => OrderKey {
  const orderKeys = () => load('#order-keys') as typeof import('../expressions/order-key.ts');
  let read: ReturnType<ReturnType<typeof orderKeys>['orderKeyReader']> | undefined;
  return (trigger) => {
    read ??= orderKeys().orderKeyReader(source);
    return read(orderKeys().readTrigger(trigger));
  };
}
