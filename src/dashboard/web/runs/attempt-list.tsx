import type { Step } from '../api-types.ts';
import { counted } from '../format.ts';
import { JsonView } from '../kit/json-view.tsx';
import { StatusPill } from '../kit/pill.tsx';
import { Duration, Time } from '../kit/time.tsx';

/** The tries of a step, newest first; more than a screen of them folds up. */
const SHOWN = 20;

export function AttemptList({ attempts }: Pick<Step, 'attempts'>) {
  const newest = attempts.slice(-SHOWN).reverse();
  return (
    <>
      <h3>{counted(attempts.length, 'attempt')}</h3>
      <ol class="attempts">
        {newest.map(({ attempt, status, startedAt, completedAt, error, input, output }) => (
          <li key={attempt}>
            <details>
              <summary>
                <span class="attempt-number">{attempt}</span>
                <StatusPill status={status} />
                <span class="muted">
                  <Time at={startedAt} />, <Duration from={startedAt} to={completedAt} />
                </span>
                {error === null ? null : <span class="attempt-error break">{error.message}</span>}
              </summary>
              <JsonView value={{ input, output, error }} label={`Attempt ${attempt}`} />
            </details>
          </li>
        ))}
      </ol>
      {attempts.length > SHOWN ? (
        <p class="muted">{`${attempts.length - SHOWN} earlier ones are in the API’s answer.`}</p>
      ) : null}
    </>
  );
}
