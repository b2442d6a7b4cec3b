import type { Logger } from 'pino';
import type { Clock } from '../model/clock.ts';

/** Asks the store for due work as soon as it is due; one question at a time. */
export interface Alarm {
  start(): void;
  /** Reports that something is due at this time; 0 is now. */
  expect(at: number): void;
  /** Asks now if something is due and nothing prevents it. */
  ring(): void;
  /** Resolves when no question is open; asks first if something is due. Rejects as the question does. */
  settle(): Promise<void>;
  /** Asks nothing more, and resolves when the last question was answered or has failed. */
  stop(): Promise<void>;
  /** Whether it was started and not stopped. */
  readonly isActive: boolean;
  /** Whether the last question failed and was not repeated yet. */
  readonly isPaused: boolean;
}

interface AlarmOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  /** While this is false, this process asks nothing: see `Heartbeat`. */
  readonly isFit: () => boolean;
  /** Asks, and reports results by `expect`; undefined if not yet possible: then whatever changes that must `ring`. */
  readonly ask: () => Promise<void> | undefined;
  /** How long to wait after this number of failures in a row. */
  readonly waitMs: (failures: number) => number;
  readonly failure: string;
}

/** Maximum time until due work is found that this process was not told of. */
const LONGEST_SLEEP_MS = 60_000;
/** How soon to check again whether this process is fit. */
const UNFIT_MS = 1000;

export function createAlarm({ clock, logger, isFit, ask, waitMs, failure }: AlarmOptions): Alarm {
  let isActive = false;
  let dueAt = 0;
  let failures = 0;
  let asking: Promise<void> | undefined;
  let timer: { readonly handle: NodeJS.Timeout; readonly ringsAt: number; readonly isPause: boolean } | undefined;

  const sleep = (ms: number, now: number, isPause = false) => {
    const ringsAt = now + ms;
    // A timer that rings early costs one question; setting it again for every step would cost more.
    if (timer !== undefined && (timer.isPause || timer.ringsAt <= ringsAt)) return;
    clearTimeout(timer?.handle);
    const handle = setTimeout(() => {
      timer = undefined;
      // Work made due by another process or by hand is found now, and the clock may have been set.
      dueAt = 0;
      ring();
    }, ms).unref();
    timer = { handle, ringsAt, isPause };
  };
  const begin = (): Promise<void> | undefined => {
    const known = dueAt;
    // From here on, only news from after the question counts.
    dueAt = Number.POSITIVE_INFINITY;
    const asked = ask();
    if (asked === undefined) {
      dueAt = Math.min(dueAt, known);
      return undefined;
    }
    asking = asked
      .then(
        () => {
          failures = 0;
        },
        (error: unknown) => {
          failures += 1;
          dueAt = 0;
          const ms = waitMs(failures);
          clearTimeout(timer?.handle);
          timer = undefined;
          if (isActive) sleep(ms, clock.now(), true);
          logger.error({ err: error, waitMs: ms }, failure);
          throw error;
        },
      )
      .finally(() => {
        asking = undefined;
        ring();
      });
    return asking;
  };
  const ring = () => {
    if (!isActive || asking !== undefined || timer?.isPause === true) return;
    // Nothing is known to be due, and the timer finds the unknown: most steps ring for nothing.
    if (timer !== undefined && dueAt === Number.POSITIVE_INFINITY) return;
    const mayAsk = isFit();
    const now = clock.now();
    if (!mayAsk) sleep(UNFIT_MS, now);
    else if (dueAt > now) sleep(Math.min(dueAt - now, LONGEST_SLEEP_MS), now);
    else begin()?.catch(() => {});
  };

  return {
    start() {
      isActive = true;
      ring();
    },
    expect(at) {
      dueAt = Math.min(dueAt, at);
      ring();
    },
    ring,
    settle: () => asking ?? (dueAt <= clock.now() ? begin() : undefined) ?? Promise.resolve(),
    async stop() {
      isActive = false;
      clearTimeout(timer?.handle);
      await asking?.catch(() => {});
    },
    get isActive() {
      return isActive;
    },
    get isPaused() {
      return timer?.isPause === true;
    },
  };
}
