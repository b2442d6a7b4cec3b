import type { Logger } from 'pino';
import { StoreUnavailableError } from '../errors.ts';
import type { Clock } from '../model/clock.ts';
import type { Acceptance, Store } from '../store/store.ts';
import type { Metrics } from '../telemetry/metrics.ts';

/**
 * Holds acceptances back while due steps that could run wait too long, and refuses deliveries while too many wait.
 *
 * Steps and acceptances share the machine, and under a flood acceptances alone could fill it. While claims follow each
 * other quickly, which requires that steps end quickly, and the oldest step that a claim leaves has been due for
 * `LATE_MS`, runs are stored with half as many steps as claims take: the queue gets shorter, whatever arrives. So while
 * the machine can execute steps at all, none is due for longer than a second.
 */
export interface AcceptanceLimits {
  /** Counts due steps from now on. */
  start(): void;
  /**
   * Resolves when the run can be stored; undefined if it can be stored now. Throws `StoreUnavailableError` for a
   * delivery while too many steps are due: its sender should try again later.
   */
  admit(acceptance: AdmittedRun): Promise<void> | undefined;
  /** Reports the steps that a claim took and left. */
  claimed(claim: AnsweredClaim): void;
  /** Holds nothing back from now on. */
  end(): void;
  /** Resolves when none of its work runs any more. */
  stop(): Promise<void>;
}

/** The facts that decide about admitting an acceptance. */
interface AdmittedRun extends Pick<Acceptance, 'delivery'> {
  readonly run: { readonly steps: { readonly length: number } };
}

interface AnsweredClaim {
  /** When the claim was sent, by the monotonic clock. */
  readonly sentAt: number;
  readonly taken: number;
  /** Due time of the oldest remaining step; null if none remains. */
  readonly oldestDueAt: number | null;
}

interface LimitServices {
  readonly store: Pick<Store, 'measureBacklog'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'dueSteps' | 'oldestDueStepSeconds'>;
  /** With more due steps, no delivery is accepted; a million by default. */
  readonly maxDueSteps?: number;
}

/** Hours of work for any service: senders of more should keep it and send it again. */
const MAX_DUE_STEPS = 1_000_000;
/** After this time a due step is late, and no new run overtakes it. */
export const LATE_MS = 250;
/** A claim sent later than this after the last answer waited for slow steps, which fewer runs would not speed up. */
const QUICK_MS = 100;
/** The longest time that an acceptance is held back. */
const LONGEST_WAIT_MS = 500;
const COUNT_EVERY_MS = 1_000;
/** Maximum share of the time for counting: a million due steps take a tenth of a second. */
const SHARE = 0.05;

export function createAcceptanceLimits(services: LimitServices): AcceptanceLimits {
  const { clock } = services;
  const count = createCount(services);
  let isLate = false;
  let answeredAt = Number.NEGATIVE_INFINITY;
  const heldBack: { readonly steps: number; pass(): void }[] = [];
  /** Steps stored beyond what claims allow, because a run is stored whole. */
  let debt = 0;
  let timer: NodeJS.Timeout | undefined;

  const release = (mostSteps: number) => {
    debt -= mostSteps;
    while (debt < 0) {
      const first = heldBack.shift();
      if (first === undefined) break;
      debt += first.steps;
      first.pass();
    }
    debt = Math.max(0, debt);
    if (heldBack.length > 0) return;
    clearTimeout(timer);
    timer = undefined;
  };
  const end = () => {
    isLate = false;
    release(Number.POSITIVE_INFINITY);
  };
  return {
    start: count.start,
    admit({ delivery, run }) {
      if (delivery !== undefined && count.isBeyond()) throw new StoreUnavailableError('too many steps are due');
      if (!isLate) return undefined;
      timer ??= setTimeout(end, LONGEST_WAIT_MS).unref();
      return new Promise((resolve) => {
        // A run without steps ends at once, but still counts as an acceptance.
        heldBack.push({ steps: Math.max(1, run.steps.length), pass: resolve });
      });
    },
    claimed({ sentAt, taken, oldestDueAt }) {
      const isQuick = sentAt - answeredAt < QUICK_MS;
      answeredAt = clock.monotonic();
      isLate = isQuick && oldestDueAt !== null && clock.now() - oldestDueAt >= LATE_MS;
      if (isLate) release(Math.max(1, Math.floor(taken / 2)));
      else end();
    },
    end,
    async stop() {
      end();
      await count.stop();
    },
  };
}

/** Counts the due steps again and again, for the metrics and the limit. */
function createCount({ store, clock, logger, metrics, maxDueSteps = MAX_DUE_STEPS }: LimitServices) {
  let dueSteps = 0;
  let isActive = false;
  let timer: NodeJS.Timeout | undefined;
  let counting: Promise<void> | undefined;

  const measure = async () => {
    const now = clock.now();
    const wasBeyond = dueSteps > maxDueSteps;
    const backlog = await store.measureBacklog({ now, most: maxDueSteps + 1 });
    dueSteps = backlog.dueSteps;
    metrics.dueSteps.set(dueSteps);
    metrics.oldestDueStepSeconds.set(Math.max(0, now - (backlog.oldestDueAt ?? now)) / 1000);
    const isBeyond = dueSteps > maxDueSteps;
    if (isBeyond && !wasBeyond) logger.error({ maxDueSteps }, 'too many steps are due; deliveries get 503');
    if (wasBeyond && !isBeyond)
      logger.info({ dueSteps }, 'the backlog of due steps is below the limit again; deliveries are accepted');
  };
  const count = async () => {
    const startedAt = clock.monotonic();
    try {
      await measure();
    } catch (error) {
      logger.warn({ err: error }, 'due steps could not be counted; trying again');
    }
    if (isActive) countIn(Math.max(COUNT_EVERY_MS, (clock.monotonic() - startedAt) / SHARE));
  };
  const countIn = (ms: number) => {
    timer = setTimeout(() => {
      counting = count();
    }, ms).unref();
  };

  return {
    isBeyond: () => dueSteps > maxDueSteps,
    start() {
      isActive = true;
      counting = count();
    },
    async stop() {
      isActive = false;
      clearTimeout(timer);
      await counting;
    },
  };
}
