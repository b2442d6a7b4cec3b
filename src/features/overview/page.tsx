import type { Api, PageOf } from '../../dashboard/web/api-types.ts';
import { format } from '../../dashboard/web/format.ts';
import { CodeLine } from '../../dashboard/web/kit/copy.tsx';
import { type Column, Table } from '../../dashboard/web/kit/list.tsx';
import { Empty, Loaded, Page, Panel } from '../../dashboard/web/kit/page.tsx';
import { Time } from '../../dashboard/web/kit/time.tsx';
import { type PagePart, shownAt } from '../../dashboard/web/part.ts';
import { useResource } from '../../dashboard/web/resource.ts';
import { RunPill, RunWhy } from '../runs/page/run-pill.tsx';

/** Incoming deliveries, their results, and what needs a person. */
function OverviewPage() {
  const newest = useResource<readonly Api['Delivery'][]>('/webhooks/recent?take=1', {
    refreshOn: ['delivery.received'],
  });
  const runs = useResource<readonly Api['Run'][]>('/runs?take=1', { refreshOn: ['run.started'] });
  const isNew = newest.data?.length === 0 && runs.data?.length === 0;
  return (
    <Page title="Overview" actions={shownAt('overviewTools', {})}>
      {isNew ? <Welcome /> : null}
      {shownAt('overviewTop', {})}
      <div class="columns">
        {shownAt('overviewColumns', {})}
        <InFlightPanel />
      </div>
      {shownAt('overview', {})}
    </Page>
  );
}

function Welcome() {
  const flows = useResource<readonly Api['Flow'][]>('/flows');
  return (
    <Panel title="Send the first delivery">
      <Loaded of={flows}>{(list) => <FirstDelivery flows={list} />}</Loaded>
    </Panel>
  );
}

function InFlightPanel() {
  const runs = useResource<PageOf<Api['Run']>>(`/runs?status=Running&includeTotal=true&take=${SHOWN_RUNS}`, {
    refreshOn: ['run.started', 'run.completed'],
  });
  return (
    <Panel title="Runs in flight" aside={<a href="/flows/runs?status=Running">All</a>} isFlush>
      <Loaded of={runs}>
        {({ items, total }) =>
          items.length === 0 ? (
            <Empty icon="runs" title="No runs in flight">
              <p>
                Runs that wait for a time, a retry or a signal also appear here.{' '}
                <a href="/flows/runs">See finished runs</a>
              </p>
            </Empty>
          ) : (
            <RunsInFlight runs={items} total={total} />
          )
        }
      </Loaded>
    </Panel>
  );
}

/** A first command to paste into a terminal. */
function FirstDelivery({ flows }: { flows: readonly Api['Flow'][] }) {
  const [first] = flows.flatMap(({ triggers }) => triggers.flatMap((trigger) => trigger.sendCommand ?? []));
  if (first === undefined) {
    return (
      <Empty icon="flows" title="No webhook has an address">
        <p>Add a manifest with a webhook trigger and a slug to the manifests folder, then restart the service.</p>
      </Empty>
    );
  }
  return (
    <div class="stack">
      <p>
        No delivery has arrived yet. This command signs a sample as its publisher would and sends it here. Run it where
        you started the service:
      </p>
      <CodeLine text={first} label="the command" />
      <p class="muted">
        This page then shows the delivery and its run. <a href="/flows/flows">See all flows</a>
      </p>
    </div>
  );
}

const SHOWN_RUNS = 8;

const COLUMNS: readonly Column<Api['Run']>[] = [
  { name: 'Flow', cell: ({ flowName }) => flowName },
  { name: 'Status', cell: (run) => <RunPill run={run} /> },
  { name: 'Why', cell: (run) => <RunWhy run={run} /> },
  { name: 'Trigger', cell: ({ triggerKey }) => triggerKey, isMinor: true },
  { name: 'Started', cell: ({ startedAt }) => <Time at={startedAt} />, align: 'end' },
];

/** The newest runs in flight. */
function RunsInFlight({ runs, total }: { runs: readonly Api['Run'][]; total: number }) {
  return (
    <>
      <Table
        label="Runs in flight"
        columns={COLUMNS}
        rows={runs}
        keyOf={({ id }) => id}
        hrefOf={({ id }) => `/flows/runs/${id}`}
      />
      {total > runs.length ? (
        <p class="more">
          <a href="/flows/runs?status=Running">{`${format.count(total - runs.length)} more`}</a>
        </p>
      ) : null}
    </>
  );
}

export const overviewPage: PagePart = {
  name: 'overview',
  routes: [{ path: '/flows', page: OverviewPage, title: 'Overview' }],
  place: { text: 'Overview', href: '/flows', key: 'o', icon: 'overview' },
};
