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

// A hundred rows, or this many pages of the file, take a few milliseconds.
const ROWS_A_CHUNK = 100;
const PAGES_A_CHUNK = 512;

/** Deletes old records of the delivery log; the store keeps the log's other limits itself. */
export function createLogRetention({ store, clock, logger, retentionDays }: LogRetentionServices): Sweeper {
  // Logs nothing: the sweep of runs and nonces uses the same clock and logs it.
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
    // Records that the last process left may be too old by now.
    sweepsAtStart: true,
  });
}
