import { ALL_FLOWS, flowMatches } from '../../dashboard/web/address.ts';
import type { Api } from '../../dashboard/web/api-types.ts';
import { format } from '../../dashboard/web/format.ts';
import { type Column, NoMatch, SearchFilter, Table } from '../../dashboard/web/kit/list.tsx';
import { Empty, Loaded, Page, Total } from '../../dashboard/web/kit/page.tsx';
import { Icon, ModePill, Pill } from '../../dashboard/web/kit/pill.tsx';
import { Time } from '../../dashboard/web/kit/time.tsx';
import { shownAt, useFlowColumns } from '../../dashboard/web/part.ts';
import { useResource } from '../../dashboard/web/resource.ts';
import { useQuery } from '../../dashboard/web/router.ts';

const NAMES: readonly Column<Api['Flow']>[] = [
  { name: 'Flow', cell: ({ name }) => name, sortBy: ({ name }) => name },
  {
    name: 'State',
    sortBy: ({ isEnabled, drainingSince }) => Number(!isEnabled) * 2 + Number(drainingSince !== null),
    cell: ({ isEnabled, drainingSince }) => <EnabledPill isEnabled={isEnabled} isDraining={drainingSince !== null} />,
  },
  { name: 'Triggers', cell: TriggersCell, isMinor: true },
];

const RUNS: readonly Column<Api['Flow']>[] = [
  {
    name: 'In flight',
    cell: ({ runs }) => <RunCount number={runs.running} />,
    align: 'end',
    isMinor: true,
    sortBy: ({ runs }) => runs.running,
  },
  {
    name: 'Succeeded, 24 h',
    cell: ({ runs }) => <SuccessRate runs={runs} />,
    align: 'end',
    isMinor: true,
    sortBy: ({ runs }) => successRate(runs),
  },
  {
    name: 'Failed, 24 h',
    cell: ({ runs }) => <RunCount number={runs.failed} isBad />,
    align: 'end',
    sortBy: ({ runs }) => runs.failed,
  },
  { name: 'Version', cell: VersionCell, isMinor: true },
  {
    name: 'Changed',
    cell: ({ updatedAt }) => <Time at={updatedAt} />,
    align: 'end',
    isMinor: true,
    sortBy: ({ updatedAt }) => Date.parse(updatedAt),
  },
];

/** Lists the deployed flows. */
export function FlowsPage() {
  const flows = useResource<readonly Api['Flow'][]>(ALL_FLOWS, { refreshOn: ['run.started', 'run.completed'] });
  const [query, changeQuery] = useQuery();
  const isAll = query.get('builtIn') === 'true';
  const shown = flows.data?.filter(({ builtIn }) => isAll || !builtIn);
  const wanted = query.get('search') ?? '';
  return (
    <Page
      title="Flows"
      badges={shown === undefined ? null : <Total count={shown.length} />}
      actions={shownAt('flowsTools', {})}
    >
      <search class="filters">
        <SearchFilter label="Search by name, id or slug" />
        {flows.data?.some(({ builtIn }) => builtIn) ? (
          <label class="check">
            <input
              type="checkbox"
              checked={isAll}
              onChange={() => changeQuery({ builtIn: isAll ? undefined : 'true' })}
            />{' '}
            Built-in flows
          </label>
        ) : null}
      </search>
      <div class="panel">
        <Loaded of={flows} lines={6}>
          {() => (
            <FlowTable
              flows={(shown ?? []).filter((flow) => flowMatches(flow, wanted))}
              isFiltered={wanted.trim() !== ''}
            />
          )}
        </Loaded>
      </div>
    </Page>
  );
}

function FlowTable({ flows, isFiltered }: { flows: readonly Api['Flow'][]; isFiltered: boolean }) {
  const added = useFlowColumns();
  if (flows.length === 0) {
    return isFiltered ? (
      <NoMatch what="flows" path="/flows/flows" />
    ) : (
      <Empty icon="flows" title="No flows are deployed">
        <p>
          <a href="/flows/publishers">Choose who sends</a>, <a href="/flows/flows/new">deploy a manifest here</a>, or
          add one to the manifests folder and restart the service.
        </p>
      </Empty>
    );
  }
  return (
    <Table
      label="Flows"
      columns={[...NAMES, ...added, ...RUNS]}
      rows={flows}
      keyOf={({ id }) => id}
      hrefOf={({ id }) => `/flows/flows/${id}`}
    />
  );
}

function VersionCell({ version, revision }: Api['Flow']) {
  return `${version}, revision ${revision}`;
}

function RunCount({ number, isBad = false }: { number: number; isBad?: boolean }) {
  const tone = number === 0 ? 'muted' : isBad ? 'bad-text' : '';
  return <span class={tone}>{format.count(number)}</span>;
}

/** The share of successful runs among those that succeeded or failed; null if there were none. */
function successRate({ succeeded, failed }: Pick<Api['Flow']['runs'], 'succeeded' | 'failed'>): number | null {
  return succeeded + failed === 0 ? null : succeeded / (succeeded + failed);
}

function SuccessRate({ runs }: Pick<Api['Flow'], 'runs'>) {
  const rate = successRate(runs);
  if (rate === null) return <span class="muted">–</span>;
  const { succeeded, failed } = runs;
  return (
    <span class="rate" title={`${format.count(succeeded)} succeeded, ${format.count(failed)} failed`}>
      <span class="rate-bar" aria-hidden="true">
        <span style={{ width: `${rate * 100}%` }} />
      </span>
      <span class="rate-text">{format.percent(rate)}</span>
    </span>
  );
}

export function EnabledPill({ isEnabled, isDraining }: { isEnabled: boolean; isDraining: boolean }) {
  if (isEnabled && isDraining) {
    return (
      <Pill tone="busy" icon="pause">
        Draining
      </Pill>
    );
  }
  return (
    <Pill tone={isEnabled ? 'good' : 'warn'} icon={isEnabled ? 'check' : 'off'}>
      {isEnabled ? 'Enabled' : 'Disabled'}
    </Pill>
  );
}

const TRIGGER_ICONS = { manual: 'play', cron: 'clock', webhook: 'deliveries' } as const;

function TriggersCell({ triggers }: Api['Flow']) {
  if (triggers.length === 0) return <span class="muted">none</span>;
  return (
    <span class="triggers-cell">
      {triggers.map(({ key, type, mode }) => (
        <span key={key} title={`${type} trigger`}>
          <Icon name={TRIGGER_ICONS[type]} />
          {key}
          {mode === undefined ? null : <ModePill mode={mode} />}
        </span>
      ))}
    </span>
  );
}
