import { DAY_MS } from '../model/clock.ts';
import type { RetryPolicy } from '../model/manifest.ts';
import type { StepErrorCode } from '../model/run.ts';

/** Why a step cannot be tried now, or its result cannot be stored. The message can contain its secrets. */
export class StepFailure extends Error {
  readonly code: StepErrorCode;
  readonly retryable: boolean;

  constructor(code: StepErrorCode, message: string, retryable = false) {
    super(message);
    this.name = 'StepFailure';
    this.code = code;
    this.retryable = retryable;
  }
}

/** How long to wait before the next try, by a retry policy or a back-off of our own. */
type Backoff = Omit<RetryPolicy, 'maxAttempts'>;

interface FailedTry {
  /** From 1. */
  readonly attempt: number;
  /** When it failed, milliseconds since the Unix epoch. */
  readonly at: number;
  /** Earliest time of the next try that the other side asked for, milliseconds from `at`. */
  readonly retryAfterMs?: number | undefined;
}

// A server that asks for a year would keep a run in flight for a year; a day outlasts any announced maintenance.
const MAX_RETRY_AFTER_MS = DAY_MS;
// A manifest can name any number, but the time of the next try must be a valid date.
const MAX_BACKOFF_SECONDS = 365 * 86_400;

/**
 * When to try again; undefined if no try is left. The wait is `backoffSeconds * factor^(attempt - 1)`, at most
 * `maxBackoffSeconds` and a year; with jitter, a random part of that, so that steps that failed together do not return
 * together. `random` yields a number from 0 up to 1.
 */
export function nextAttemptAt(policy: RetryPolicy | undefined, failed: FailedTry, random: () => number) {
  if (policy === undefined || failed.attempt >= policy.maxAttempts) return undefined;
  const { retryAfterMs = 0 } = failed;
  // A value that is not a number, a handler's mistake, counts as none.
  const askedForMs = retryAfterMs > 0 ? Math.ceil(Math.min(retryAfterMs, MAX_RETRY_AFTER_MS)) : 0;
  return failed.at + Math.max(backoffMs(policy, failed.attempt, random), askedForMs);
}

/** Whole milliseconds to wait after try number `attempt`, from 1. */
export function backoffMs(backoff: Backoff, attempt: number, random: () => number): number {
  // Zero times an overflown power would be NaN.
  const grown = backoff.backoffSeconds === 0 ? 0 : backoff.backoffSeconds * backoff.factor ** (attempt - 1);
  const seconds = Math.min(grown, backoff.maxBackoffSeconds, MAX_BACKOFF_SECONDS);
  return Math.round(seconds * 1000 * (backoff.jitter ? random() : 1));
}
