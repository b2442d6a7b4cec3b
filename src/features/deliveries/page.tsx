import { ALL_FLOWS, isTotalBound, skipOf } from '../../dashboard/web/address.ts';
import type { Api, PageOf } from '../../dashboard/web/api-types.ts';
import { format } from '../../dashboard/web/format.ts';
import {
  type Column,
  FlowFilter,
  keyColumns,
  NoMatch,
  Pager,
  SearchedUntil,
  SearchFilter,
  SelectFilter,
  SpanFilter,
  Table,
} from '../../dashboard/web/kit/list.tsx';
import { Empty, Loaded, Page, Total } from '../../dashboard/web/kit/page.tsx';
import { StatusPill } from '../../dashboard/web/kit/pill.tsx';
import { Time } from '../../dashboard/web/kit/time.tsx';
import { type PagePart, shownAt } from '../../dashboard/web/part.ts';
import { type Resource, useResource } from '../../dashboard/web/resource.ts';
import { useQuery } from '../../dashboard/web/router.ts';
import { DeliveryPage } from './delivery-page.tsx';
import { DeliveryPill, ReasonText } from './page/delivery-pill.tsx';
import { deliveryList, lastPartOf } from './page/list.ts';
import { REASONS } from './page/words.ts';

/** Lists stored deliveries, filtered by the page's address. */
function DeliveriesPage() {
  const [query] = useQuery();
  const flows = useResource<readonly Api['Flow'][]>(ALL_FLOWS);
  const deliveries = useResource<PageOf<Api['Delivery']>>(deliveryList.path(query), {
    refreshOn: ['delivery.received', 'run.completed'],
    keepPrevious: true,
  });
  const total = deliveries.data?.total;
  return (
    <Page
      title="Deliveries"
      badges={total === undefined ? null : <Total count={total} isBound={isTotalBound(query, total)} />}
      actions={shownAt('deliveriesTools', { flows: flows.data ?? [] })}
    >
      <Filters flows={flows} />
      {shownAt('deliveriesChart', {})}
      <DeliveryList flows={flows.data ?? []} deliveries={deliveries} />
    </Page>
  );
}

function Filters({ flows }: { flows: Resource<readonly Api['Flow'][]> }) {
  return (
    <search class="filters">
      <SearchFilter label="Search by id, search key, address or detail" />
      <FlowFilter flows={flows} />
      <SelectFilter
        name="outcome"
        label="Outcome"
        choices={[
          { value: '', text: 'All outcomes' },
          { value: 'accepted', text: 'Passed every gate' },
          { value: 'rejected', text: 'Failed a gate or refused' },
          { value: 'held', text: 'Held: no run yet' },
          { value: 'duplicate', text: 'Duplicate: run of the first' },
          { value: 'filtered', text: 'Filtered: no run' },
          { value: 'coalesced', text: 'Joined the run of another' },
          { value: 'answered', text: 'For steps that wait' },
          { value: 'unevaluated', text: 'An expression failed' },
          { value: 'givenUp', text: 'Given up: never fetched' },
        ]}
      />
      <SelectFilter
        name="reason"
        label="Reason"
        choices={[
          { value: '', text: 'All reasons' },
          ...Object.entries(REASONS).map(([reason, { label }]) => ({ value: reason, text: label })),
        ]}
      />
      <SpanFilter />
    </search>
  );
}

interface DeliveryListProps {
  readonly flows: readonly Api['Flow'][];
  readonly deliveries: Resource<PageOf<Api['Delivery']>>;
}

function DeliveryList({ flows, deliveries }: DeliveryListProps) {
  const [query] = useQuery();
  const skip = skipOf(query);
  return (
    <>
      <SearchedUntil at={deliveries.data?.searchedUntil} />
      <div class="panel">
        <Loaded of={deliveries} lines={12}>
          {({ items, total, take }) =>
            items.length === 0 ? (
              <NoDeliveries />
            ) : (
              <>
                <DeliveryTable rows={items} flows={flows} isStale={deliveries.isLoading} />
                <Pager total={total} skip={skip} take={take} />
              </>
            )
          }
        </Loaded>
      </div>
    </>
  );
}

