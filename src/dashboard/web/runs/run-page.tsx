import type { ComponentChildren } from 'preact';
import type { Lineage, RunOutline } from '../api-types.ts';
import { shortId } from '../format.ts';
import { CopyButton } from '../kit/copy.tsx';
import { Segments } from '../kit/filters.tsx';
import { Loaded, Page } from '../kit/page.tsx';
import { StatusPill } from '../kit/pill.tsx';
import { Duration, Time } from '../kit/time.tsx';
import { useResource } from '../resource.ts';
import { type Params, useQuery } from '../router.ts';
import { GanttView } from './gantt-view.tsx';
import { GraphView } from './graph-view.tsx';
import { RunActions } from './run-actions.tsx';
import { RunNotices } from './run-notices.tsx';
import { StepPanel } from './step-panel.tsx';
import { TimelineView } from './timeline-view.tsx';
import { TriggerPanel } from './trigger-panel.tsx';
import { useRunOutline } from './use-run.ts';

const VIEWS = [
  { value: 'graph', text: 'Graph' },
  { value: 'gantt', text: 'Gantt' },
  { value: 'timeline', text: 'Timeline' },
  { value: 'input', text: 'Input' },
] as const;

/** One run; the address keeps the view and the step that is shown beside it. */
export function RunPage({ params: { id = '' } }: { params: Params }) {
  const outline = useRunOutline(id);
  const { data } = outline;
  return (
    <Page
      title={data === undefined ? 'Run' : data.run.flowName}
      tabTitle={data === undefined ? 'Run' : `${data.run.status}: ${data.run.flowName}`}
      trail={[['Runs', '/flows/runs']]}
      badges={data === undefined ? undefined : <StatusPill status={data.run.status} />}
      actions={data === undefined ? undefined : <RunActions outline={data} refresh={outline.refresh} />}
    >
      <Loaded of={outline} lines={8}>
        {(loaded) => <RunContent outline={loaded} refresh={outline.refresh} />}
      </Loaded>
    </Page>
  );
}

interface RunContentProps {
  readonly outline: RunOutline;
  readonly refresh: () => void;
}

function RunContent({ outline, refresh }: RunContentProps) {
  const [query, changeQuery] = useQuery();
  const view = VIEWS.find(({ value }) => value === query.get('view'))?.value ?? 'graph';
  const selected = query.get('step') ?? undefined;
  const select = (stepKey: string | undefined) => changeQuery({ step: stepKey });
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
          {view === 'graph' ? <GraphView {...shared} /> : null}
          {view === 'gantt' ? <GanttView {...shared} /> : null}
          {view === 'timeline' ? <TimelineView {...shared} /> : null}
          {view === 'input' ? <TriggerPanel runId={outline.run.id} /> : null}
        </section>
        {selected === undefined ? null : <StepPanel key={selected} stepKey={selected} {...shared} refresh={refresh} />}
      </div>
    </>
  );
}

function RunFacts({ outline: { run, control } }: { outline: RunOutline }) {
  const lineage = useResource<Lineage>(`/runs/${run.id}/lineage`, { refreshOn: ['run.started'] });
  const derived = lineage.data?.derived ?? [];
  return (
    <dl class="facts run-facts">
      <Fact name="Run">
        <code>{shortId(run.id)}</code>
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
          </>
        )}
      </Fact>
      <Fact name="Started">
        <Time at={run.startedAt} />
      </Fact>
      <Fact name={run.completedAt === null ? 'Runs for' : 'Took'}>
        <Duration from={run.startedAt} to={run.completedAt} />
      </Fact>
      {run.completedAt === null ? null : (
        <Fact name="Ended">
          <Time at={run.completedAt} />
        </Fact>
      )}
      {control.timedOutAt === null && (run.completedAt !== null || control.timeoutAt === null) ? null : (
        <Fact name={control.timedOutAt === null ? 'Time limit' : 'Timed out'}>
          <Time at={control.timedOutAt ?? control.timeoutAt} />
        </Fact>
      )}
      {run.sourceRunId === null ? null : (
        <Fact name="Re-run of">
          <a href={`/flows/runs/${run.sourceRunId}`}>
            <code>{shortId(run.sourceRunId)}</code>
          </a>
        </Fact>
      )}
      {derived.length === 0 ? null : (
        <Fact name="Run again as">
          {derived.slice(-5).map(({ id, status }) => (
            <a key={id} class="relative" href={`/flows/runs/${id}`} title={id}>
              <code>{shortId(id)}</code> {status}
            </a>
          ))}
        </Fact>
      )}
    </dl>
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
