import type { Attention, Delivery, DeliveryStats, Flow, PageOf, Run } from '../api-types.ts';
import { Segments } from '../kit/filters.tsx';
import { Empty, Loaded, Page, Panel } from '../kit/page.tsx';
import { useResource } from '../resource.ts';
import { useQuery } from '../router.ts';
import { AttentionList } from './attention-list.tsx';
import { DeliveryChart, RunChart } from './charts.tsx';
import { FirstDelivery } from './first-delivery.tsx';
import { ReasonBars } from './reason-bars.tsx';
import { RunsInFlight, SHOWN_RUNS } from './runs-in-flight.tsx';
import { WINDOWS, windowOf } from './windows.ts';

/** What comes in, what becomes of it, and what needs a person. */
export function OverviewPage() {
  const [query, changeQuery] = useQuery();
  const window = windowOf(query.get('window'));
  const newest = useResource<readonly Delivery[]>('/webhooks/recent?take=1', { refreshOn: ['delivery.received'] });
  const runs = useResource<readonly Run[]>('/runs?take=1', { refreshOn: ['run.started'] });
  const isNew = newest.data?.length === 0 && runs.data?.length === 0;
  return (
    <Page
      title="Overview"
      actions={
        <Segments
          label="Window of the charts"
          choices={WINDOWS.map(({ value, text }) => ({ value, text }))}
          value={window.value}
          onChange={(value) => changeQuery({ window: value === WINDOWS[0]?.value ? undefined : value })}
        />
      }
    >
      {isNew ? <Welcome /> : null}
      <AttentionPanel />
      <div class="columns">
        <DeliveryChart window={window} />
        <RunChart window={window} />
      </div>
      <div class="columns">
        <ReasonsPanel />
        <InFlightPanel />
      </div>
    </Page>
  );
}

function Welcome() {
  const flows = useResource<readonly Flow[]>('/flows');
  return (
    <Panel title="Send the first delivery">
      <Loaded of={flows}>{(list) => <FirstDelivery flows={list} />}</Loaded>
    </Panel>
  );
}

function AttentionPanel() {
  const attention = useResource<readonly Attention[]>('/attention', {
    refreshOn: ['delivery.received', 'run.completed'],
  });
  return (
    <Panel title="Needs attention" isFlush>
      <Loaded of={attention}>{(items) => <AttentionList items={items} />}</Loaded>
    </Panel>
  );
}

function ReasonsPanel() {
  const stats = useResource<DeliveryStats>('/webhooks/stats?hours=24', { refreshOn: ['delivery.received'] });
  return (
    <Panel title="Why deliveries failed a gate" aside="24 hours">
      <Loaded of={stats}>{(answer) => <ReasonBars stats={answer} />}</Loaded>
    </Panel>
  );
}

function InFlightPanel() {
  const runs = useResource<PageOf<Run>>(`/runs?status=Running&includeTotal=true&take=${SHOWN_RUNS}`, {
    refreshOn: ['run.started', 'run.completed'],
  });
  return (
    <Panel title="Runs in flight" aside={<a href="/flows/runs?status=Running">All</a>} isFlush>
      <Loaded of={runs}>
        {({ items, total }) =>
          items.length === 0 ? (
            <Empty icon="runs" title="No run is in flight">
              <p>
                Runs that wait for a time, a retry or a signal stand here too.{' '}
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
