import { setImmediate } from 'node:timers/promises';
import type { Logger } from 'pino';
import { StoreUnavailableError } from './errors.ts';
import { type Clock, deletionGuard, HOUR_MS, MINUTE_MS } from './model/clock.ts';

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
export type InChunks = (deleteChunk: () => Promise<boolean>) => Promise<void>;

interface SweeperOptions {
  /** Each chunk is a turn of the writer, which acceptances wait for: a few milliseconds at most. */
  readonly sweep: (inChunks: InChunks) => Promise<void>;
  /** The log's message where a sweep fails. */
  readonly failure: string;
  readonly logger: Logger;
  /** Whether the first sweep is at the start; else it is a minute later. */
  readonly sweepsAtStart?: boolean;
}

export const SWEEP_EVERY_MS = MINUTE_MS;

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
  /** What is looked at in a sweep. */
  readonly list: () => readonly Item[];
  /** What all looks of a sweep share; also where there is nothing to look at. */
  readonly begin: () => Promise<Begun>;
  readonly look: (item: Item, begun: Begun) => Promise<void>;
  /** Deletes a chunk of what is too old in this hour since the Unix epoch; yields whether more is left. */
  readonly purge: (hour: number) => Promise<boolean>;
  readonly clock: Clock;
}

/**
 * Makes what looks at each of a list once a minute, one in a turn, and purges once an hour. It begins at the start: what
 * came while no process looked is there to be looked at.
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
        // What is wrong with one must not keep the others from being looked at.
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
