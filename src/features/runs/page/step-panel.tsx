import { useEffect, useRef } from 'preact/hooks';
import type { Api } from '../../../dashboard/web/api-types.ts';
import { format } from '../../../dashboard/web/format.ts';
import { JsonView } from '../../../dashboard/web/kit/json-view.tsx';
import { Loaded } from '../../../dashboard/web/kit/page.tsx';
import { Icon, Pill, StatusPill } from '../../../dashboard/web/kit/pill.tsx';
import { Duration, Time } from '../../../dashboard/web/kit/time.tsx';
import { entriesOf, explain, lastPollText, retryAdvice } from './explain.ts';
import { SHOWN_SLOT_WAIT_MS } from './gantt-bars.ts';
import { graphStepAt } from './graph.ts';
import { RetryButton, SignalButton } from './run-actions.tsx';
import { stepKeys } from './step-paths.ts';
import { lookOf, stepState } from './step-state.ts';
import { useRunPart, useSiblings } from './use-run.ts';

interface StepPanelProps {
  readonly stepKey: string;
  readonly outline: Api['RunOutline'];
  readonly onSelect: (stepKey: string | undefined) => void;
  readonly refresh: () => void;
  /** Whether a person opened it. */
  readonly isAsked: boolean;
}

const NARROW = '(max-width: 1000px)';

