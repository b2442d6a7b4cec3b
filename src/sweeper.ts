import { setImmediate } from 'node:timers/promises';
import type { Logger } from 'pino';
import { StoreUnavailableError } from './errors.ts';
import { type Clock, deletionGuard, HOUR_MS, MINUTE_MS } from './model/clock.ts';

/** Deletes old rows in the background. */
export interface Sweeper {
  /** Sweeps once a minute from now on. */
  start(): void;
  /** Sweeps now, unless a sweep is running. */
  sweep(): void;
  /** Resolves when no sweep is running. */
  stop(): Promise<void>;
}

/** Deletes chunk after chunk while `deleteChunk` yields that more is left and the sweeper is not stopped. */
export type InChunks = (deleteChunk: () => Promise<boolean>) => Promise<void>;

interface SweeperOptions {
  /** Each chunk is one turn of the writer and delays acceptances, so it must take a few milliseconds at most. */
  readonly sweep: (inChunks: InChunks) => Promise<void>;
  /** The log message when a sweep fails. */
  readonly failure: string;
  readonly logger: Logger;
  /** Whether the first sweep is at the start; otherwise it is a minute later. */
  readonly sweepsAtStart?: boolean;
}

export const SWEEP_EVERY_MS = MINUTE_MS;

/** Makes a sweeper that runs once a minute. After a failure, the next sweep deletes the rest, which nothing uses. */
export function createSweeper({ sweep, failure, logger, sweepsAtStart = false }: SweeperOptions): Sweeper {
  let timer: NodeJS.Timeout | undefined;
  let sweeping: Promise<unknown> | undefined;
  let isStopping = false;

  const inChunks: InChunks = async (deleteChunk) => {
    while (!isStopping && (await deleteChunk())) {
      // Let other work that waits for the writer go first.
      await setImmediate();
    }
  };
  const sweepOnce = () => {
    sweeping ??= sweep(inChunks)
      .catch((error: unknown) => logger.warn({ err: error }, failure))
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

interface EachWatch<Item, Begun> extends Pick<SweeperOptions, 'failure' | 'logger'> {
  /** The items to look at in a sweep. */
  readonly list: () => readonly Item[];
  /** Prepares what all looks of a sweep share; also called when there are no items. */
  readonly begin: () => Promise<Begun>;
  readonly look: (item: Item, begun: Begun) => Promise<void>;
  /** Deletes a chunk of rows that are too old in this hour since the Unix epoch; yields whether more are left. */
  readonly purge: (hour: number) => Promise<boolean>;
  readonly clock: Clock;
}

/**
 * Makes a sweeper that looks at each item of a list once a minute, one per turn, and purges once an hour. The first
 * sweep is at the start, to look at what arrived while no process was running.
 */
export function watchEach<Item, Begun>(watch: EachWatch<Item, Begun>): Sweeper {
  const { list, begin, look, purge, clock, ...options } = watch;
  const mayDelete = deletionGuard(clock, () => {});
  let purgedHour: number | undefined;
  return createSweeper({
    ...options,
    sweep: async (inChunks) => {
      const queue = [...list()];
      const failures: unknown[] = [];
      let begun: Promise<Begun> | undefined;
      await inChunks(async () => {
        begun ??= begin();
        const shared = await begun;
        const next = queue.shift();
        // A problem with one item must not prevent looking at the others.
        if (next !== undefined) await look(next, shared).catch((error: unknown) => failures.push(error));
        return queue.length > 0 && !failures.some((error) => error instanceof StoreUnavailableError);
      });
      if (failures.length > 0) throw failures[0];
      const hour = Math.floor(clock.now() / HOUR_MS);
      if (!mayDelete() || hour === purgedHour) return;
      await inChunks(() => purge(hour));
      purgedHour = hour;
    },
    sweepsAtStart: true,
  });
}
