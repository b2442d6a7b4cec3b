import { useEffect, useRef } from 'preact/hooks';
import { withQuery } from '../api.ts';
import type { Iterations, RunOutline, Step, StepOutline, StepStatus } from '../api-types.ts';
import { graphStepAt } from '../graph/graph.ts';
import { iterationOf, pathOf, scopeOf } from '../graph/step-paths.ts';
import { Icon } from '../kit/icon.tsx';
import { Loaded } from '../kit/page.tsx';
import { Pill } from '../kit/pill.tsx';
import { Duration, Time } from '../kit/time.tsx';
import { AttemptList } from './attempt-list.tsx';
import { ConditionList } from './condition-list.tsx';
import { entriesOf, explain } from './explain.ts';
import { IterationSteps } from './iteration-steps.tsx';
import { RetryButton } from './retry-button.tsx';
import { SignalButton } from './signal-button.tsx';
import { lookOf } from './state-look.ts';
import { type StepState, stepState } from './step-state.ts';
import { StepValue } from './step-value.tsx';
import { useRunPart } from './use-run.ts';

interface StepPanelProps {
  readonly stepKey: string;
  readonly outline: RunOutline;
  readonly onSelect: (stepKey: string | undefined) => void;
  readonly refresh: () => void;
}

const NARROW = '(max-width: 1000px)';

/** One step of a run: where it stands and why, its values and attempts. */
export function StepPanel({ stepKey, outline, onSelect, refresh }: StepPanelProps) {
  const { run } = outline;
  const panel = useRef<HTMLElement>(null);
  const step = useRunPart<Step>(`/runs/${run.id}/steps/${encodeURIComponent(stepKey)}`, outline);
  const siblings = useSiblings(stepKey, outline);
  const own = siblings.find((each) => each.stepKey === stepKey);
  useEffect(() => {
    // On a narrow screen the panel stands below the view, where nobody would look for it.
    if (matchMedia(NARROW).matches) panel.current?.scrollIntoView({ block: 'start', behavior: 'smooth' });
  }, []);
  return (
    <aside class="panel step-panel" ref={panel} aria-label={`Step ${stepKey}`}>
      <header>
        <h2 class="break">{stepKey}</h2>
        <div class="aside">
          <span>{step.data?.stepType ?? ''}</span>
          <button type="button" class="icon-button" onClick={() => onSelect(undefined)}>
            <Icon name="cross" />
            <span class="unseen">Close</span>
          </button>
        </div>
      </header>
      <div class="panel-body stack">
        {iterationOf(stepKey) === null ? null : <IterationSteps {...{ stepKey, outline, onSelect }} />}
        <Loaded of={step} lines={6}>
          {(loaded) => (
            <StepContent
              step={{ ...loaded, signalName: own?.signalName ?? null }}
              {...{ siblings, outline, onSelect, refresh }}
            />
          )}
        </Loaded>
      </div>
    </aside>
  );
}

/** The steps that its edges lead from: those of its iteration, or those outside of loops. */
function useSiblings(stepKey: string, outline: RunOutline): readonly StepOutline[] {
  const iteration = iterationOf(stepKey);
  const path =
    iteration === null
      ? null
      : withQuery(`/runs/${outline.run.id}/iterations`, { loop: iteration.loopKey, skip: iteration.index, take: 1 });
  const { data } = useRunPart<Iterations>(path, outline);
  return iteration === null ? outline.steps : (data?.items[0]?.steps ?? []);
}

interface StepContentProps extends Omit<StepPanelProps, 'stepKey'> {
  readonly step: Step & { readonly signalName: string | null };
  readonly siblings: readonly StepOutline[];
}

