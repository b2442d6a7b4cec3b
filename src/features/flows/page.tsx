import { useState } from 'preact/hooks';
import { ALL_FLOWS, withQuery } from '../../dashboard/web/address.ts';
import { ask, messageOf } from '../../dashboard/web/api.ts';
import type { Api } from '../../dashboard/web/api-types.ts';
import { format } from '../../dashboard/web/format.ts';
import { CodeLine } from '../../dashboard/web/kit/copy.tsx';
import { JsonView } from '../../dashboard/web/kit/json-view.tsx';
import { Segments, Table } from '../../dashboard/web/kit/list.tsx';
import { confirm, toast } from '../../dashboard/web/kit/overlays.tsx';
import { Empty, Loaded, Page, Panel } from '../../dashboard/web/kit/page.tsx';
import { Icon, ModePill, Pill } from '../../dashboard/web/kit/pill.tsx';
import { Duration, Time } from '../../dashboard/web/kit/time.tsx';
import type { Look } from '../../dashboard/web/looks.ts';
import { allFlowViews, type FlowView, type PagePart, shownAt, whileClosed } from '../../dashboard/web/part.ts';
import { type Resource, useResource } from '../../dashboard/web/resource.ts';
import { navigate, useQuery } from '../../dashboard/web/router.ts';
import { may } from '../../dashboard/web/scopes.ts';
import { RevisionsPanel } from '../revisions/revisions-panel.tsx';
import { FlowGraph } from '../runs/page/flow-graph.tsx';
import type { Graph } from '../runs/page/graph.ts';
import { RunPill, RunWhy } from '../runs/page/run-pill.tsx';
import { closing, DrainPanel, StartDialog, startDrain } from './flow-actions.tsx';
import { EnabledPill, FlowsPage } from './flows-page.tsx';

/** One flow: its graph, its triggers, the results of its gates, and its last runs. */
function FlowPage({ params }: { params: { readonly id?: string } }) {
  const { id = '' } = params;
  const flow = useResource<Api['FlowDetail']>(`/flows/${encodeURIComponent(id)}`);
  return (
    <Page
      title={flow.data?.name ?? 'Flow'}
      trail={[['Flows', '/flows/flows']]}
      badges={flow.data === undefined ? null : <Badges flow={flow.data} />}
      actions={flow.data === undefined ? undefined : <Actions flow={flow.data} refresh={flow.refresh} />}
    >
      <Loaded of={flow} lines={12}>
        {(detail) => <Detail flow={detail} refresh={flow.refresh} />}
      </Loaded>
    </Page>
  );
}

function Badges({ flow }: { flow: Api['Flow'] }) {
  const { isEnabled, version, revision, drainingSince } = flow;
  return (
    <>
      <EnabledPill isEnabled={isEnabled} isDraining={drainingSince !== null} />
      <span class="muted">{`version ${version}, revision ${revision}`}</span>
      {shownAt('flowBadges', { flow })}
    </>
  );
}

function Actions({ flow, refresh }: { flow: Api['FlowDetail']; refresh: () => void }) {
  return (
    <>
      {shownAt('flowTools', { flow })}
      {may('operate') ? <OperateActions flow={flow} refresh={refresh} /> : null}
      {may('deploy') ? (
        <button type="button" class="button" onClick={() => deleteFlow(flow)}>
          Delete…
        </button>
      ) : null}
    </>
  );
}

function OperateActions({ flow, refresh }: { flow: Api['FlowDetail']; refresh: () => void }) {
  const [isStarting, setStarting] = useState(false);
  const { isEnabled, drainingSince } = flow;
  const canStart = isEnabled && drainingSince === null;
  return (
    <>
      {drainingSince === null && isEnabled ? (
        <button type="button" class="button" onClick={() => startDrain(flow, refresh)}>
          <Icon name="pause" />
          Drain…
        </button>
      ) : null}
      <button type="button" class="button" onClick={() => switchFlow(flow, refresh)}>
        <Icon name="off" />
        {isEnabled ? 'Disable…' : 'Enable'}
      </button>
      {shownAt('flowActions', { flow, refresh })}
      <button
        type="button"
        class="button primary"
        disabled={!canStart}
        title={canStart ? undefined : 'Enable or resume the flow first'}
        onClick={() => setStarting(true)}
      >
        <Icon name="play" />
        Start a run…
      </button>
      {isStarting ? <StartDialog flow={flow} onClose={() => setStarting(false)} /> : null}
    </>
  );
}

