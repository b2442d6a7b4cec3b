import { AsyncLocalStorage } from 'node:async_hooks';
import { ASK_AGAIN_MS } from '../../src/store/postgres/turns.ts';
import type { Store } from '../../src/store/store.ts';

const NAMES = ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'setImmediate', 'clearImmediate'] as const;

/** Set while the store's code runs. */
const inside = new AsyncLocalStorage<true>();

/**
 * From here on, a store's code has real timers, even while a test fakes them: SQLite's store has a separate thread, but
 * the PostgreSQL driver's time limits would pass whenever a test skips a minute. Call it once, before any test fakes a
 * timer.
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

/**
 * Opens a store with real timers and the caller's clock. As with SQLite's thread, `ping` is answered after earlier
 * calls, and a claim does not have to come back for rows that another call of the same process is using.
 */
export async function openWithOwnTimers(open: () => Promise<Store>): Promise<Store> {
  const store = await inside.run(true, open);
  /** Calls without an answer yet. */
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
  const own = Object.fromEntries(members) as Store;
  /** Asks until an answer leaves out no row in use by other calls: the clock never reaches the time to ask again. */
  const askUntilFree = async <Answer>(ask: () => Promise<Answer>, isLeftOut: (answer: Answer) => boolean) => {
    for (const answers: Answer[] = []; ; ) {
      const before = [...underWay];
      const answer = await ask();
      answers.push(answer);
      const others = [...before, ...underWay];
      if (!isLeftOut(answer) || others.length === 0) return { last: answer, answers };
      await Promise.race(others);
    }
  };
  return {
    ...own,
    async claimDue(request) {
      let left = request.limit;
      const ask = async () => {
        const batch = await own.claimDue({ ...request, limit: left });
        left -= batch.claims.length;
        return batch;
      };
      const comesBackAt = request.now + ASK_AGAIN_MS;
      const { last, answers } = await askUntilFree(ask, ({ nextDueAt }) => nextDueAt === comesBackAt);
      return { ...last, claims: answers.flatMap(({ claims }) => claims) };
    },
    async claimOverdue(request) {
      const comesBackAt = request.now + ASK_AGAIN_MS;
      const { last, answers } = await askUntilFree(
        () => own.claimOverdue(request),
        ({ nextAt }) => nextAt === comesBackAt,
      );
      return {
        ...last,
        claims: answers.flatMap(({ claims }) => claims),
        timedOut: answers.flatMap(({ timedOut }) => timedOut),
      };
    },
    // The database also follows the test's clock.
    beat: async (beat) => ({ ...(await inside.run(true, () => store.beat(beat))), at: beat.now }),
    async ping() {
      await Promise.all(underWay);
      return inside.run(true, () => store.ping());
    },
    onDue: (wakeable) =>
      inside.run(true, () =>
        store.onDue({
          hasSlot: () => inside.exit(() => wakeable.hasSlot()),
          wake: () => inside.exit(() => wakeable.wake()),
          everyMinute: () => inside.exit(() => wakeable.everyMinute()),
        }),
      ),
  };
}
