import type { Logger } from 'pino';
import { type Clock, DAY_MS, deletionGuard, MINUTE_MS, type ServiceClock } from '../model/clock.ts';
import type { RevisionPlace, Store } from '../store/store.ts';
import { createSweeper, type InChunks, SWEEP_EVERY_MS, type Sweeper } from '../sweeper.ts';

/** Sweeps old data, in one process if several share a store. */
interface Housekeeping extends Pick<Sweeper, 'start' | 'stop'> {
  /** Called once a minute in one of the processes that share the store. */
  everyMinute(): void;
}

interface HousekeepingServices {
  readonly store: Pick<Store, 'beginHousekeeping'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly sweepers: readonly Sweeper[];
  /** Whether other processes can have the store. */
  readonly isShared: boolean;
  /** While this is false, this process judges nothing by its age: see `Heartbeat`. */
  readonly isFit: () => boolean;
}

/** Calls can come slightly less than a minute apart, and in two processes at once. */
const SOONEST_MS = 30_000;
/** If no process was chosen for this long, each process that notices starts by itself. */
const LATEST_MS = 5 * MINUTE_MS;

/** A process with a store of its own counts the minutes itself. */
export function createHousekeeping(services: HousekeepingServices): Housekeeping {
  const { store, clock, logger, sweepers, isShared, isFit } = services;
  let timer: NodeJS.Timeout | undefined;
  let beginning: Promise<void> | undefined;

  const begin = async (everyMs: number) => {
    if (!isFit()) return;
    if (await store.beginHousekeeping({ everyMs, now: clock.now() })) for (const sweeper of sweepers) sweeper.sweep();
  };
  const beginUnless = (everyMs: number) => {
    beginning ??= begin(everyMs)
      .catch((error: unknown) => logger.warn({ err: error }, 'old data could not be removed; trying again'))
      .finally(() => {
        beginning = undefined;
      });
  };

  return {
    start() {
      if (isShared) timer ??= setInterval(() => beginUnless(LATEST_MS), SWEEP_EVERY_MS).unref();
      else for (const sweeper of sweepers) sweeper.start();
    },
    everyMinute: () => beginUnless(SOONEST_MS),
    async stop() {
      clearInterval(timer);
      await beginning;
      await Promise.all(sweepers.map((sweeper) => sweeper.stop()));
    },
  };
}

interface RetentionServices {
  readonly store: Pick<Store, 'purgeNonces' | 'purgeRuns' | 'purgeRevisions'>;
  readonly clock: ServiceClock;
  readonly logger: Logger;
  /** If absent, runs are kept for ever. */
  readonly runRetentionDays?: number | undefined;
}

/**
 * A delivery is judged by its arrival time but stored later, after its body trickled in and a verifier finished. Its
 * nonce must still be there then, so expired rows stay for longer than any request can take: 30 s for the body, 5 s
 * each for the operator's code. With the time between two sweeps it is 110 s at most.
 */
const NONCE_MARGIN_MS = 50_000;
// 100 rows hold the writer for 1.3 ms, at 1e7 rows too; 500 held it for up to 47 ms.
const NONCES_A_CHUNK = 100;
// 200 rows of runs with their values hold the writer for 5 ms; five runs of 10 000 children held it for 320.
const RUN_ROWS_A_CHUNK = 200;

/** How many of each flow's newest revisions keep their manifests. */
export const KEPT_REVISIONS = 50;
const REVISIONS_A_CHUNK = 20;

/** Deletes expired nonces, old runs, and manifests of old revisions that no run uses. */
export function createRetention({ store, clock, logger, runRetentionDays }: RetentionServices): Sweeper {
  const mayDelete = deletionGuard(clock, (aheadMs) => {
    logger.warn({ aheadMs }, 'the clock was set ahead: for a day, nothing but nonces is deleted because of its age');
  });
  const sweep = async (inChunks: InChunks) => {
    // The time of nonces never jumps, so setting a clock does not end one early.
    const nonces = { now: clock.ledger() - NONCE_MARGIN_MS, limit: NONCES_A_CHUNK };
    await inChunks(async () => (await store.purgeNonces(nonces)) === NONCES_A_CHUNK);
    if (!mayDelete()) return;
    if (runRetentionDays !== undefined) {
      const before = clock.now() - runRetentionDays * DAY_MS;
      await inChunks(async () => !(await store.purgeRuns({ before, maxRows: RUN_ROWS_A_CHUNK })).isDone);
    }
    let after: RevisionPlace | null = { flowId: '', revision: 0 };
    await inChunks(async () => {
      if (after !== null) {
        const chunk = { kept: KEPT_REVISIONS, after, limit: REVISIONS_A_CHUNK };
        after = (await store.purgeRevisions(chunk)).next;
      }
      return after !== null;
    });
  };
  return createSweeper({ sweep, failure: 'expired rows could not be deleted', logger });
}
