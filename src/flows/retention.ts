import { setImmediate } from 'node:timers/promises';
import type { Logger } from 'pino';
import { levelOfRetry } from '../errors.ts';
import { type Clock, DAY_MS, deletionGuard, MINUTE_MS } from '../model/clock.ts';
import type { Store } from '../store/store.ts';

/** Deletes old rows in the background. */
export interface Sweeper {
  /** Sweeps once a minute from now on. */
  start(): void;
  /** Sweeps now, unless a sweep is under way. */
  sweep(): void;
  /** Resolves when no sweep runs any more. */
  stop(): Promise<void>;
}

/** Deletes chunk after chunk, as long as `deleteChunk` says that more is left and the sweeper is not stopped. */
type InChunks = (deleteChunk: () => Promise<boolean>) => Promise<void>;

interface SweeperOptions {
  /** Each chunk is a turn of the writer, which acceptances wait for: a few milliseconds at most. */
  readonly sweep: (inChunks: InChunks) => Promise<void>;
  /** The log's message where a sweep fails. */
  readonly failure: string;
  readonly logger: Logger;
  /** Whether the first sweep is at the start; else it is a minute later. */
  readonly sweepsAtStart?: boolean;
}

const SWEEP_EVERY_MS = MINUTE_MS;

/** Makes what sweeps once a minute. A sweep that fails leaves rows that nothing relies on: the next one takes them. */
export function createSweeper({ sweep, failure, logger, sweepsAtStart = false }: SweeperOptions): Sweeper {
  let timer: NodeJS.Timeout | undefined;
  let sweeping: Promise<unknown> | undefined;
  let isStopping = false;

  const inChunks: InChunks = async (deleteChunk) => {
    while (!isStopping && (await deleteChunk())) {
      // Whatever else waits for the writer goes first.
      await setImmediate();
    }
  };
  const sweepOnce = () => {
    sweeping ??= sweep(inChunks)
      .catch((error: unknown) => logger[levelOfRetry(error, 'warn')]({ err: error }, failure))
      .finally(() => {
        sweeping = undefined;
      });
  };

  return {
    start() {
      timer ??= setInterval(sweepOnce, SWEEP_EVERY_MS).unref();
      if (sweepsAtStart) sweepOnce();
    },
    sweep: sweepOnce,
    async stop() {
      isStopping = true;
      clearInterval(timer);
      await sweeping;
    },
  };
}

/** Has everything swept that is old, by one process where several share a store. */
export interface Housekeeping extends Pick<Sweeper, 'start' | 'stop'> {
  /** Is called once a minute in one of the processes that share the store. */
  everyMinute(): void;
}

interface HousekeepingServices {
  readonly store: Pick<Store, 'beginHousekeeping'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly sweepers: readonly Sweeper[];
  /** Whether other processes may have the store. */
  readonly isShared: boolean;
  /** While it is not, this process judges nothing by its age: see `Heartbeat`. */
  readonly isFit: () => boolean;
}

/** Two minutes may ring a little less than a minute apart, and in two processes at once. */
const SOONEST_MS = 30_000;
/** If no process was chosen for this long, each process that notices starts by itself. */
const LATEST_MS = 5 * MINUTE_MS;

/** A process that has its store for itself counts the minutes itself. */
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
      .catch((error: unknown) =>
        logger[levelOfRetry(error, 'warn')]({ err: error }, 'old data could not be removed; trying again'),
      )
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
  readonly store: Pick<Store, 'purgeNonces' | 'purgeRuns'>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Runs are kept for ever where not given. */
  readonly runRetentionDays?: number | undefined;
}

/**
 * A delivery is judged by the time it came at and stored later, after its body trickled in and a verifier thought about it.
 * Its nonce must still be there then, so expired rows stay for longer than any request can take: 30 s for the body, 5 s
 * each for the operator's code. With the time between two sweeps it is 110 s at most.
 */
const NONCE_MARGIN_MS = 50_000;
// 100 rows hold the writer for 1.3 ms, at 1e7 rows too; 500 held it for up to 47 ms.
const NONCES_A_CHUNK = 100;
// 200 rows of runs with their values hold the writer for 5 ms; five runs of 10 000 children did for 320.
const RUN_ROWS_A_CHUNK = 200;

/** Deletes expired nonces and old runs. */
export function createRetention({ store, clock, logger, runRetentionDays }: RetentionServices): Sweeper {
  const mayDelete = deletionGuard(clock, (aheadMs) => {
    logger.warn({ aheadMs }, 'the clock was set ahead: for a day, nothing is deleted because of its age');
  });
  const sweep = async (inChunks: InChunks) => {
    if (!mayDelete()) return;
    const now = clock.now();
    await inChunks(async () => {
      const nonces = { now: now - NONCE_MARGIN_MS, limit: NONCES_A_CHUNK };
      return (await store.purgeNonces(nonces)) === NONCES_A_CHUNK;
    });
    if (runRetentionDays === undefined) return;
    const before = now - runRetentionDays * DAY_MS;
    await inChunks(async () => !(await store.purgeRuns({ before, maxRows: RUN_ROWS_A_CHUNK })).isDone);
  };
  return createSweeper({ sweep, failure: 'expired rows could not be deleted', logger });
}
