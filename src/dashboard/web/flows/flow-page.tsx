import { useState } from 'preact/hooks';
import { ask, messageOf, withQuery } from '../api.ts';
import type { Flow, FlowDetail, Readiness, Run } from '../api-types.ts';
import { ReadinessPanel } from '../deliveries/readiness-panel.tsx';
import { counted } from '../format.ts';
import { FlowGraph } from '../graph/flow-graph.tsx';
import { confirm } from '../kit/dialog.tsx';
import { Icon } from '../kit/icon.tsx';
import { JsonView } from '../kit/json-view.tsx';
import { Empty, Loaded, Page, Panel } from '../kit/page.tsx';
import { StatusPill } from '../kit/pill.tsx';
import { Table } from '../kit/table.tsx';
import { Duration, Time } from '../kit/time.tsx';
import { toast } from '../kit/toast.tsx';
import { type Resource, useResource } from '../resource.ts';
import type { Params } from '../router.ts';
import { DrainPanel, startDrain } from './drain-panel.tsx';
import { EnabledPill } from './flows-page.tsx';
import { readManifest } from './manifest.ts';
import { RevisionsPanel } from './revisions-panel.tsx';
import { StartDialog } from './start-dialog.tsx';
import { TriggersPanel } from './triggers-panel.tsx';

/** One flow: its graph, how it is started, what its gates do, and what it did last. */
export function FlowPage({ params }: { params: Params }) {
  const { id = '' } = params;
  const flow = useResource<FlowDetail>(`/flows/${encodeURIComponent(id)}`);
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

function Badges({ flow: { isEnabled, version, revision, drainingSince } }: { flow: Flow }) {
  return (
    <>
      <EnabledPill isEnabled={isEnabled} isDraining={drainingSince !== null} />
      <span class="muted">{`version ${version}, revision ${revision}`}</span>
    </>
  );
}

function Actions({ flow, refresh }: { flow: FlowDetail; refresh: () => void }) {
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

async function switchFlow({ id, name, isEnabled }: Flow, refresh: () => void): Promise<void> {
  const isSure =
    !isEnabled ||
    (await confirm({
      title: `Disable ${name}?`,
      body: (
        <p>
          Its schedules start nothing and its webhooks answer 403; those with <code>webhookHoldDeliveries</code> go on
          accepting, and what they accept runs once it is enabled. Runs in flight go on to their end.
        </p>
      ),
      action: 'Disable',
      isDangerous: true,
    }));
  if (!isSure) return;
  try {
    await ask(`/flows/${id}/${isEnabled ? 'disable' : 'enable'}`, { method: 'POST' });
    toast('good', `${name} is ${isEnabled ? 'disabled' : 'enabled'}.`);
  } catch (error) {
    toast('bad', messageOf(error));
  }
  refresh();
}

function Detail({ flow, refresh }: { flow: FlowDetail; refresh: () => void }) {
  const { steps } = readManifest(flow.manifest);
  return (
    <>
      {flow.isEnabled ? null : (
        <p class="notice warn">
          <Icon name="off" />
          <span>
            The flow is disabled: nothing starts a run, and runs in flight go on.
            {flow.held === 0 ? '' : ` ${counted(flow.held, 'delivery is', 'deliveries are')} held until it is enabled.`}
          </span>
        </p>
      )}
      {flow.drainingSince === null ? null : <DrainPanel flow={flow} refresh={refresh} />}
      <Panel title="Steps">
        <FlowGraph graph={steps} />
      </Panel>
      <TriggersPanel flow={flow} />
      <ReadinessPanels flowId={flow.id} />
      <RecentRuns flowId={flow.id} />
      <RevisionsPanel flowId={flow.id} inForce={flow.revision} />
      <Panel title="Manifest" aside={`revision ${flow.revision}, secrets masked`}>
        <JsonView value={flow.manifest} label="the manifest" />
      </Panel>
    </>
  );
}

function ReadinessPanels({ flowId }: { flowId: string }) {
  const readiness = useResource<readonly Readiness[]>(withQuery('/webhooks/readiness', { flowId, hours: 168 }), {
    refreshOn: ['delivery.received'],
  });
  return (
    <>
      {(readiness.data ?? []).map((trigger) => (
        <ReadinessPanel
          key={trigger.triggerKey}
          readiness={trigger}
          title={`Safe to enforce ${trigger.triggerKey}? By the last 7 days`}
        />
      ))}
    </>
  );
}

function RecentRuns({ flowId }: { flowId: string }) {
  const runs: Resource<readonly Run[]> = useResource(withQuery('/runs', { flowId, take: 5 }), {
    refreshOn: ['run.started', 'run.completed'],
  });
  return (
    <Panel title="Newest runs" aside={<a href={withQuery('/flows/runs', { flowId })}>All</a>} isFlush>
      <Loaded of={runs}>
        {(list) =>
          list.length === 0 ? (
            <Empty icon="runs" title="It has not run yet">
              <p>Send it a delivery with the command above, or start a run by hand.</p>
            </Empty>
          ) : (
            <Table
              label="Newest runs"
              columns={[
                { name: 'Started', cell: ({ startedAt }) => <Time at={startedAt} withClock /> },
                { name: 'Status', cell: ({ status }) => <StatusPill status={status} /> },
                { name: 'Trigger', cell: ({ triggerKey }) => triggerKey },
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
