import type { Step } from '../api-types.ts';
import { counted, duration } from '../format.ts';
import { JsonView } from '../kit/json-view.tsx';
import { StatusPill } from '../kit/pill.tsx';
import { Duration, Time } from '../kit/time.tsx';
import { SHOWN_SLOT_WAIT_MS } from './gantt-bars.ts';
import { StepValue } from './step-value.tsx';

/** The tries of a step, newest first; more than a screen of them folds up. */
const SHOWN = 20;

interface AttemptListProps extends Pick<Step, 'attempts'> {
  /** Of the step in the API. */
  readonly path: string;
  /** With those that the API leaves out. */
  readonly total: number;
}

export function AttemptList({ attempts, path, total }: AttemptListProps) {
  const newest = attempts.slice(-SHOWN).reverse();
  return (
    <>
      <h3>{counted(total, 'attempt')}</h3>
      <ol class="attempts">
        {newest.map(({ attempt, status, slotWaitMs, startedAt, completedAt, error, input, output, truncated }) => (
          <li key={attempt}>
            <details>
              <summary>
                <span class="attempt-number">{attempt}</span>
                <StatusPill status={status} />
                <span class="muted">
                  <Time at={startedAt} />, <Duration from={startedAt} to={completedAt} />
                  {(slotWaitMs ?? 0) < SHOWN_SLOT_WAIT_MS ? null : `, waited for a slot ${duration(slotWaitMs ?? 0)}`}
                </span>
                {error === null ? null : <span class="attempt-error break">{error.message}</span>}
              </summary>
              {truncated ? (
                (['input', 'output'] as const).map((name) => (
                  <StepValue
                    key={name}
                    value={name === 'input' ? input : output}
                    isCut
                    label={`Attempt ${attempt}, ${name}`}
                    whole={`${path}/${name}?attempt=${attempt}`}
                  />
                ))
              ) : (
                <JsonView value={{ input, output, error }} label={`Attempt ${attempt}`} />
              )}
            </details>
          </li>
        ))}
      </ol>
      {total > newest.length ? <p class="muted">{`${total - newest.length} earlier ones are not shown.`}</p> : null}
    </>
  );
}