function NoDeliveries() {
  const [query] = useQuery();
  if (deliveryList.isNarrowed(query)) {
    return <NoMatch what="deliveries" path="/flows/deliveries" />;
  }
  return (
    <Empty icon="deliveries" title="No deliveries yet">
      <p>
        <a href="/flows">The overview</a> has a command that sends one. Each flow under <a href="/flows/flows">Flows</a>{' '}
        shows the address for its publisher.
      </p>
    </Empty>
  );
}

interface DeliveryTableProps {
  readonly rows: readonly Api['Delivery'][];
  readonly flows: readonly Api['Flow'][];
  readonly isStale: boolean;
}

function DeliveryTable({ rows, flows, isStale }: DeliveryTableProps) {
  const names = new Map(flows.map(({ id, name }) => [id, name]));
  const columns: readonly Column<Api['Delivery']>[] = [
    { name: 'Received', cell: ({ receivedAt }) => <Time at={receivedAt} withClock /> },
    { name: 'Outcome', cell: (delivery) => <DeliveryPill delivery={delivery} /> },
    { name: 'Reason', cell: ({ reason }) => <ReasonText reason={reason} /> },
    { name: 'Flow', cell: (delivery) => <FlowCell delivery={delivery} names={names} /> },
    ...keyColumns(rows),
    { name: 'Scheme', cell: ({ scheme }) => scheme ?? <span class="muted">none</span>, isMinor: true },
    { name: 'Client', cell: ({ clientIp }) => <span class="mono">{clientIp}</span>, isMinor: true },
    { name: 'Size', cell: ({ bodyBytes }) => format.bytes(bodyBytes), align: 'end', isMinor: true },
    { name: 'Status', cell: ({ statusCode }) => statusCode, align: 'end', isMinor: true },
    { name: 'Run', cell: RunCell, isMinor: true },
  ];
  return (
    <Table
      label="Deliveries"
      columns={columns}
      rows={rows}
      keyOf={({ id }) => id}
      hrefOf={({ id }) => `/flows/deliveries/${id}`}
      isStale={isStale}
    />
  );
}

function FlowCell({ delivery, names }: { delivery: Api['Delivery']; names: ReadonlyMap<string, string> }) {
  const { flowId, triggerKey } = delivery;
  if (flowId === null) {
    return (
      <>
        <span class="muted">unknown</span>
        {delivery.requestUrl === null ? null : (
          <span class="muted minor mono break">{` ${lastPartOf(delivery.requestUrl)}`}</span>
        )}
      </>
    );
  }
  return (
    <>
      {names.get(flowId) ?? <span class="mono">{format.shortId(flowId)}</span>}
      {triggerKey === null ? null : <span class="muted minor">{` / ${triggerKey}`}</span>}
    </>
  );
}

function RunCell({ runId, runStatus, held }: Api['Delivery']) {
  if (held) return <span class="muted nowrap">not started</span>;
  if (runId === null) return <span class="muted">–</span>;
  return (
    <a class={runStatus === null ? 'mono' : ''} href={`/flows/runs/${runId}`} title={`Run ${runId}`}>
      {runStatus === null ? format.shortId(runId) : <StatusPill status={runStatus} />}
    </a>
  );
}

export const deliveriesPage: PagePart = {
  name: 'deliveries',
  routes: [
    { path: '/flows/deliveries', page: DeliveriesPage, title: 'Deliveries', question: deliveryList.path },
    { path: '/flows/deliveries/:id', page: DeliveryPage, title: 'Delivery' },
  ],
  place: { text: 'Deliveries', href: '/flows/deliveries', key: 'd', icon: 'deliveries' },
};
