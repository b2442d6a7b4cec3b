import { AsyncLocalStorage } from 'node:async_hooks';
import { ASK_AGAIN_MS } from '../../src/store/postgres/turns.ts';
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

/**
 * Opens a store whose timers are real and whose clock is the caller's. As with SQLite's thread, `ping` is answered after
 * what was called before, and a claim is not told to come back for what another call of the same process has in use.
 */
export async function openWithOwnTimers(open: () => Promise<Store>): Promise<Store> {
  const store = await inside.run(true, open);
  /** Calls that are not answered yet. */
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
  /** Yields the answers until one leaves nothing out that another call had in use: the time to come back at stands still. */
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
    // The clock of the database is that of the test, too.
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
