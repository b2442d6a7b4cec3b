import { parseJson } from '../../model/json.ts';
import type { RunStatus } from '../../model/manifest.ts';
import type { StepAddress, StepOutcome, StepResult, Store } from '../store.ts';
import type { Decision } from './decision.ts';
import type { FoundRun, RunRows, SignalRow, Wait } from './rows.ts';
import { statusOfStop, stopOf } from './stop.ts';

// A signal belongs to the step that took it. An attempt gets each signal at most once; an attempt that failed or was
// interrupted leaves its signals to the next.

export function readWait(text: string | null): Wait | null {
  return text === null ? null : (parseJson(text) as unknown as Wait);
}

/** The signal that ended the wait; null if its time was up instead. */
export function* findCame(
  rows: Pick<RunRows, 'findSignal'>,
  step: StepAddress,
  { name, used }: Wait,
): Decision<SignalRow | null> {
  return name === null ? null : ((yield* rows.findSignal(step, name, used)) ?? null);
}

/** The signals an attempt has gone on with once it knows how its wait ended. */
function* listUsed(rows: RunRows, step: StepAddress, wait: Wait | null): Decision<readonly number[]> {
  if (wait === null) return [];
  const came = yield* findCame(rows, step, wait);
  return came === null ? wait.used : [...wait.used, came.id];
}

type Waiting = Extract<StepResult, { kind: 'waiting' }> & { readonly attempt: number; readonly run: FoundRun };

/** Lets a step wait with its attempt open. If its signal was sent before, the step takes it at once and is due now. */
export function* waitStep(
  rows: RunRows,
  { runId, stepKey, at, input, inputsRevision }: StepOutcome,
  { attempt, state, dueAt, signalName, signalKey: key, limitAt, run: { flowId, startedAt } }: Waiting,
): Decision<void> {
  const step = { runId, stepKey };
  const last = readWait(yield* rows.findWait(runId, stepKey));
  const used = yield* listUsed(rows, step, last);
  const wait = JSON.stringify({ state, name: signalName, used } satisfies Wait);
  // The step's own signal from an earlier attempt, or else one that no step has taken yet.
  const isSent =
    signalName !== null &&
    ((yield* rows.findSignal(step, signalName, used)) !== undefined || (yield* rows.takeSignal(step, signalName)));
  const awaiting = { ...step, flowId, startedAt, input, at, isAnswered: isSent };
  const isKept =
    signalName !== null && key !== undefined && (yield* rows.awaitKey({ ...awaiting, key, name: signalName }));
  const due =
    isSent || isKept ? { dueAt: at, signalName: null, limitAt: null } : { dueAt, signalName, limitAt: limitAt ?? null };
  rows.keepWait({ ...step, attempt, input, inputsRevision: inputsRevision ?? null, wait, ...due });
}

type Signal = Parameters<Store['deliverSignal']>[0];

export function* deliverSignal(rows: RunRows, signal: Signal): Decision<Awaited<ReturnType<Store['deliverSignal']>>> {
  const { runId, name, at } = signal;
  const run = yield* rows.findRun(runId);
  if (run === undefined) return { kind: 'unknown' };
  const status = statusAt(run, at);
  if (status !== 'Running') return { kind: 'ended', status };
  const stepKey = (yield* rows.findWaiting(runId, name)) ?? null;
  if (stepKey === null && (yield* rows.hasSignal(runId, name))) return { kind: 'duplicate' };
  rows.insertSignal({ ...signal, stepKey });
  if (stepKey !== null) rows.wakeStep({ runId, stepKey }, at);
  return { kind: 'accepted', stepKey };
}

/** A run that was told to stop, or whose time is up, takes no signals: no step would go on with them. */
export function statusAt(run: FoundRun, at: number): RunStatus {
  const { status, timeoutAt } = run;
  if (status !== 'Running') return status;
  const stop = stopOf(run) ?? (timeoutAt !== null && timeoutAt <= at ? 'timedOut' : null);
  return stop === null ? 'Running' : statusOfStop(stop);
}
