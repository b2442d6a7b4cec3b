import { setImmediate } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Clock } from '../model/clock.ts';
import type { Store } from '../store/store.ts';

/** Keeps the delivery log within its bounds, in the background. */
export interface LogRetention {
  start(): void;
  /** A delivery was refused and kept: after enough of them the log is trimmed without waiting for the timer. */
  refused(bodyBytes: number): void;
  /** Resolves when no sweep runs any more. */
  stop(): Promise<void>;
}

export interface LogRetentionServices {
  readonly store: Pick<Store, 'purgeDeliveries' | 'trimRefused' | 'releaseSpace'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly retentionDays: number;
  /** So many records, and so many bytes of their bodies, of deliveries that started no run. */
  readonly maxRefusedRows: number;
  readonly maxRefusedBytes: number;
}

const SWEEP_EVERY_MS = 60_000;
const DAY_MS = 86_400_000;
// Each chunk is a turn of the writer, which acceptances wait for: a hundred rows or 2 MiB of file take a few milliseconds.
const ROWS_A_CHUNK = 100;
const PAGES_A_CHUNK = 256;
// The log outgrows its bounds by no more than this and what comes in while a chunk is deleted.
const SLACK_ROWS = 1000;
const SLACK_BYTES = 16_777_216;

export function createLogRetention(services: LogRetentionServices): LogRetention {
  const { store, clock, logger, retentionDays, maxRefusedRows: maxRows, maxRefusedBytes: maxBytes } = services;
  let timer: NodeJS.Timeout | undefined;
  let sweeping: Promise<void> | undefined;
  let isStopping = false;
  let newRows = 0;
  let newBytes = 0;

  const repeat = async (sweepChunk: () => Promise<number>, chunk: number) => {
    while (!isStopping && (await sweepChunk()) === chunk) {
      // Whatever else waits for the writer goes first.
      await setImmediate();
    }
  };
  const trim = async () => {
    newRows = 0;
    newBytes = 0;
    await repeat(() => store.trimRefused({ maxRows, maxBytes, limit: ROWS_A_CHUNK }), ROWS_A_CHUNK);
  };
  const sweep = async () => {
    const before = clock.now() - retentionDays * DAY_MS;
    await repeat(() => store.purgeDeliveries({ before, limit: ROWS_A_CHUNK }), ROWS_A_CHUNK);
    await trim();
    await repeat(() => store.releaseSpace({ pages: PAGES_A_CHUNK }), PAGES_A_CHUNK);
  };
  // A sweep that fails leaves records that are due: the next one takes them.
  const once = (work: () => Promise<void>) => {
    sweeping ??= work()
      .catch((error: unknown) => logger.warn({ err: error }, 'the delivery log could not be trimmed'))
      .finally(() => {
        sweeping = undefined;
      });
  };

  return {
    start() {
      timer ??= setInterval(() => once(sweep), SWEEP_EVERY_MS).unref();
      // What the last process left may be beyond bounds that were set since.
      once(sweep);
    },
    refused(bodyBytes) {
      newRows += 1;
      newBytes += bodyBytes;
      if (newRows >= SLACK_ROWS || newBytes >= SLACK_BYTES) once(trim);
    },
    async stop() {
      isStopping = true;
      clearInterval(timer);
      await sweeping;
    },
  };
}

/** The store, telling the retention of what it keeps. */
export function withLogRetention(store: Store, retention: Pick<LogRetention, 'refused'>): Store {
  return {
    ...store,
    async recordDelivery(record) {
      await store.recordDelivery(record);
      if (record.runId === null) retention.refused(record.body?.byteLength ?? 0);
    },
  };
}
