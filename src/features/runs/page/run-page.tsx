import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { withQuery } from '../../../dashboard/web/address.ts';
import type { Api } from '../../../dashboard/web/api-types.ts';
import { format } from '../../../dashboard/web/format.ts';
import { CopyButton } from '../../../dashboard/web/kit/copy.tsx';
import { JsonView } from '../../../dashboard/web/kit/json-view.tsx';
import { Segments } from '../../../dashboard/web/kit/list.tsx';
import { Loaded, Page } from '../../../dashboard/web/kit/page.tsx';
import { Icon } from '../../../dashboard/web/kit/pill.tsx';
import { Duration, Time } from '../../../dashboard/web/kit/time.tsx';
import { useResource } from '../../../dashboard/web/resource.ts';
import { useQuery } from '../../../dashboard/web/router.ts';
import { lastPollText } from './explain.ts';
import { RetryButton, RunActions, SignalButton } from './run-actions.tsx';
import { RunPill, WaitText } from './run-pill.tsx';
import { RUN_VIEWS } from './run-views.tsx';
import { StepPanel } from './step-panel.tsx';
import { tellingStepOf } from './step-state.ts';
import { useRunOutline } from './use-run.ts';

const VIEWS = [
  { value: 'graph', text: 'Graph' },
  { value: 'gantt', text: 'Gantt' },
  { value: 'timeline', text: 'Timeline' },
  { value: 'input', text: 'Input' },
] as const;

/** One run; the address keeps the view and the selected step. */
export function RunPage({ params: { id = '' } }: { params: { readonly id?: string } }) {
  const outline = useRunOutline(id);
  const { data } = outline;
  return (
    <Page
      title={data === undefined ? 'Run' : data.run.flowName}
      tabTitle={data === undefined ? 'Run' : `${data.run.status}: ${data.run.flowName}`}
      trail={[['Runs', '/flows/runs']]}
      badges={data === undefined ? undefined : <RunPill run={data.run} />}
      actions={data === undefined ? undefined : <RunActions outline={data} refresh={outline.refresh} />}
    >
      <Loaded of={outline} lines={8}>
        {(loaded) => <RunContent outline={loaded} refresh={outline.refresh} />}
      </Loaded>
    </Page>
  );
}

interface RunContentProps {
  readonly outline: Api['RunOutline'];
  readonly refresh: () => void;
}

function RunContent({ outline, refresh }: RunContentProps) {
  const [query, changeQuery] = useQuery();
  const view = VIEWS.find(({ value }) => value === query.get('view'))?.value ?? 'graph';
  const [isClosed, setClosed] = useState(false);
  const telling = isClosed || view === 'input' ? undefined : tellingStepOf(outline);
  const selected = query.get('step') ?? telling;
  const select = (stepKey: string | undefined) => {
    setClosed(stepKey === undefined);
    changeQuery({ step: stepKey });
  };
  // A click on the step that the page selected by itself keeps it open.
  const choose = (stepKey: string | undefined) => select(stepKey ?? (query.get('step') === null ? telling : undefined));
  const StepsView = RUN_VIEWS[view === 'input' ? 'graph' : view];
  const shared = { outline, selected, onSelect: select };
  return (
    <>
      <RunFacts outline={outline} />
      <RunNotices outline={outline} refresh={refresh} onSelect={select} />
      <div class={selected === undefined ? 'run-body' : 'run-body with-step'}>
        <section class="panel">
          <header>
            <Segments
              label="View"
              choices={VIEWS}
              value={view}
              onChange={(value) => changeQuery({ view: value === 'graph' ? undefined : value })}
            />
          </header>
          {view === 'input' ? <TriggerPanel runId={outline.run.id} /> : <StepsView {...shared} onSelect={choose} />}
        </section>
        {selected === undefined ? null : (
          <StepPanel
            key={selected}
            stepKey={selected}
            isAsked={query.get('step') !== null}
            {...shared}
            refresh={refresh}
          />
        )}
      </div>
    </>
  );
}