function StepContent({ step, siblings, outline, onSelect, refresh }: StepContentProps) {
  const { run } = outline;
  const state = stepState(step);
  const look = lookOf(state);
  const hasInput = step.input !== null;
  const isCut = step.truncated === true;
  const path = `/runs/${run.id}/steps/${encodeURIComponent(step.stepKey)}`;
  return (
    <>
      <div class="step-state">
        <Pill tone={look.tone} icon={look.icon}>
          {look.text}
        </Pill>
        <StateDetail state={state} />
        {state.kind === 'signal' && run.status === 'Running' ? (
          <SignalButton {...{ outline, refresh }} stepKey={step.stepKey} name={state.name} />
        ) : null}
        {step.status === 'Failed' ? <RetryButton run={run} stepKey={step.stepKey} refresh={refresh} /> : null}
      </div>
      {step.error === null ? null : (
        <div class="step-error break">
          <p>{step.error.message}</p>
          <p class="muted">
            <code>{step.error.code}</code>
            {step.error.retryable ? ', another attempt could end differently' : ', another attempt would end the same'}
          </p>
        </div>
      )}
      <Why {...{ step, siblings, outline, onSelect }} />
      {step.startedAt === null ? null : (
        <dl class="facts">
          <div>
            <dt>Started</dt>
            <dd>
              <Time at={step.startedAt} />
            </dd>
          </div>
          <div>
            <dt>{step.completedAt === null ? 'For' : 'Took'}</dt>
            <dd>
              <Duration from={step.startedAt} to={step.completedAt ?? run.completedAt} />
            </dd>
          </div>
        </dl>
      )}
      {step.status === 'Skipped' ? null : <ConditionList entries={entriesOf(step.evaluationTrace)} />}
      {hasInput ? (
        <>
          <h3>Input, secrets masked</h3>
          <StepValue value={step.input} isCut={isCut} label="Input" whole={`${path}/input`} />
        </>
      ) : null}
      {step.status === 'Succeeded' ? (
        <>
          <h3>Output</h3>
          {step.output === null ? (
            <p class="muted">None.</p>
          ) : (
            <StepValue value={step.output} isCut={isCut} label="Output" whole={`${path}/output`} />
          )}
        </>
      ) : null}
      {step.attempts.length === 0 ? null : (
        <AttemptList path={path} attempts={step.attempts} total={step.attemptCount} />
      )}
    </>
  );
}

function StateDetail({ state }: { state: StepState }) {
  switch (state.kind) {
    case 'signal':
      return (
        <span>
          {`for the signal “${state.name}”`}
          {state.until === null ? null : (
            <>
              , gives up <Time at={state.until} />
            </>
          )}
        </span>
      );
    case 'retry':
      return (
        <span>
          {`attempt ${state.attempt} `}
          <Time at={state.at} />
        </span>
      );
    case 'wait':
      return (
        <span>
          looks again <Time at={state.until} />
        </span>
      );
    default:
      return null;
  }
}

type WhyProps = Pick<StepContentProps, 'step' | 'siblings' | 'outline' | 'onSelect'>;

function Why({ step, siblings, outline, onSelect }: WhyProps) {
  const definition = graphStepAt(outline.graph, pathOf(step.stepKey));
  if (definition === undefined || (step.status === 'Pending' && step.attemptCount > 0)) return null;
  const scope = scopeOf(step.stepKey);
  const byKey = new Map(siblings.map(({ stepKey, status }) => [stepKey, status]));
  const statusOf = (key: string): StepStatus | undefined => byKey.get(scope + key);
  const reasons = explain(step, definition, statusOf);
  if (reasons.length === 0) return null;
  return (
    <section class="why">
      <h3>{step.status === 'Skipped' ? 'Why it was skipped' : 'Why it has not started'}</h3>
      <ul>
        {reasons.map(({ text, upstream, condition }) => (
          <li key={text}>
            {text}{' '}
            {upstream === null ? null : (
              <button type="button" class="link" onClick={() => onSelect(scope + upstream)}>
                {`Show ${upstream}`}
              </button>
            )}
            {condition === undefined ? null : (
              <ConditionList entries={[{ ...condition, after: upstream ?? '', result: false, error: null }]} isBare />
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
