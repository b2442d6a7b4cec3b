import type { Logger } from 'pino';
import { levelOfRetry } from '../errors.ts';
import type { Clock } from '../model/clock.ts';
import type { Claim, RunStop, StoppedRun, Store } from '../store/store.ts';
import { LEASE_MS } from './leases.ts';

/** What this process was not told of is found at the latest after this time. */
export const LONGEST_SLEEP_MS = 60_000;

/**
 * Enforces the time limits of runs and of waiting steps by a timer of its own, however many steps run, and cancels the runs
 * that steps of stopped runs waited for.
 */
export interface Deadlines {
  start(): void;
  /** Says that a time limit is up at this time. */
  expect(at: number): void;
  /** Enforces what is up by now; rejects as the store does. */
  settle(): Promise<void>;
  /** Resolves when nothing of it runs any more. */
  stop(): Promise<void>;
}

interface DeadlineServices {
  readonly store: Pick<Store, 'claimOverdue'>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Names this process in its leases. */
  readonly owner: string;
  /** While it is not, nothing is overdue for this process: see `Heartbeat`. */
  readonly isFit: () => boolean;
  onStopped(run: StoppedRun, stop: RunStop): void;
  /** Waiting steps whose own time is up: they are only ended, so that they need no slot. */
  onClaims(claims: readonly Claim[], leasedUntil: number): void;
}

/** After the store failed, or while this process is unfit. */
const RETRY_MS = 1_000;
/** Runs, and steps, that one look ends. */
const OVERDUE_A_LOOK = 100;

export function createDeadlines(services: DeadlineServices): Deadlines {
  const { store, clock, logger, owner, isFit } = services;
  let isActive = false;
  /** When to look next; 0 is now. */
  let nextAt = 0;
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> | undefined;

  const look = async () => {
    // From here on only what is learnt after the question was sent counts.
    nextAt = Number.POSITIVE_INFINITY;
    try {
      const now = clock.now();
      const leasedUntil = now + LEASE_MS;
      const overdue = await store.claimOverdue({ owner, now, leasedUntil, limit: OVERDUE_A_LOOK });
      nextAt = Math.min(nextAt, overdue.nextAt ?? Number.POSITIVE_INFINITY);
      for (const run of overdue.timedOut) services.onStopped(run, 'timedOut');
      for (const run of overdue.orphaned) services.onStopped(run, 'cancelled');
      services.onClaims(overdue.claims, leasedUntil);
    } catch (error) {
      nextAt = 0;
      throw error;
    }
  };
  const settle = async () => {
    if (looking === undefined && nextAt > clock.now()) return;
    looking ??= look().finally(() => {
      looking = undefined;
    });
    await looking;
    sleep();
  };
  const sleep = () => {
    clearTimeout(timer);
    if (!isActive) return;
    const waitMs = Math.max(0, Math.min(nextAt - clock.now(), LONGEST_SLEEP_MS));
    timer = setTimeout(() => {
      // A run that another process or a hand gave a limit is found at the latest after the longest sleep.
      nextAt = 0;
      ring();
    }, waitMs).unref();
  };
  const ringAgain = () => {
    clearTimeout(timer);
    if (isActive) timer = setTimeout(ring, RETRY_MS).unref();
  };
  const ring = () => {
    if (!isFit()) {
      ringAgain();
      return;
    }
    settle().catch((error: unknown) => {
      logger[levelOfRetry(error, 'error')](
        { err: error, waitMs: RETRY_MS },
        'time limits could not be enforced; trying again',
      );
      ringAgain();
    });
  };

  return {
    start() {
      isActive = true;
      ring();
    },
    expect(at) {
      if (at >= nextAt) return;
      nextAt = at;
      if (looking === undefined) sleep();
    },
    settle,
    async stop() {
      isActive = false;
      clearTimeout(timer);
      // What it failed to do is done by the next process.
      await looking?.catch(() => {});
    },
  };
}
