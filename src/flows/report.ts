import type { Logger } from 'pino';
import type { StepStatus } from '../model/manifest.ts';
import type { Run } from '../model/run.ts';
import type { Advance, Claim, NewRun, StepResult } from '../store/store.ts';
import { logEvent } from '../telemetry/events.ts';
import type { Metrics } from '../telemetry/metrics.ts';

/** Tells the log and the metrics what happened to runs and steps: each event is emitted here and nowhere else. */
export interface Report {
  runStarted(run: NewRun): void;
  triggerDisabled(flowId: string, triggerKey: string): void;
  /** A claimed step is looked at: conditions first, so that it may yet be skipped. */
  stepTaken(claim: Claim): void;
  stepStarted(claim: Claim): void;
  stepEnded(ended: EndedAttempt): void;
  /** Whatever became of it, the step runs no more. */
  stepLeft(): void;
}

export interface EndedAttempt {
  readonly claim: Claim;
  readonly result: StepResult;
  readonly advance: Advance;
  readonly durationMs: number;
}

export function createReport({ logger, metrics }: { logger: Logger; metrics: Metrics }): Report {
  const runEnded = (run: Pick<Run, 'id' | 'flowId' | 'status' | 'startedAt'>, completedAt: number) => {
    const durationMs = completedAt - run.startedAt;
    logEvent(logger, 'RunCompleted', { runId: run.id, flowId: run.flowId, status: run.status, durationMs });
    metrics.runsCompleted.inc({ flow: run.flowId, status: run.status });
    metrics.runDurationMs.observe({ flow: run.flowId, status: run.status }, durationMs);
  };
  const stepFailed = (about: { runId: string; stepKey: string }, result: FailedResult) => {
    const { error } = result;
    if (error.code === 'when_failed') {
      logEvent(logger, 'WhenEvaluationFailed', { ...about, reason: error.message });
    }
    logEvent(logger, 'StepFailed', { ...about, error, ...retryTime(result) });
  };
  return {
    runStarted(run) {
      const { id: runId, flowId, flowName, revision, triggerKey, triggerType, deliveryId } = run;
      logEvent(logger, 'RunStarted', { runId, flowId, flowName, revision, triggerKey, triggerType, deliveryId });
      metrics.runsStarted.inc({ flow: flowId, trigger: triggerType });
      for (const { stepKey, stepType } of run.steps) logEvent(logger, 'DispatchEnqueued', { runId, stepKey, stepType });
      if (run.completedAt !== null) runEnded(run, run.completedAt);
    },
    triggerDisabled(flowId, triggerKey) {
      logEvent(logger, 'TriggerRejectedDisabledFlow', { flowId, triggerKey });
    },
    stepStarted({ runId, flowId, stepKey, stepType, attempt }) {
      logEvent(logger, 'StepStarted', { runId, flowId, stepKey, stepType, attempt });
    },
    stepTaken({ dueAt, startedAt }) {
      metrics.stepsInFlight.inc();
      metrics.queueWaitMs.observe(Math.max(0, startedAt - dueAt));
    },
    stepLeft() {
      metrics.stepsInFlight.dec();
    },
    stepEnded({ claim, result, advance, durationMs }) {
      const { runId, flowId, stepKey, stepType, attempt } = claim;
      const about = { runId, flowId, stepKey, stepType, attempt, durationMs };
      if (result.kind === 'succeeded') logEvent(logger, 'StepCompleted', about);
      else if (result.kind === 'skipped')
        logEvent(logger, 'StepSkipped', { runId, flowId, stepKey, reason: result.reason });
      else stepFailed(about, result);
      for (const skipped of advance.skipped) logEvent(logger, 'StepSkipped', { runId, flowId, ...skipped });
      for (const next of advance.dispatched) logEvent(logger, 'DispatchEnqueued', { runId, flowId, stepKey: next });
      metrics.stepsCompleted.inc({ type: stepType, status: statusOf(result) });
      if (result.kind !== 'skipped') metrics.stepDurationMs.observe({ type: stepType }, durationMs);
      const ended = advance.endedRun;
      if (ended !== null) runEnded({ ...ended, id: runId, status: advance.runStatus }, ended.completedAt);
    },
  };
}

type FailedResult = Extract<StepResult, { error: unknown }>;

function statusOf({ kind }: StepResult): StepStatus {
  if (kind === 'succeeded') return 'Succeeded';
  return kind === 'skipped' ? 'Skipped' : 'Failed';
}

function retryTime(result: StepResult): { nextAttemptAt?: string } {
  return result.kind === 'retry' ? { nextAttemptAt: new Date(result.dueAt).toISOString() } : {};
}