async function switchFlow({ id, name, isEnabled, triggers }: Api['Flow'], refresh: () => void): Promise<void> {
  const answer = isEnabled
    ? await confirm({
        title: `Disable ${name}?`,
        body: <p>Its triggers start no runs until you enable it. Runs in flight continue.</p>,
        action: 'Disable',
        isDangerous: true,
        choice: whileClosed()?.choice(triggers, 'enable'),
      })
    : { why: {}, choice: undefined };
  if (answer === undefined) return;
  try {
    await ask(`/flows/${id}/${isEnabled ? 'disable' : 'enable'}`, { method: 'POST', body: closing(answer) });
    toast('good', `${name} is ${isEnabled ? 'disabled' : 'enabled'}.`);
  } catch (error) {
    toast('bad', messageOf(error));
  }
  refresh();
}

async function deleteFlow({ id, name, triggers }: Api['Flow']): Promise<void> {
  const answer = await confirm({
    title: `Delete ${name}?`,
    body: (
      <>
        <p>
          Its schedules end and its slugs are free. Runs in flight finish. Runs, deliveries and revisions stay until
          retention removes them; a deploy brings the flow back.
        </p>
        {triggers.some(({ type }) => type === 'webhook') ? <p>Its publishers get a 404.</p> : null}
      </>
    ),
    action: 'Delete',
    isDangerous: true,
  });
  if (answer === undefined) return;
  try {
    await ask(`/flows/${id}`, { method: 'DELETE', body: answer.why });
    toast('good', `${name} is deleted.`);
    navigate('/flows/flows');
  } catch (error) {
    toast('bad', messageOf(error));
  }
}

/** The address keeps the chosen view. */
function Detail({ flow, refresh }: { flow: Api['FlowDetail']; refresh: () => void }) {
  const [query, changeQuery] = useQuery();
  const hasWebhook = flow.triggers.some(({ type }) => type === 'webhook');
  const views = [...FIRST_VIEWS, ...allFlowViews(), ...LAST_VIEWS].filter(
    ({ isOfWebhooks = false }) => hasWebhook || !isOfWebhooks,
  );
  const { value: shown, view: View } = views.find(({ value }) => value === query.get('view')) ?? OVERVIEW;
  return (
    <>
      {flow.isEnabled ? null : (
        <p class="notice warn">
          <Icon name="off" />
          <span>
            The flow is disabled: it starts no runs. Runs in flight continue.
            {flow.held === 0
              ? ''
              : ` ${format.counted(flow.held, 'delivery is', 'deliveries are')} held until you enable it.`}
          </span>
        </p>
      )}
      {flow.drainingSince === null ? null : <DrainPanel flow={flow} refresh={refresh} />}
      <div class="tabs">
        <Segments
          label="View"
          choices={views}
          value={shown}
          onChange={(value) => changeQuery({ view: value === 'overview' ? undefined : value })}
        />
      </div>
      <View flow={flow} refresh={refresh} />
    </>
  );
}

interface ViewProps {
  readonly flow: Api['FlowDetail'];
  readonly refresh: () => void;
}

function Overview({ flow }: ViewProps) {
  return (
    <>
      <Panel title="Steps">
        <FlowGraph graph={readManifest(flow.manifest).steps} />
      </Panel>
      <TriggersPanel flow={flow} />
    </>
  );
}

function Runs({ flow }: ViewProps) {
  return (
    <>
      {shownAt('flowRuns', { flowId: flow.id })}
      <RecentRuns flowId={flow.id} />
    </>
  );
}

function Revisions({ flow, refresh }: ViewProps) {
  return <RevisionsPanel flowId={flow.id} inForce={flow.revision} refresh={refresh} />;
}

