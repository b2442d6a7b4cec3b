import type { Logger } from 'pino';
import { type Clock, DAY_MS, deletionGuard } from '../../model/clock.ts';
import type { Store } from '../../store/store.ts';
import { createSweeper, type Sweeper } from '../../sweeper.ts';

interface LogRetentionServices {
  readonly store: Pick<Store, 'purgeDeliveries' | 'releaseSpace'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly retentionDays: number;
}

// A hundred rows or so many pages of file take a few milliseconds.
const ROWS_A_CHUNK = 100;
const PAGES_A_CHUNK = 512;

/** Deletes old records of the delivery log; its other bounds the store keeps by itself. */
export function createLogRetention({ store, clock, logger, retentionDays }: LogRetentionServices): Sweeper {
  // The sweep of runs and nonces, by the same clock, says so in the log.
  const mayDelete = deletionGuard(clock, () => {});
  return createSweeper({
    sweep: async (inChunks) => {
      const before = clock.now() - retentionDays * DAY_MS;
      if (mayDelete()) {
        await inChunks(async () => (await store.purgeDeliveries({ before, limit: ROWS_A_CHUNK })) === ROWS_A_CHUNK);
      }
      await inChunks(async () => (await store.releaseSpace({ pages: PAGES_A_CHUNK })) === PAGES_A_CHUNK);
    },
    failure: 'the delivery log could not be trimmed',
    logger,
    // What the last process left may have grown too old since.
    sweepsAtStart: true,
  });
}
