import { setImmediate } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type Clock, DAY_MS, deletionGuard, MINUTE_MS } from '../model/clock.ts';
import type { Store } from '../store/store.ts';

/** Deletes what has expired, in the background. */
export interface Retention {
  start(): void;
  /** Resolves when no sweep runs any more. */
  stop(): Promise<void>;
}

export interface RetentionServices {
  readonly store: Pick<Store, 'purgeNonces' | 'purgeRuns'>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Runs are kept for ever where not given. */
  readonly runRetentionDays?: number | undefined;
}

const SWEEP_EVERY_MS = MINUTE_MS;
/**
 * A delivery is judged by the time it came at and stored later, after its body trickled in and a verifier thought about it.
 * Its nonce must still be there then, so expired rows stay for longer than any request can take: 30 s for the body, 5 s
 * each for the operator's code. With the time between two sweeps it is 110 s at most.
 */
const NONCE_MARGIN_MS = 50_000;
// 100 rows hold the writer for 1.3 ms, at 1e7 rows too; 500 held it for up to 47 ms.
const NONCES_A_CHUNK = 100;
// 200 rows of runs with their values hold the writer for 5 ms; five runs of 10 000 children did for 320.
const RUN_ROWS_A_SLICE = 200;

export function createRetention({ store, clock, logger, runRetentionDays }: RetentionServices): Retention {
  let timer: NodeJS.Timeout | undefined;
  let sweeping: Promise<unknown> | undefined;
  let isStopping = false;

  const inChunks = async (limit: number, purge: (limit: number) => Promise<number>) => {
    while (!isStopping && (await purge(limit)) === limit) {
      // Whatever else waits for the writer goes first.
      await setImmediate();
    }
  };
  const mayDelete = deletionGuard(clock, (aheadMs) => {
    logger.warn({ aheadMs }, 'the clock was set ahead: for a day nothing is deleted for its age');
  });
  const sweep = async () => {
    if (!mayDelete()) return;
    const now = clock.now();
    await inChunks(NONCES_A_CHUNK, (limit) => store.purgeNonces({ now: now - NONCE_MARGIN_MS, limit }));
    if (runRetentionDays === undefined) return;
    const before = now - runRetentionDays * DAY_MS;
    while (!isStopping && !(await store.purgeRuns({ before, maxRows: RUN_ROWS_A_SLICE })).isDone) await setImmediate();
  };
  // A sweep that fails leaves rows that expired: nothing relies on their being gone, and the next sweep takes them.
  const sweepOnce = () => {
    sweeping ??= sweep()
      .catch((error: unknown) => logger.warn({ err: error }, 'what has expired could not be deleted'))
      .finally(() => {
        sweeping = undefined;
      });
  };

  return {
    start() {
      timer ??= setInterval(sweepOnce, SWEEP_EVERY_MS).unref();
    },
    async stop() {
      isStopping = true;
      clearInterval(timer);
      await sweeping;
    },
  };
}
