import { ALL_FLOWS, isTotalBound, skipOf } from '../../dashboard/web/address.ts';
import type { Api, PageOf } from '../../dashboard/web/api-types.ts';
import { format } from '../../dashboard/web/format.ts';
import { CodeLine } from '../../dashboard/web/kit/copy.tsx';
import {
  type Column,
  FlowFilter,
  keyColumns,
  NoMatch,
  Pager,
  SearchedUntil,
  SearchFilter,
  Segments,
  SelectFilter,
  SpanFilter,
  Table,
} from '../../dashboard/web/kit/list.tsx';
import { Empty, Loaded, Page, Total } from '../../dashboard/web/kit/page.tsx';
import { Duration, Time } from '../../dashboard/web/kit/time.tsx';
import { LOOKS } from '../../dashboard/web/looks.ts';
import { type PagePart, shownAt } from '../../dashboard/web/part.ts';
import { type Resource, useResource } from '../../dashboard/web/resource.ts';
import { useQuery } from '../../dashboard/web/router.ts';
import { CauseFilters, CauseList } from './page/causes.tsx';
import { runList } from './page/list.ts';
import { WAITS } from './page/looks.ts';
import { RunPage } from './page/run-page.tsx';
import { RunPill, RunWhy } from './page/run-pill.tsx';

const RUN_STATUSES = ['Running', 'Succeeded', 'Failed', 'TimedOut', 'Cancelled', 'Skipped'] as const;

const SHOWN = [
  { value: '', text: 'Runs' },
  { value: 'cause', text: 'Failures by cause' },
] as const;

const WAIT_CHOICES = Object.entries(WAITS).map(([value, { label }]) => ({
  value,
  text: `For ${label.charAt(0).toLowerCase()}${label.slice(1)}`,
}));

const columnsOf = (runs: readonly Api['Run'][]): readonly Column<Api['Run']>[] => [
  { name: 'Status', cell: (run) => <RunPill run={run} /> },
  { name: 'Flow', cell: ({ flowName }) => flowName },
  ...keyColumns(runs),
  { name: 'Why', fills: true, cell: (run) => <RunWhy run={run} /> },
  {
    name: 'Started by',
    isMinor: true,
    cell: ({ triggerKey, triggerType, sourceRunId }) => (
      <>
        {triggerKey}{' '}
        <span class="muted">
          {sourceRunId === null || triggerType === 'failure' || triggerType === 'flow' ? triggerType : 're-run'}
        </span>
      </>
    ),
  },
  { name: 'Started', cell: ({ startedAt }) => <Time at={startedAt} withClock /> },
  {
    name: 'Took',
    align: 'end',
    isMinor: true,
    cell: ({ startedAt, completedAt }) => <Duration from={startedAt} to={completedAt} />,
  },
  { name: 'Revision', isMinor: true, align: 'end', cell: ({ revision }) => revision },
  { name: 'Run', isMinor: true, cell: ({ id }) => <code title={id}>{format.shortId(id)}</code> },
];

/** Runs, newest first. The address keeps the filters; the list updates with live events. */
function RunsPage() {
  const [query, changeQuery] = useQuery();
  const isGrouped = query.get('group') === 'cause';
  const runs = useResource<PageOf<Api['Run']>>(runList.path(query), {
    refreshOn: ['run.started', 'run.completed'],
    keepPrevious: true,
  });
  const flows = useResource<readonly Api['Flow'][]>(ALL_FLOWS);
  const statusChoices = RUN_STATUSES.map((status) => ({ value: status, text: LOOKS.status[status][2] }));
  return (
    <Page
      title="Runs"
      badges={
        runs.data === undefined ? null : (
          <Total count={runs.data.total} isBound={isTotalBound(query, runs.data.total)} />
        )
      }
      actions={shownAt('runsTools', {})}
    >
      <search class="filters">
        <SearchFilter label="Search by id, search key, flow or trigger" />
        <FlowFilter flows={flows} />
        <SelectFilter name="status" label="Status" choices={[{ value: '', text: 'All statuses' }, ...statusChoices]} />
        <SelectFilter
          name="waiting"
          label="Waiting for"
          choices={[{ value: '', text: 'Waiting or not' }, ...WAIT_CHOICES]}
        />
        <SpanFilter />
        <Segments
          label="Show"
          choices={SHOWN}
          value={isGrouped ? 'cause' : ''}
          onChange={(group) =>
            changeQuery({ group: group === '' ? undefined : group, skip: undefined, sort: undefined })
          }
        />
      </search>
      <CauseFilters />
      {shownAt('runsChart', {})}
      {isGrouped ? <CauseList flows={flows.data ?? []} /> : <RunList runs={runs} flows={flows.data ?? []} />}
    </Page>
  );
}

interface RunListProps {
  readonly runs: Resource<PageOf<Api['Run']>>;
  readonly flows: readonly Api['Flow'][];
}

function RunList({ runs, flows }: RunListProps) {
  const [query] = useQuery();
  return (
    <>
      <SearchedUntil at={runs.data?.searchedUntil} />
      <div class="panel">
        <Loaded of={runs} lines={8}>
          {({ items, total, skip, take }) =>
            items.length === 0 ? (
              <NoRuns isFiltered={runList.isNarrowed(query)} flows={flows} />
            ) : (
              <>
                <Table
                  label="Runs"
                  columns={columnsOf(items)}
                  rows={items}
                  keyOf={({ id }) => id}
                  hrefOf={({ id }) => `/flows/runs/${id}`}
                  isStale={runs.isLoading && runs.data !== undefined && runs.data.skip !== skipOf(query)}
                />
                <Pager total={total} skip={skip} take={take} />
              </>
            )
          }
        </Loaded>
      </div>
    </>
  );
}

function NoRuns({ isFiltered, flows }: { isFiltered: boolean; flows: readonly Api['Flow'][] }) {
  if (isFiltered) {
    return <NoMatch what="runs" path="/flows/runs" />;
  }
  const [command] = flows.flatMap(({ triggers }) => triggers.flatMap((trigger) => trigger.sendCommand ?? []));
  return (
    <Empty icon="runs" title="No runs yet">
      {command === undefined ? (
        <p>
          A run begins when a delivery is accepted, a schedule fires, or you start one from a{' '}
          <a href="/flows/flows">flow</a>.
        </p>
      ) : (
        <>
          <p>Send a signed sample delivery from the project’s folder, and its run appears here:</p>
          <CodeLine text={command} label="command" />
        </>
      )}
    </Empty>
  );
}

export const runsPage: PagePart = {
  name: 'runs',
  routes: [
    { path: '/flows/runs', page: RunsPage, title: 'Runs', question: runList.path },
    { path: '/flows/runs/:id', page: RunPage, title: 'Run' },
  ],
  place: { text: 'Runs', href: '/flows/runs', key: 'r', icon: 'runs' },
};
