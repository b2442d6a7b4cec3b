import { setImmediate } from 'node:timers/promises';
import type { Logger } from 'pino';
import { levelOfRetry } from './errors.ts';
import { MINUTE_MS } from './model/clock.ts';

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
