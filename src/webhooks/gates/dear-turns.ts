import type { Clock } from '../../model/clock.ts';
import { Rotation, type Waiter } from '../../model/rotation.ts';

/** Runs work that blocks the event loop for long, one piece at a time, with a pause as long as each piece took. */
export interface DearTurns {
  /** Runs the work at its turn, unless the signal aborts first. Keys take turns: none waits for all work of another. */
  run<Result>(key: string, work: () => Result, signal: AbortSignal): Promise<Result>;
}

interface Waiting extends Waiter {
  start(): void;
}

export function createDearTurns(
  clock: Pick<Clock, 'monotonic'>,
  pause: (ms: number) => Promise<unknown> = restOfLoop,
): DearTurns {
  const waiting = new Set<Waiting>();
  const rotation = new Rotation();
  let asked = 0;
  let isBusy = false;

  async function takeTurns(): Promise<void> {
    isBusy = true;
    for (let next = rotation.next(waiting); next !== undefined; next = rotation.next(waiting)) {
      waiting.delete(next);
      rotation.give(next.key);
      const begun = clock.monotonic();
      next.start();
      await pause(clock.monotonic() - begun);
    }
    isBusy = false;
  }

  return {
    run: (key, work, signal) =>
      new Promise((resolve, reject) => {
        const start = () => {
          signal.removeEventListener('abort', leave);
          try {
            resolve(work());
          } catch (error) {
            reject(error);
          }
        };
        asked += 1;
        const own = { key, running: 0, limit: Number.POSITIVE_INFINITY, since: asked, start };
        const leave = () => {
          waiting.delete(own);
          reject(signal.reason);
        };
        signal.addEventListener('abort', leave, { once: true });
        waiting.add(own);
        if (!isBusy) void takeTurns();
      }),
  };
}

/** A timer alone is not enough: the next timer may follow at once. */
function restOfLoop(ms: number): Promise<unknown> {
  return new Promise((resolve) => setTimeout(() => setImmediate(resolve), ms));
}
