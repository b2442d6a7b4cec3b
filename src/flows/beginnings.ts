import type { Logger } from 'pino';
import type { BegunAttempt, Store } from '../store/store.ts';

/** Writes the attempts of steps that run for more than 20 ms; all others are written with their outcomes. */
export interface Beginnings {
  /** A step began whose attempt has no row yet. */
  watch(attempt: BegunAttempt): void;
  /** The step no longer runs, or its outcome is being stored. */
  forget(attempt: BegunAttempt): void;
  /** Resolves when none of its work runs any more. */
  stop(): Promise<void>;
}

// Longer than almost all steps that wait for nothing, and short for a person who looks at a run. Written for every
// step, the row would cost a third of what a step costs the writer.
const LOOK_MS = 20;
/** Pause after the store failed. */
const RETRY_MS = 1_000;

export function createBeginnings({
  store,
  logger,
}: {
  store: Pick<Store, 'beginAttempts'>;
  logger: Logger;
}): Beginnings {
  /** Attempts since the last look, and from before it. */
  let recent = new Set<BegunAttempt>();
  let older = new Set<BegunAttempt>();
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> | undefined;
  let isActive = true;

  const lookIn = (ms: number) => {
    if (isActive) timer ??= setTimeout(look, ms).unref();
  };
  const look = () => {
    timer = undefined;
    const attempts = [...older];
    older = recent;
    recent = new Set();
    if (attempts.length > 0) writing = write(attempts);
    else if (older.size > 0) lookIn(LOOK_MS);
  };
  const write = async (attempts: readonly BegunAttempt[]) => {
    let waitMs = LOOK_MS;
    try {
      await store.beginAttempts({ attempts: attempts.map(toBegunAttempt) });
    } catch (error) {
      // Without the row, a death of the process in this attempt does not count; nothing else is lost.
      logger.warn({ err: error, steps: attempts.length }, 'running steps could not be marked as begun; trying again');
      for (const attempt of attempts) older.add(attempt);
      waitMs = RETRY_MS;
    }
    writing = undefined;
    if (older.size + recent.size > 0) lookIn(waitMs);
  };

  return {
    watch(attempt) {
      recent.add(attempt);
      if (writing === undefined) lookIn(LOOK_MS);
    },
    forget(attempt) {
      if (!recent.delete(attempt)) older.delete(attempt);
    },
    async stop() {
      isActive = false;
      clearTimeout(timer);
      await writing;
    },
  };
}

/** The part of a claim that the store needs: a claim can contain a loop item of any size. */
export function toBegunAttempt({ token, dueAt, startedAt }: BegunAttempt): BegunAttempt {
  return { token, dueAt, startedAt };
}
