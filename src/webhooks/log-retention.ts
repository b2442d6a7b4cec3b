import { setImmediate } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type Clock, DAY_MS, deletionGuard, MINUTE_MS } from '../model/clock.ts';
import type { Store } from '../store/store.ts';

/** Deletes old records of the delivery log in the background; its other bounds the store keeps by itself. */
export interface LogRetention {
  start(): void;
  /** Resolves when no sweep runs any more. */
  stop(): Promise<void>;
}

export interface LogRetentionServices {
  readonly store: Pick<Store, 'purgeDeliveries' | 'releaseSpace'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly retentionDays: number;
}

const SWEEP_EVERY_MS = MINUTE_MS;
// Each chunk is a turn of the writer, which acceptances wait for: a hundred rows or 2 MiB of file take a few milliseconds.
const ROWS_A_CHUNK = 100;
const PAGES_A_CHUNK = 256;

export function createLogRetention(services: LogRetentionServices): LogRetention {
  const { store, clock, logger, retentionDays } = services;
  let timer: NodeJS.Timeout | undefined;
  let sweeping: Promise<void> | undefined;
  let isStopping = false;
  // The sweep of runs and nonces, by the same clock, says so in the log.
  const mayDelete = deletionGuard(clock, () => {});

  const repeat = async (sweepChunk: () => Promise<number>, chunk: number) => {
    while (!isStopping && (await sweepChunk()) === chunk) {
      // Whatever else waits for the writer goes first.
      await setImmediate();
    }
  };
  const sweep = async () => {
    const before = clock.now() - retentionDays * DAY_MS;
    if (mayDelete()) await repeat(() => store.purgeDeliveries({ before, limit: ROWS_A_CHUNK }), ROWS_A_CHUNK);
    await repeat(() => store.releaseSpace({ pages: PAGES_A_CHUNK }), PAGES_A_CHUNK);
  };
  // A sweep that fails leaves records that are due: the next one takes them.
  const sweepOnce = () => {
    sweeping ??= sweep()
      .catch((error: unknown) => logger.warn({ err: error }, 'the delivery log could not be trimmed'))
      .finally(() => {
        sweeping = undefined;
      });
  };

  return {
    start() {
      timer ??= setInterval(sweepOnce, SWEEP_EVERY_MS).unref();
      // What the last process left may have grown too old since.
      sweepOnce();
    },
    async stop() {
      isStopping = true;
      clearInterval(timer);
      await sweeping;
    },
  };
}