function Manifest({ flow }: ViewProps) {
  return (
    <Panel title="Manifest" aside={`revision ${flow.revision}, secrets masked`}>
      <JsonView value={flow.manifest} label="the manifest" />
    </Panel>
  );
}

const OVERVIEW: FlowView = { value: 'overview', text: 'Steps and triggers', view: Overview };

/** Views of features come between these. */
const FIRST_VIEWS: readonly FlowView[] = [OVERVIEW, { value: 'runs', text: 'Runs', view: Runs }];
const LAST_VIEWS: readonly FlowView[] = [
  { value: 'revisions', text: 'Revisions', view: Revisions },
  { value: 'manifest', text: 'Manifest', view: Manifest },
];

const NEWEST_RUNS = 20;

function RecentRuns({ flowId }: { flowId: string }) {
  const runs: Resource<readonly Api['Run'][]> = useResource(withQuery('/runs', { flowId, take: NEWEST_RUNS }), {
    refreshOn: ['run.started', 'run.completed'],
  });
  return (
    <Panel title="Newest runs" aside={<a href={withQuery('/flows/runs', { flowId })}>All</a>} isFlush>
      <Loaded of={runs}>
        {(list) =>
          list.length === 0 ? (
            <Empty icon="runs" title="This flow has not run yet">
              <p>Send it a delivery with the command next to its trigger, or start a run by hand.</p>
            </Empty>
          ) : (
            <Table
              label="Newest runs"
              columns={[
                { name: 'Started', cell: ({ startedAt }) => <Time at={startedAt} withClock /> },
                { name: 'Status', cell: (run) => <RunPill run={run} /> },
                { name: 'Why', cell: (run) => <RunWhy run={run} /> },
                { name: 'Trigger', cell: ({ triggerKey }) => triggerKey, isMinor: true },
                { name: 'Revision', cell: ({ revision }) => revision, align: 'end', isMinor: true },
                {
                  name: 'Took',
                  cell: ({ startedAt, completedAt }) => <Duration from={startedAt} to={completedAt} />,
                  align: 'end',
                },
              ]}
              rows={list}
              keyOf={({ id }) => id}
              hrefOf={({ id }) => `/flows/runs/${id}`}
            />
          )
        }
      </Loaded>
    </Panel>
  );
}

type Trigger = Api['FlowDetail']['triggers'][number];

