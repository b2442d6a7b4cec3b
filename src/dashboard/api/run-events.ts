import { z } from 'zod';
import type { RunDetail, SignalRecord, StepOutline } from '../../store/store.ts';
import { id, integer, isoTime, time } from './formats.ts';

export const runEventSchema = z
  .object({
    sequence: integer(),
    runId: id(),
    timestamp: time(),
    type: z.string(),
    stepKey: z.string().nullable(),
    message: z.string(),
  })
  .meta({ id: 'RunEvent' });

interface Happened {
  readonly at: number;
  /** Among what happened in the same millisecond. */
  readonly rank: number;
  readonly type: string;
  readonly stepKey: string | null;
  readonly message: string;
}

/** What happened to a run, oldest first: read from its rows, so that it can say nothing that they do not. */
export function runEvents(
  run: RunDetail,
  steps: readonly StepOutline[],
  signals: readonly SignalRecord[],
): z.output<typeof runEventSchema>[] {
  const happened: Happened[] = [
    { at: run.startedAt, rank: 0, type: 'run.started', stepKey: null, message: `Started by ${run.triggerKey}` },
    ...steps.flatMap(stepEvents),
    ...signals.map(signalEvent),
    ...stopEvents(run),
  ];
  if (run.completedAt !== null) {
    const message = `Ended as ${run.status}`;
    happened.push({ at: run.completedAt, rank: 9, type: 'run.completed', stepKey: null, message });
  }
  return happened
    .sort((a, b) => a.at - b.at || a.rank - b.rank)
    .map(({ at, type, stepKey, message }, index) => ({
      sequence: index + 1,
      runId: run.id,
      timestamp: isoTime(at),
      type,
      stepKey,
      message,
    }));
}

/** Steps of one millisecond stand in the order of their attempts, an end before what it led to. */
function stepEvents({ stepKey, status, skipReason, completedAt, attempts }: StepOutline): Happened[] {
  const events = attempts.flatMap((attempt): Happened[] => {
    const about = { stepKey, message: `Attempt ${attempt.attempt}` };
    const started = { ...about, at: attempt.startedAt, rank: 3, type: 'step.started' };
    if (attempt.completedAt === null) return [started];
    const isLast = attempt === attempts.at(-1);
    const isRetried = attempt.status === 'Failed' && !(isLast && status === 'Failed');
    const message = attempt.error === null ? about.message : `${about.message}: ${attempt.error.message}`;
    const type = isRetried ? 'step.retried' : attempt.status === 'Failed' ? 'step.failed' : 'step.completed';
    return [started, { at: attempt.completedAt, rank: 4, type, stepKey, message }];
  });
  if (status !== 'Skipped' || completedAt === null) return events;
  return [...events, { at: completedAt, rank: 5, type: 'step.skipped', stepKey, message: skipReason ?? 'Skipped' }];
}

function signalEvent({ name, deliveredAt, stepKey }: SignalRecord): Happened {
  return { at: deliveredAt, rank: 2, type: 'signal.received', stepKey, message: `Signal ${name}` };
}

function stopEvents({ cancelRequestedAt, cancelReason, timedOutAt }: RunDetail): Happened[] {
  const events: Happened[] = [];
  if (cancelRequestedAt !== null) {
    const message = cancelReason ?? 'Cancelled without a reason';
    events.push({ at: cancelRequestedAt, rank: 1, type: 'run.cancelRequested', stepKey: null, message });
  }
  if (timedOutAt !== null) {
    events.push({ at: timedOutAt, rank: 1, type: 'run.timedOut', stepKey: null, message: 'The time was up' });
  }
  return events;
}