/** One step of a run: its state and the reason, its values and attempts. */
export function StepPanel({ stepKey, outline, onSelect, refresh, isAsked }: StepPanelProps) {
  const { run } = outline;
  const panel = useRef<HTMLElement>(null);
  const step = useRunPart<Api['Step']>(`/runs/${run.id}/steps/${encodeURIComponent(stepKey)}`, outline);
  const siblings = useSiblings(stepKey, outline);
  const own = siblings.find((each) => each.stepKey === stepKey);
  useEffect(() => {
    // On a narrow screen the panel is below the view, out of sight.
    if (isAsked && matchMedia(NARROW).matches) panel.current?.scrollIntoView({ block: 'start', behavior: 'smooth' });
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
        {stepKeys.iterationOf(stepKey) === null ? null : (
          <IterationSteps stepKey={stepKey} outline={outline} onSelect={onSelect} />
        )}
        <Loaded of={step} lines={6}>
          {(loaded) => (
            <StepContent
              step={{
                ...loaded,
                signalName: own?.signalName ?? null,
                lastPoll: own?.lastPoll ?? null,
                subRunId: own?.subRunId ?? null,
              }}
              siblings={siblings}
              outline={outline}
              onSelect={onSelect}
              refresh={refresh}
            />
          )}
        </Loaded>
      </div>
    </aside>
  );
}

interface StepContentProps extends Omit<StepPanelProps, 'stepKey' | 'isAsked'> {
  readonly step: Api['Step'] & Pick<Api['StepOutline'], 'signalName' | 'lastPoll' | 'subRunId'>;
  readonly siblings: readonly Api['StepOutline'][];
}

function StepContent({ step, siblings, outline, onSelect, refresh }: StepContentProps) {
  const { run } = outline;
  const state = stepState(step);
  const look = lookOf(state);
  const hasInput = step.input !== null;
  const isCut = step.truncated === true;
  const loop = outline.loops.find(({ stepKey }) => stepKey === step.stepKey);
  const path = `/runs/${run.id}/steps/${encodeURIComponent(step.stepKey)}`;
  return (
    <>
      <div class="step-state">
        <Pill tone={look.tone} icon={look.icon}>
          {look.text}
        </Pill>
        <StateDetail state={state} />
        {step.lastPoll === null ? null : <span class="break">{lastPollText(step.lastPoll)}</span>}
        {step.subRunId === null ? null : (
          <span>
            {step.status === 'Pending' ? 'for the run ' : 'ran '}
            <a href={`/flows/runs/${step.subRunId}`}>
              <code>{format.shortId(step.subRunId)}</code>
            </a>
          </span>
        )}
        {state.kind === 'signal' && run.status === 'Running' ? (
          <SignalButton outline={outline} stepKey={step.stepKey} refresh={refresh} name={state.name} />
        ) : null}
        {step.status === 'Failed' ? <RetryButton outline={outline} stepKey={step.stepKey} refresh={refresh} /> : null}
      </div>
      {step.error === null ? null : (
        <div class="step-error break">
          <p>{step.error.message}</p>
          <p class="muted">
            <code>{step.error.code}</code> {retryAdvice(step.error, run.status, loop)}
          </p>
        </div>
      )}
      <RequestFacts step={step} />
      <Why step={step} siblings={siblings} outline={outline} onSelect={onSelect} />
      {step.startedAt === null ? null : (
        <dl class="facts">
          <div>
            <dt>Started</dt>
            <dd>
              <Time at={step.startedAt} withClock />
            </dd>
          </div>
          <div>
            <dt>{step.completedAt === null ? 'Running for' : 'Took'}</dt>
            <dd>
              <Duration from={step.startedAt} to={step.completedAt ?? run.completedAt} />
            </dd>
          </div>
          {step.timeoutSeconds === null ? null : (
            <div>
              <dt>Limit of an attempt</dt>
              <dd>{format.duration(step.timeoutSeconds * 1000)}</dd>
            </div>
          )}
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
            <p class="muted">No output.</p>
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

function StateDetail({ state }: { state: ReturnType<typeof stepState> }) {
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
      return state.until === null ? null : (
        <span>
          checks again <Time at={state.until} />
        </span>
      );
    default:
      return null;
  }
}

type WhyProps = Pick<StepContentProps, 'step' | 'siblings' | 'outline' | 'onSelect'>;

function Why({ step, siblings, outline, onSelect }: WhyProps) {
  const definition = graphStepAt(outline.graph, stepKeys.pathOf(step.stepKey));
  if (definition === undefined || (step.status === 'Pending' && step.attemptCount > 0)) return null;
  const scope = stepKeys.scopeOf(step.stepKey);
  const byKey = new Map(siblings.map(({ stepKey, status }) => [stepKey, status]));
  const statusOf = (key: string): Api['Step']['status'] | undefined => byKey.get(scope + key);
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

/** Number of attempts listed, newest first; earlier ones are only counted. */
const SHOWN = 20;

interface AttemptListProps extends Pick<Api['Step'], 'attempts'> {
  /** API path of the step. */
  readonly path: string;
  /** Includes attempts that the API leaves out. */
  readonly total: number;
}

function AttemptList({ attempts, path, total }: AttemptListProps) {
  const newest = attempts.slice(-SHOWN).reverse();
  return (
    <>
      <h3>{format.counted(total, 'attempt')}</h3>
      <ol class="attempts">
        {newest.map(({ attempt, status, slotWaitMs, startedAt, completedAt, inputsRevision, error, ...values }) => (
          <li key={attempt}>
            <details>
              <summary>
                <span class="attempt-number">{attempt}</span>
                <StatusPill status={status} />
                <span class="muted">
                  <Time at={startedAt} />, <Duration from={startedAt} to={completedAt} />
                  {slotWaitMs < SHOWN_SLOT_WAIT_MS ? null : `, waited for a slot ${format.duration(slotWaitMs)}`}
                  {inputsRevision === null ? null : `, inputs of revision ${inputsRevision}`}
                </span>
                {error === null ? null : <span class="attempt-error break">{error.message}</span>}
              </summary>
              {values.truncated ? (
                (['input', 'output'] as const).map((name) => (
                  <StepValue
                    key={name}
                    value={values[name]}
                    isCut
                    label={`Attempt ${attempt}, ${name}`}
                    whole={`${path}/${name}?attempt=${attempt}`}
                  />
                ))
              ) : (
                <JsonView value={{ input: values.input, output: values.output, error }} label={`Attempt ${attempt}`} />
              )}
            </details>
          </li>
        ))}
      </ol>
      {total > newest.length ? <p class="muted">{`${total - newest.length} earlier attempts are not shown.`}</p> : null}
    </>
  );
}

interface ConditionListProps {
  readonly entries: ReturnType<typeof entriesOf>;
  /** Without a heading. */
  readonly isBare?: boolean;
}

/** Evaluated conditions: expression, values read, and result. */
function ConditionList({ entries, isBare = false }: ConditionListProps) {
  if (entries.length === 0) return null;
  return (
    <>
      {isBare ? null : <h3>Conditions</h3>}
      {entries.map(({ after, expression, values, result, error }) => (
        <div key={`${after} ${expression}`} class="condition">
          <div class="condition-head">
            <code class="break">{expression}</code>
            {error !== null ? (
              <Pill tone="bad" icon="warn">
                error
              </Pill>
            ) : (
              <Pill tone={result === true ? 'good' : 'quiet'} icon={result === true ? 'check' : 'cross'}>
                {String(result)}
              </Pill>
            )}
          </div>
          {error === null ? null : <p class="field-error break">{error}</p>}
          <dl>
            {Object.entries(values).map(([path, value]) => (
              <div key={path}>
                <dt>
                  <code>{path}</code>
                </dt>
                <dd>
                  <code class="break">{shortJson(value)}</code>
                </dd>
              </div>
            ))}
          </dl>
        </div>
      ))}
    </>
  );
}

const MAX_LETTERS = 240;

function shortJson(value: unknown): string {
  const text = JSON.stringify(value) ?? 'undefined';
  return text.length > MAX_LETTERS ? `${text.slice(0, MAX_LETTERS)}…` : text;
}

interface IterationStepsProps {
  readonly stepKey: string;
  readonly outline: Api['RunOutline'];
  readonly onSelect: (stepKey: string) => void;
}

/** Leads to the same step in the previous, the next, or any iteration. */
function IterationSteps({ stepKey, outline, onSelect }: IterationStepsProps) {
  const iteration = stepKeys.iterationOf(stepKey);
  if (iteration === null) return null;
  const { loopKey, index } = iteration;
  const total = outline.loops.find((loop) => loop.stepKey === loopKey)?.total ?? index + 1;
  const go = (next: number) => {
    if (Number.isInteger(next) && next >= 0 && next < total) onSelect(stepKeys.inIteration(stepKey, next));
  };
  return (
    <div class="iteration-steps">
      <button type="button" class="icon-button" disabled={index === 0} onClick={() => go(index - 1)}>
        <Icon name="left" />
        <span class="unseen">Previous iteration</span>
      </button>
      <label>
        Iteration{' '}
        <input
          type="number"
          min={0}
          max={total - 1}
          value={index}
          onChange={(event) => go(event.currentTarget.valueAsNumber)}
        />{' '}
        <span class="muted">{`of 0 to ${total - 1}`}</span>
      </label>
      <button type="button" class="icon-button" disabled={index >= total - 1} onClick={() => go(index + 1)}>
        <Icon name="right" />
        <span class="unseen">Next iteration</span>
      </button>
    </div>
  );
}

interface StepValueProps {
  readonly value: unknown;
  /** Whether values of the step or the attempt were cut. */
  readonly isCut: boolean;
  readonly label: string;
  /** API path of the whole value. */
  readonly whole: string;
}

/** A value of a step. If it was cut, shows its beginning and a link to the whole value. */
function StepValue({ value, isCut, label, whole }: StepValueProps) {
  const cut = isCut ? cutOf(value) : undefined;
  if (cut === undefined) return <JsonView value={value} label={label} />;
  return (
    <div class="json">
      <section class="json-tree break" aria-label={label}>
        {`${cut.preview}…`}
      </section>
      <p>
        <a href={`/flows/api${whole}`} target="_blank" rel="noreferrer">
          {`Show all ${format.bytes(cut.length)}`}
        </a>
      </p>
    </div>
  );
}

function cutOf(value: unknown): { readonly length: number; readonly preview: string } | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (!('truncated' in value && 'length' in value && 'preview' in value)) return undefined;
  const { length, preview } = value;
  return typeof length === 'number' && typeof preview === 'string' ? { length, preview } : undefined;
}

const part = (value: unknown, name: string): unknown => Reflect.get(Object(value), name);
const textOf = (value: unknown, otherwise = ''): string => (typeof value === 'string' ? value : otherwise);

/** The request of an HttpRequest step and the response to it: the values that readers look for first. */
function RequestFacts({ step: { stepType, input, output } }: { step: Api['Step'] }) {
  const url = textOf(part(input, 'url'));
  if (stepType !== 'HttpRequest' || url === '') return null;
  const status = part(output, 'status');
  const body = part(output, 'body');
  return (
    <section class="request">
      <h3>Request</h3>
      <p class="break">
        <code>{`${textOf(part(input, 'method'), 'GET').toUpperCase()} ${url}`}</code>
      </p>
      {typeof status !== 'number' ? null : (
        <>
          <h3>
            Response <span class={status < 400 ? '' : 'bad-text'}>{status}</span>
          </h3>
          {body === null || body === undefined ? (
            <p class="muted">Without a body.</p>
          ) : (
            <JsonView value={body} label="Response body" />
          )}
        </>
      )}
    </section>
  );
}