/** How to start the flow; addresses and commands are ready to paste. */
function TriggersPanel({ flow }: { flow: Api['FlowDetail'] }) {
  const { triggers } = readManifest(flow.manifest);
  return (
    <Panel title="Triggers">
      {flow.triggers.length === 0 ? (
        <Empty icon="play" title="This flow has no triggers">
          <p>You can only start it by hand.</p>
        </Empty>
      ) : (
        <ul class="trigger-list">
          {flow.triggers.map((trigger) => (
            <li key={trigger.key}>
              {trigger.type === 'webhook' ? (
                <Webhook trigger={trigger} flowId={flow.id} />
              ) : (
                <OtherTrigger trigger={trigger} inputs={triggers[trigger.key]?.inputs ?? {}} />
              )}
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function Webhook({ trigger, flowId }: { trigger: Trigger; flowId: string }) {
  const { key, enabled, slug, url, scheme, grade, captured, eventId, mode } = trigger;
  const { lastDeliveryAt, toCheck, sendCommand, sharedWith = [] } = trigger;
  return (
    <>
      <p class="trigger-head">
        <Icon name="deliveries" />
        <b>{key}</b>
        <span class="muted">{`webhook, ${scheme === null || scheme === undefined ? 'no signature check' : `signed as ${scheme}`}`}</span>
        {grade === null || grade === undefined ? null : <GradePill grade={grade} captured={captured ?? ''} />}
        {mode === undefined ? null : <ModePill mode={mode} />}
        {enabled ? null : <OffPill />}
        <a href={`/flows/deliveries?flowId=${flowId}`}>Deliveries</a>
        {url === null || url === undefined ? null : shownAt('webhook', { idOrSlug: slug ?? flowId })}
      </p>
      {captured === null || captured === undefined ? null : <p class="muted">{captured}</p>}
      {eventId === null || eventId === undefined ? null : (
        <p class="muted">
          One run for each event, by <code>{eventId.expression}</code> for {format.counted(eventId.days, 'day')}
          {eventId.unsigned === null || eventId.unsigned.length === 0
            ? '.'
            : `; not signed: ${eventId.unsigned.join(', ')}.`}
        </p>
      )}
      {sharedWith.length === 0 ? null : (
        <p class="muted">
          Its deliveries also go to{' '}
          {sharedWith.map((other, at) => (
            <>
              {at === 0 ? '' : ', '}
              <a href={`/flows/flows/${other.flowId}`}>{other.name}</a>
            </>
          ))}
          .
        </p>
      )}
      {shownAt('trigger', { trigger })}
      {lastDeliveryAt == null ? null : (
        <p class="muted">
          Last delivery <Time at={lastDeliveryAt} />.
        </p>
      )}
      {toCheck === undefined ? null : (
        <details open>
          <summary>No delivery has come that passed every gate. What to check at the publisher</summary>
          <ul>
            {toCheck.map((each) => (
              <li key={each}>{each}</li>
            ))}
          </ul>
        </details>
      )}
      {url === null || url === undefined ? (
        <p class="muted">
          This trigger has no address: give it a <code>webhookSlug</code>.
        </p>
      ) : (
        <dl class="commands">
          <dt>Address for the publisher</dt>
          <dd>
            <CodeLine text={url} label="the address" />
          </dd>
          {sendCommand === null || sendCommand === undefined ? null : (
            <>
              <dt>Send a signed sample</dt>
              <dd>
                <CodeLine text={sendCommand} label="the command" />
              </dd>
            </>
          )}
        </dl>
      )}
    </>
  );
}

const GRADE_LOOKS: Readonly<Record<NonNullable<Trigger['grade']>, readonly [Look['tone'], Look['icon']]>> = {
  A: ['good', 'check'],
  B: ['good', 'check'],
  C: ['warn', 'warn'],
  D: ['warn', 'warn'],
  E: ['bad', 'warn'],
  F: ['bad', 'warn'],
};

function GradePill({ grade, captured }: { grade: NonNullable<Trigger['grade']>; captured: string }) {
  const [tone, icon] = GRADE_LOOKS[grade];
  return (
    <Pill tone={tone} icon={icon} title={captured}>
      {`Coverage ${grade}`}
    </Pill>
  );
}

const OffPill = () => (
  <Pill tone="warn" icon="off" title="enabled is false in the manifest">
    Off
  </Pill>
);

function OtherTrigger({
  trigger: { key, type, enabled },
  inputs,
}: {
  trigger: Trigger;
  inputs: Readonly<Record<string, unknown>>;
}) {
  const { cronExpression, timeZone } = inputs;
  return (
    <p class="trigger-head">
      <Icon name={type === 'cron' ? 'clock' : 'play'} />
      <b>{key}</b>
      {type === 'cron' ? (
        <>
          <span class="muted">cron</span>
          <code>{String(cronExpression)}</code>
          <span class="muted">{String(timeZone ?? 'UTC')}</span>
          <a href="/flows/schedules">Schedules</a>
        </>
      ) : (
        <span class="muted">manual: started by a person or over the API</span>
      )}
      {enabled ? null : <OffPill />}
    </p>
  );
}

/** The parts of a manifest that the page reads; the API returns it in canonical spelling, however it was written. */
interface ReadManifest {
  readonly steps: Graph;
  readonly triggers: Readonly<Record<string, { readonly inputs?: Readonly<Record<string, unknown>> }>>;
}

function readManifest(manifest: unknown): ReadManifest {
  const { steps = {}, triggers = {} } = (manifest ?? {}) as Partial<ReadManifest>;
  return { steps, triggers };
}

export const flowsPage: PagePart = {
  name: 'flows',
  routes: [
    { path: '/flows/flows', page: FlowsPage, title: 'Flows', question: () => ALL_FLOWS },
    { path: '/flows/flows/:id', page: FlowPage, title: 'Flow' },
  ],
  place: { text: 'Flows', href: '/flows/flows', key: 'f', icon: 'flows' },
};
