import type { Logger } from 'pino';
import { levelOfRetry } from '../errors.ts';
import type { Clock } from '../model/clock.ts';
import type { Store } from '../store/store.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Intake } from './engine.ts';

/** Watches the steps that are due and wait, and has deliveries refused while there are too many. */
export interface Backlog {
  start(): void;
  /** Resolves when nothing of it runs any more. */
  stop(): Promise<void>;
}

interface BacklogServices {
  readonly store: Pick<Store, 'measureBacklog'>;
  readonly intake: Pick<Intake, 'setFull'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'dueSteps' | 'oldestDueStepSeconds'>;
  /** Due steps beyond which no delivery is accepted. */
  readonly maxDueSteps: number;
}

const LOOK_MS = 1_000;
/** Counting a million due steps takes a tenth of a second: this share of the time at most is spent on it. */
const SHARE = 0.05;

export function createBacklog({ store, intake, clock, logger, metrics, maxDueSteps }: BacklogServices): Backlog {
  let dueSteps = 0;
  let isActive = false;
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> | undefined;

  const measure = async () => {
    const now = clock.now();
    const wasFull = dueSteps > maxDueSteps;
    const backlog = await store.measureBacklog({ now, most: maxDueSteps + 1 });
    dueSteps = backlog.dueSteps;
    metrics.dueSteps.set(dueSteps);
    metrics.oldestDueStepSeconds.set(Math.max(0, now - (backlog.oldestDueAt ?? now)) / 1000);
    const isFull = dueSteps > maxDueSteps;
    intake.setFull(isFull);
    if (isFull && !wasFull) logger.error({ maxDueSteps }, 'too many steps are due; deliveries get 503');
    if (wasFull && !isFull)
      logger.info({ dueSteps }, 'the backlog of due steps is below the limit again; deliveries are accepted');
  };
  const look = async () => {
    const startedAt = clock.monotonic();
    try {
      await measure();
    } catch (error) {
      logger[levelOfRetry(error, 'warn')]({ err: error }, 'due steps could not be counted; trying again');
    }
    if (isActive) lookIn(Math.max(LOOK_MS, (clock.monotonic() - startedAt) / SHARE));
  };
  const lookIn = (ms: number) => {
    timer = setTimeout(() => {
      looking = look();
    }, ms).unref();
  };

  return {
    start() {
      isActive = true;
      looking = look();
    },
    async stop() {
      isActive = false;
      clearTimeout(timer);
      await looking;
    },
  };
}
