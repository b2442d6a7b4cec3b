import type { RunOutline, StepOutline } from '../api-types.ts';
import { count, counted } from '../format.ts';
import { Icon } from '../kit/icon.tsx';
import { Time } from '../kit/time.tsx';
import { RetryButton } from './retry-button.tsx';
import { SignalButton } from './signal-button.tsx';

/** Failures that only say that the run was stopped, which the run itself says better. */
const STOPS: ReadonlySet<string> = new Set(['cancelled', 'run_timed_out']);

interface NoticesProps {
  readonly outline: RunOutline;
  readonly refresh: () => void;
  readonly onSelect: (stepKey: string) => void;
}

/** What a run waits for or broke on, and what to do about it, before anything else. */
export function RunNotices({ outline, refresh, onSelect }: NoticesProps) {
  const { run, control, steps, loops } = outline;
  const waiting = run.status === 'Running' ? steps.filter(({ signalName }) => signalName !== null) : [];
  const failed = steps.filter(({ status, error }) => status === 'Failed' && !STOPS.has(error?.code ?? ''));
  // A failed step of a run that succeeded is one that somebody had foreseen.
  const isHandled = run.status === 'Succeeded';
  return (
    <div class="run-notices">
      {control.cancelRequested ? (
        <div class="notice warn">
          <Icon name="stop" />
          <span>
            {run.status === 'Running' ? 'Cancelling' : 'Cancelled'} <Time at={control.cancelRequestedAt} />
            {control.cancelReason === null ? '' : `: ${control.cancelReason}`}
          </span>
        </div>
      ) : null}
      {control.timedOutAt === null ? null : (
        <div class="notice bad">
          <Icon name="clock" />
          <span>
            The time limit of the run was reached <Time at={control.timedOutAt} />; what ran or waited then was ended.
          </span>
        </div>
      )}
      <LoopNotices outline={outline} />
      {waiting.map((step) => (
        <WaitNotice key={step.stepKey} step={step} outline={outline} refresh={refresh} />
      ))}
      {failed.map(({ stepKey, error, attempts }) => (
        <div key={stepKey} class={`notice ${isHandled ? 'warn' : 'bad'}`}>
          <Icon name="warn" />
          <span class="break">
            <button type="button" class="link" onClick={() => onSelect(stepKey)}>
              {stepKey}
            </button>{' '}
            {`failed ${failureText(stepKey, attempts.length, loops)}`}
            {error === null ? null : `: ${error.message}`}
            {isHandled ? '. A later step dealt with it.' : ''}
          </span>
          <RetryButton run={run} stepKey={stepKey} refresh={refresh} />
        </div>
      ))}
    </div>
  );
}

function failureText(stepKey: string, attempts: number, loops: RunOutline['loops']): string {
  const loop = loops.find((each) => each.stepKey === stepKey);
  if (loop !== undefined) return `in ${loop.failed} of ${counted(loop.total, 'iteration')}`;
  return `after ${counted(attempts, 'attempt')}`;
}

function WaitNotice({ step, outline, refresh }: { step: StepOutline; outline: RunOutline; refresh: () => void }) {
  const { stepKey, signalName, dueAt } = step;
  return (
    <div class="notice warn">
      <Icon name="pause" />
      <span>
        <strong>{stepKey}</strong>
        {` waits for the signal “${signalName}”`}
        {dueAt === null ? null : (
          <>
            {'; it gives up '}
            <Time at={dueAt} />
          </>
        )}
      </span>
      <SignalButton {...{ outline, stepKey, refresh }} name={signalName ?? ''} />
    </div>
  );
}

/** How far the loops of a run have come while it runs. */
function LoopNotices({ outline: { run, loops } }: { outline: RunOutline }) {
  const open =
    run.status === 'Running'
      ? loops.filter(({ ended, total, stepKey }) => ended < total && !stepKey.includes('.'))
      : [];
  return (
    <>
      {open.map(({ stepKey, ended, total }) => (
        <label key={stepKey} class="notice busy loop-progress">
          <span>
            <strong>{stepKey}</strong>
            {` has ended ${count(ended)} of ${counted(total, 'iteration')}`}
          </span>
          <progress value={ended} max={total} />
        </label>
      ))}
    </>
  );
}