function RunFacts({ outline: { run, control, onFailure } }: { outline: Api['RunOutline'] }) {
  const lineage = useResource<Api['Lineage']>(`/runs/${run.id}/lineage`, { refreshOn: ['run.started'] });
  const derived = lineage.data?.derived ?? [];
  const started = derived.filter(({ relation }) => relation === 'failure');
  const hasFailed = run.status === 'Failed' || run.status === 'TimedOut';
  return (
    <dl class="facts run-facts">
      <Fact name="Run">
        <code>{format.shortId(run.id)}</code>
        <CopyButton text={run.id} label="run id" />
      </Fact>
      <Fact name="Flow">
        <a href={`/flows/flows/${run.flowId}`}>{run.flowName}</a>{' '}
        <span class="muted">{`${run.flowVersion}, revision ${run.revision}`}</span>
      </Fact>
      <Fact name="Started by">
        {run.triggerKey} <span class="muted">{run.triggerType}</span>
        {run.deliveryId === null ? null : (
          <>
            {' '}
            · <a href={`/flows/deliveries/${run.deliveryId}`}>delivery</a>
            {lineage.data?.edited === true ? <b> with an edited body</b> : null}
          </>
        )}
        {control.deliveries === null || control.deliveries < 2 ? null : (
          <>
            {' and '}
            <a href={`/flows/deliveries?search=${run.id}&outcome=coalesced`}>{control.deliveries - 1} more</a>
          </>
        )}
      </Fact>
      {Object.entries(run.searchKeys).map(([key, value]) => (
        <Fact key={key} name={`Search key ${key}`}>
          {value}
        </Fact>
      ))}
      <Fact name="Started">
        <Time at={run.startedAt} withClock />
      </Fact>
      <Fact name={run.completedAt === null ? 'Runs for' : 'Took'}>
        <Duration from={run.startedAt} to={run.completedAt} />
      </Fact>
      {run.completedAt === null ? null : (
        <Fact name="Ended">
          <Time at={run.completedAt} withClock />
        </Fact>
      )}
      {control.order === null ? null : (
        <Fact name="Order key">
          {control.order.key === null ? (
            <span class="muted" title={control.order.problem ?? ''}>
              none, shared
            </span>
          ) : (
            <code class="break">{control.order.key}</code>
          )}
          {control.order.verified ? '' : ' (unverified)'}
        </Fact>
      )}
      {control.timedOutAt === null && (run.completedAt !== null || control.timeoutAt === null) ? null : (
        <Fact name={control.timedOutAt === null ? 'Time limit' : 'Timed out'}>
          <Time at={control.timedOutAt ?? control.timeoutAt} />
        </Fact>
      )}
      {run.sourceRunId === null ? null : (
        <Fact name={SOURCES[lineage.data?.source?.relation ?? 'rerun']}>
          <a href={`/flows/runs/${run.sourceRunId}`}>
            <code>{format.shortId(run.sourceRunId)}</code>
          </a>{' '}
          {lineage.data?.source?.flowName === run.flowName ? null : lineage.data?.source?.flowName}
        </Fact>
      )}
      <Relatives name="Run again as" runs={derived.filter(({ relation }) => relation === 'rerun')} />
      <Relatives name="Its failure started" runs={started} />
      <Relatives name="Its steps started" runs={derived.filter(({ relation }) => relation === 'subFlow')} />
      {onFailure !== null && hasFailed && lineage.data !== undefined && started.length === 0 ? (
        <Fact name="Its failure started">
          nothing: <a href={`/flows/flows/${onFailure.flowId}`}>{onFailure.flowName}</a> was disabled or draining
        </Fact>
      ) : null}
    </dl>
  );
}

const SOURCES = {
  rerun: 'Re-run of',
  failure: 'Started by the failure of',
  subFlow: 'Started by a step of',
} as const satisfies Record<Api['Lineage']['derived'][number]['relation'], string>;

const SHOWN_RELATIVES = 5;

