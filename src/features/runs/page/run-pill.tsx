import type { Api } from '../../../dashboard/web/api-types.ts';
import { format } from '../../../dashboard/web/format.ts';
import { Pill } from '../../../dashboard/web/kit/pill.tsx';
import { Time } from '../../../dashboard/web/kit/time.tsx';
import { runLook, WAITS } from './looks.ts';

/** The status of a run; one in flight may be waiting. */
export function RunPill({ run }: { run: Parameters<typeof runLook>[0] }) {
  const { text, ...look } = runLook(run);
  return <Pill {...look}>{text}</Pill>;
}

/** What a run waits for and until when, or the step by which it failed or that it survived. */
export function RunWhy({ run: { waitingFor, failure } }: { run: Pick<Api['Run'], 'waitingFor' | 'failure'> }) {
  if (failure !== null) {
    return (
      <span class={`why-text ${failure.handled ? '' : 'bad'}`} title={`${failure.message}\n${failure.code}`}>
        {failure.handled ? 'Got over ' : null}
        {failure.message} (<b>{failure.stepKey}</b>)
      </span>
    );
  }
  const [first, ...others] = waitingFor;
  if (first === undefined) return null;
  return (
    <span class="why-text">
      <WaitText wait={first} />
      {others.map((wait) => (
        <span key={wait.for}>
          {'; '}
          <WaitText wait={wait} />
        </span>
      ))}
    </span>
  );
}

export function WaitText({ wait }: { wait: Api['Run']['waitingFor'][number] }) {
  const { stepKey, signalName, host, runId, until, why, steps } = wait;
  const { does, next } = WAITS[wait.for];
  return (
    <>
      {stepKey === null ? 'The run' : <b>{stepKey}</b>} {does}
      {signalName === null ? null : ` “${signalName}”`}
      {host === null ? null : ` ${host}`}
      {runId === null ? null : (
        <>
          {' '}
          <a href={`/flows/runs/${runId}`}>
            <code>{format.shortId(runId)}</code>
          </a>
        </>
      )}
      {until === null ? null : (
        <>
          {why === null ? `, ${next} ` : ', which is tried again '}
          <Time at={until} />
        </>
      )}
      {why === null ? null : `: ${why}`}
      {steps === 1 ? null : <span class="muted">{` (and ${steps - 1}${steps === 100 ? '+' : ''} more)`}</span>}
    </>
  );
}
