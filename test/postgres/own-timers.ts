import { AsyncLocalStorage } from 'node:async_hooks';
import type { Store } from '../../src/store/store.ts';

const NAMES = ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'setImmediate', 'clearImmediate'] as const;

/** Set where the code that runs is the store's. */
const inside = new AsyncLocalStorage<true>();

/**
 * From here on code of a store has the real timers, also while a test's stand still: SQLite's store has a thread of its own,
 * but the driver of PostgreSQL would see its time limits pass whenever a test lets a minute pass. Called once, before any test
 * fakes a timer.
 */
export function keepRealTimers(): void {
  for (const name of NAMES) {
    const real = globalThis[name];
    let current: unknown = real;
    Object.defineProperty(globalThis, name, {
      configurable: true,
      enumerable: true,
      get: () => (inside.getStore() === true ? real : current),
      set: (next: unknown) => {
        current = next;
      },
    });
  }
}

/** Opens a store whose timers are real, whose clock is the caller's, and whose `ping` is answered after what was called before, as SQLite's thread does. */
export async function openWithOwnTimers(open: () => Promise<Store>): Promise<Store> {
  const store = await inside.run(true, open);
  const underWay = new Set<Promise<unknown>>();
  const call = (member: (...args: unknown[]) => unknown, args: unknown[]) => {
    const answer = inside.run(true, () => member(...args));
    if (answer instanceof Promise) {
      const ended = answer.then(
        () => void underWay.delete(ended),
        () => void underWay.delete(ended),
      );
      underWay.add(ended);
    }
    return answer;
  };
  const members = Object.entries(store).map(([name, member]) => [
    name,
    typeof member === 'function' ? (...args: unknown[]) => call(member, args) : member,
  ]);
  return {
    ...(Object.fromEntries(members) as Store),
    // The clock of the database is that of the test, too.
    beat: async (beat) => ({ ...(await inside.run(true, () => store.beat(beat))), at: beat.now }),
    async ping() {
      await Promise.all(underWay);
      return inside.run(true, () => store.ping());
    },
    onDue: (wakeable) =>
      inside.run(true, () =>
        store.onDue({
          room: () => inside.exit(() => wakeable.room()),
          wake: () => inside.exit(() => wakeable.wake()),
          everyMinute: () => inside.exit(() => wakeable.everyMinute()),
        }),
      ),
  };
}
