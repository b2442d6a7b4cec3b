import type { StepStatus } from '../../model/manifest.ts';
import type { StepError } from '../../model/run.ts';
import { parseRuntimeKey, tokenOf } from '../../model/runtime-keys.ts';
import type { Claim } from '../store.ts';
import type { Decision } from './decision.ts';
import type { RunReads, RunRows, RunWrites, StopTimes } from './rows.ts';
import { findCame, readWait } from './signal.ts';
import { stopOf } from './stop.ts';

type Found =
  | 'token'
  | 'attempt'
  | 'startedAt'
  | 'attemptStartedAt'
  | 'aloneMs'
  | 'resumed'
  | 'loop'
  | 'stop'
  | 'isUnwritten';

/** A due step, with everything that its claim is made from. */
export interface DueStep extends Omit<Claim, Found>, StopTimes {
  readonly status: StepStatus;
  readonly attemptCount: number;
  /** Processes that died while they ran it. */
  readonly deaths: number;
  /** Null if no process holds it: it was returned, or its holder is known to be dead. */
  readonly leaseToken: string | null;
  /** A `Wait` as JSON text; null where the step does not wait. */
  readonly wait: string | null;
  /** Whether the attempt may be written later: nobody has leased the step before, and nothing limits its flow. */
  readonly isPlain?: boolean | undefined;
}

const interrupted: StepError = {
  code: 'interrupted',
  message: 'The process that ran this attempt stopped before it ended.',
  retryable: true,
};

/** A suspect runs alone for this long the first time, and twice as long after each further death of a process. */
const FIRST_ALONE_MS = 10_000;
const LONGEST_ALONE_MS = 3_600_000;

interface Lease {
  /** Made by `holderOf`, for one step only. */
  readonly holder: string;
  readonly now: number;
  readonly leasedUntil: number;
}

/** The rows that a claim asks and writes. */
type ClaimRows = Pick<RunRows, keyof ClaimReads | keyof ClaimWrites>;
export type ClaimReads = Pick<RunReads, 'findAttemptStart' | 'findSignal' | 'findItem'>;
export type ClaimWrites = Pick<RunWrites, 'interruptAttempt' | 'leaseStep' | 'insertAttempt'>;

/** Leases a due step. Asks nothing where the step has not waited and is in no loop. */
export function* claim(
  rows: ClaimRows,
  { status, attemptCount, deaths, leaseToken, wait: kept, cancelRequestedAt, timedOutAt, isPlain, ...row }: DueStep,
  { holder, now, leasedUntil }: Lease,
): Decision<Claim> {
  const { runId, stepKey, dueAt } = row;
  const wait = readWait(kept);
  // A step that was leased as it became due has no attempt that could be interrupted.
  const isInterrupted = status === 'Running' && attemptCount > 0;
  // Its holder lives and gave up its outcome; no other step can have caused that.
  const hasLapsed = isInterrupted && leaseToken !== null;
  // A step that has waited goes on with the attempt that it began.
  const goesOn = wait !== null && !isInterrupted;
  const { iteration } = parseRuntimeKey(stepKey);
  if (isInterrupted) rows.interruptAttempt({ runId, stepKey, attempt: attemptCount, error: interrupted, at: now });
  const begunAt = goesOn ? yield* rows.findAttemptStart(runId, stepKey, attemptCount) : undefined;
  const came = wait && (yield* findCame(rows, row, wait));
  const item = iteration && (yield* rows.findItem(runId, iteration.loopKey, iteration.index));
  const claim: Claim = {
    ...row,
    token: tokenOf(runId, stepKey, holder),
    attempt: goesOn ? attemptCount : attemptCount + 1,
    interruptions: row.interruptions + Number(hasLapsed),
    loneDeaths: row.loneDeaths + Number(hasLapsed),
    aloneMs: deaths < 2 ? null : Math.min(FIRST_ALONE_MS * 2 ** (deaths - 2), LONGEST_ALONE_MS),
    startedAt: now,
    attemptStartedAt: begunAt ?? now,
    resumed: wait && { state: wait.state, signal: came && { body: came.body, deliveredAt: came.deliveredAt } },
    loop: iteration && { item, index: iteration.index },
    stop: stopOf({ cancelRequestedAt, timedOutAt }),
  };
  if (isPlain === true) {
    rows.leaseStep({ ...claim, attempt: 0 }, leasedUntil);
    return { ...claim, isUnwritten: true };
  }
  rows.leaseStep(claim, leasedUntil);
  if (!goesOn) rows.insertAttempt({ runId, stepKey, attempt: claim.attempt, dueAt, startedAt: now });
  return claim;
}
