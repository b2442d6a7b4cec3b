import type { Logger } from 'pino';
import { LOOP, type RunStatus, type StepStatus } from '../model/manifest.ts';
import type { Run } from '../model/run.ts';
import type { Advance, Claim, EndedLoop, FailureStart, StartedRun, StepResult, StoppedRun } from '../store/store.ts';
import { type LiveEvent, type LiveEvents, logEvent } from '../telemetry/events.ts';
import type { Metrics } from '../telemetry/metrics.ts';

/** Reports events of runs and steps to the log and the metrics. Each event is emitted only here. */
export interface Report {
  runStarted(run: StartedRun): void;
  /** A run was stopped; it ended with this status if none of its steps ran. */
  runStopped(run: StoppedRun, status: RunStatus): void;
  triggerDisabled(flowId: string, triggerKey: string): void;
  /** A claimed step is about to be examined: its conditions come first, so it can still be skipped. */
  stepTaken(claim: Claim): void;
  stepStarted(claim: Claim): void;
  stepEnded(ended: EndedAttempt): void;
  /** The step no longer runs, whatever the outcome. */
  stepLeft(): void;
}

interface EndedAttempt {
  readonly claim: Claim;
  readonly result: StepResult;
  readonly advance: Advance;
  readonly durationMs: number;
}

interface ReportServices {
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** If absent, events are dropped. */
  readonly live?: Pick<LiveEvents, 'emit' | 'isHeard'> | undefined;
}

export function createReport({ logger, metrics, live }: ReportServices): Report {
  const tell = (type: LiveEvent['type'], runId: string, data: LiveEvent['data'] & { readonly flowId: string }) => {
    if (live?.isHeard === true) live.emit({ type, runId, flowId: data.flowId, data: { runId, ...data } });
  };
  const runEnded = (run: Pick<Run, 'id' | 'flowId' | 'status' | 'startedAt'>, completedAt: number) => {
    // The clock may have been set back meanwhile.
    const durationMs = Math.max(0, completedAt - run.startedAt);
    logEvent(logger, 'RunCompleted', { runId: run.id, flowId: run.flowId, status: run.status, durationMs });
    tell('run.completed', run.id, { flowId: run.flowId, status: run.status, durationMs });
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
  const loopEnded = (about: { runId: string; flowId: string; stepKey: string }, { status, error }: EndedLoop) => {
    const stepType = LOOP;
    if (status === 'Succeeded') logEvent(logger, 'StepCompleted', { ...about, stepType });
    else logEvent(logger, 'StepFailed', { ...about, stepType, error });
    tell('step.completed', about.runId, { flowId: about.flowId, stepKey: about.stepKey, stepType, status });
    metrics.stepsCompleted.inc({ type: stepType, status });
  };
  const runStarted = (run: StartedRun) => {
    const { id: runId, flowId, flowName, revision, triggerKey, triggerType, deliveryId } = run;
    logEvent(logger, 'RunStarted', { runId, flowId, flowName, revision, triggerKey, triggerType, deliveryId });
    tell('run.started', runId, { flowId, flowName, revision, triggerKey, triggerType, deliveryId });
    metrics.runsStarted.inc({ flow: flowId, trigger: triggerType });
    for (const { stepKey, stepType } of run.steps) logEvent(logger, 'DispatchEnqueued', { runId, stepKey, stepType });
    if (run.completedAt !== null) runEnded(run, run.completedAt);
  };
  const failureStarted = (runId: string, failure: FailureStart | undefined) => {
    if (failure?.kind === 'started') runStarted(failure.run);
    else if (failure !== undefined) {
      logEvent(logger, 'FailureFlowNotStarted', { runId, failureFlowId: failure.flowId, why: failure.why });
    }
  };
  return {
    runStarted,
    runStopped({ runId, flowId, startedAt, completedAt, failure }, status) {
      if (completedAt !== null) runEnded({ id: runId, flowId, status, startedAt }, completedAt);
      failureStarted(runId, failure);
    },
    triggerDisabled(flowId, triggerKey) {
      logEvent(logger, 'TriggerRejectedDisabledFlow', { flowId, triggerKey });
    },
    stepStarted({ runId, flowId, stepKey, stepType, attempt }) {
      logEvent(logger, 'StepStarted', { runId, flowId, stepKey, stepType, attempt });
      tell('step.started', runId, { flowId, stepKey, stepType, attempt });
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
      const status = statusOf(result);
      const about = { runId, flowId, stepKey, stepType, attempt, durationMs };
      if (result.kind === 'succeeded') logEvent(logger, 'StepCompleted', about);
      else if (result.kind === 'skipped')
        logEvent(logger, 'StepSkipped', { runId, flowId, stepKey, reason: result.reason });
      else if ('error' in result) stepFailed(about, result);
      const type = result.kind === 'retry' ? 'step.retried' : 'step.completed';
      if (status !== undefined) tell(type, runId, { flowId, stepKey, stepType, attempt, status });
      for (const loop of advance.loops) loopEnded({ runId, flowId, stepKey: loop.stepKey }, loop);
      for (const skipped of advance.skipped) {
        logEvent(logger, 'StepSkipped', { runId, flowId, ...skipped });
        tell('step.completed', runId, { flowId, stepKey: skipped.stepKey, status: 'Skipped' });
      }
      for (const next of advance.dispatched) logEvent(logger, 'DispatchEnqueued', { runId, flowId, stepKey: next });
      if (status !== undefined) metrics.stepsCompleted.inc({ type: stepType, status });
      if (status === 'Succeeded' || status === 'Failed') metrics.stepDurationMs.observe({ type: stepType }, durationMs);
      const ended = advance.endedRun;
      if (ended !== null) runEnded({ ...ended, id: runId, status: advance.runStatus }, ended.completedAt);
      failureStarted(runId, advance.failure);
      if (advance.subRun?.run) runStarted(advance.subRun.run);
    },
  };
}

type FailedResult = Extract<StepResult, { error: unknown }>;

/** Undefined while the attempt continues: it waits, or its children run. */
function statusOf(result: StepResult): StepStatus | undefined {
  if (result.kind === 'succeeded') return 'Succeeded';
  if (result.kind === 'skipped') return 'Skipped';
  return 'error' in result ? 'Failed' : undefined;
}

function retryTime(result: StepResult): { nextAttemptAt?: string } {
  return result.kind === 'retry' ? { nextAttemptAt: new Date(result.dueAt).toISOString() } : {};
}