function Relatives({ name, runs }: { name: string; runs: Api['Lineage']['derived'] }) {
  if (runs.length === 0) return null;
  return (
    <Fact name={name}>
      {runs.slice(-SHOWN_RELATIVES).map(({ id, status, flowName }) => (
        <a key={id} class="relative" href={`/flows/runs/${id}`} title={`${flowName} ${id}`}>
          <code>{format.shortId(id)}</code> {status}
        </a>
      ))}
      {runs.length <= SHOWN_RELATIVES ? null : (
        <span class="muted">{`and ${runs.length - SHOWN_RELATIVES} before${runs.length === 500 ? ' or more' : ''}`}</span>
      )}
    </Fact>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** Codes of failures that only say that the run was stopped; the run itself says that better. */
const STOPS: ReadonlySet<string> = new Set(['cancelled', 'run_timed_out']);

interface NoticesProps {
  readonly outline: Api['RunOutline'];
  readonly refresh: () => void;
  readonly onSelect: (stepKey: string) => void;
}

/** Shown first: what a run waits for or why it failed, and what to do about it. */
function RunNotices({ outline, refresh, onSelect }: NoticesProps) {
  const { run, control, steps, loops } = outline;
  const waiting = run.status === 'Running' ? steps.filter(({ signalName }) => signalName !== null) : [];
  const polling = run.status === 'Running' ? steps.filter(({ lastPoll }) => lastPoll !== null) : [];
  const failed = steps.filter(({ status, error }) => status === 'Failed' && !STOPS.has(error?.code ?? ''));
  // If a run succeeded although a step failed, a later step handled the failure.
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
            The run reached its time limit <Time at={control.timedOutAt} />. Steps that were running or waiting were
            stopped.
          </span>
        </div>
      )}
      {control.order?.state === 'stopped' ? (
        <div class="notice bad">
          <Icon name="pause" />
          <span>
            This run failed and holds its key, so no other run of the key starts. Retry its failed step, or release the
            order.
          </span>
        </div>
      ) : null}
      <LoopNotices outline={outline} />
      {waiting.map((step) => (
        <WaitNotice key={step.stepKey} step={step} outline={outline} refresh={refresh} />
      ))}
      {polling.map(({ stepKey, lastPoll, dueAt }) => (
        <div key={stepKey} class="notice busy">
          <Icon name="clock" />
          <span class="break">
            <strong>{stepKey}</strong>
            {` asks again `}
            <Time at={dueAt} />
            {lastPoll === null ? '' : `. ${lastPollText(lastPoll)}`}
          </span>
        </div>
      ))}
      {run.waitingFor.filter(isUntold).map((wait) => (
        <div key={wait.for} class={`notice ${NEEDS_A_PERSON.has(wait.for) ? 'warn' : 'busy'}`}>
          <Icon name={NEEDS_A_PERSON.has(wait.for) ? 'pause' : 'clock'} />
          <span class="break">
            <WaitText wait={wait} />
          </span>
        </div>
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
            {isHandled ? '. A later step handled it.' : ''}
          </span>
          {run.failure?.stepKey === stepKey ? <a href={likeThis(run.flowId, run.failure)}>Failures like this</a> : null}
          <RetryButton outline={outline} stepKey={stepKey} refresh={refresh} />
        </div>
      ))}
    </div>
  );
}

const NEEDS_A_PERSON: ReadonlySet<Api['Run']['waitingFor'][number]['for']> = new Set(['signal', 'secret']);

/** Link to the runs of the flow that failed in the same way. */
function likeThis(flowId: string, { stepKey, code, host, error }: NonNullable<Api['Run']['failure']>): string {
  return withQuery('/flows/runs', { flowId, step: stepKey, code, host: host ?? '', error });
}

/** Signals and polls of steps outside of loops have their own notices. */
function isUntold(wait: Api['Run']['waitingFor'][number]): boolean {
  return (wait.for !== 'signal' && wait.for !== 'poll') || wait.stepKey?.includes('.') === true;
}

function failureText(stepKey: string, attempts: number, loops: Api['RunOutline']['loops']): string {
  const loop = loops.find((each) => each.stepKey === stepKey);
  if (loop !== undefined) return `in ${loop.failed} of ${format.counted(loop.total, 'iteration')}`;
  return `after ${format.counted(attempts, 'attempt')}`;
}

function WaitNotice({
  step,
  outline,
  refresh,
}: {
  step: Api['StepOutline'];
  outline: Api['RunOutline'];
  refresh: () => void;
}) {
  const { stepKey, signalName, dueAt } = step;
  return (
    <div class="notice warn">
      <Icon name="pause" />
      <span>
        <strong>{stepKey}</strong>
        {` waits for the signal “${signalName}”`}
        {dueAt === null ? null : (
          <>
            {', gives up '}
            <Time at={dueAt} />
          </>
        )}
      </span>
      <SignalButton outline={outline} stepKey={stepKey} refresh={refresh} name={signalName ?? ''} />
    </div>
  );
}

/** Progress of the loops while the run is in flight. */
function LoopNotices({ outline: { run, loops } }: { outline: Api['RunOutline'] }) {
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
            {` has ended ${format.count(ended)} of ${format.counted(total, 'iteration')}`}
          </span>
          <progress value={ended} max={total} />
        </label>
      ))}
    </>
  );
}

/** The trigger data of a run. */
function TriggerPanel({ runId }: { runId: string }) {
  const trigger = useResource<Api['RunTrigger']>(`/runs/${runId}/trigger`);
  return (
    <div class="panel-body stack">
      <Loaded of={trigger}>
        {({ triggerBody, triggerHeaders }) => (
          <>
            <h3>Body</h3>
            {triggerBody === null ? (
              <p class="muted">The run started without a body.</p>
            ) : (
              <JsonView value={triggerBody} label="Body" />
            )}
            {Object.keys(triggerHeaders).length === 0 ? null : (
              <>
                <h3>Headers</h3>
                <JsonView value={triggerHeaders} label="Headers" />
              </>
            )}
          </>
        )}
      </Loaded>
    </div>
  );
}
