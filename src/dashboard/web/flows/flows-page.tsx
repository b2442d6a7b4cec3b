import { flowMatches } from '../address.ts';
import type { Api } from '../api-types.ts';
import { format } from '../format.ts';
import { type Column, SearchFilter, Table } from '../kit/list.tsx';
import { Empty, Loaded, Page } from '../kit/page.tsx';
import { Icon, ModePill, Pill } from '../kit/pill.tsx';
import { Time } from '../kit/time.tsx';
import { useResource } from '../resource.ts';
import { useQuery } from '../router.ts';

const COLUMNS: readonly Column<Api['Flow']>[] = [
  { name: 'Flow', cell: ({ name }) => name },
  {
    name: 'State',
    cell: ({ isEnabled, drainingSince }) => <EnabledPill isEnabled={isEnabled} isDraining={drainingSince !== null} />,
  },
  { name: 'Triggers', cell: TriggersCell },
  { name: 'In flight', cell: ({ runs }) => <RunCount number={runs.running} />, align: 'end', isMinor: true },
  { name: 'Succeeded, 24 h', cell: ({ runs }) => <RunCount number={runs.succeeded} />, align: 'end', isMinor: true },
  { name: 'Failed, 24 h', cell: ({ runs }) => <RunCount number={runs.failed} isBad />, align: 'end' },
  { name: 'Version', cell: ({ version, revision }) => `${version}, revision ${revision}`, isMinor: true },
  { name: 'Changed', cell: ({ updatedAt }) => <Time at={updatedAt} />, align: 'end', isMinor: true },
];

/** Every deployed flow. */
export function FlowsPage() {
  const flows = useResource<readonly Api['Flow'][]>('/flows?take=500', { refreshOn: ['run.started', 'run.completed'] });
  const [query] = useQuery();
  const wanted = query.get('search') ?? '';
  return (
    <Page title="Flows">
      <search class="filters">
        <SearchFilter label="Search name, id or slug" />
      </search>
      <section class="panel" aria-label="Flows">
        <Loaded of={flows} lines={6}>
          {(list) => (
            <FlowTable flows={list.filter((flow) => flowMatches(flow, wanted))} isFiltered={wanted.trim() !== ''} />
          )}
        </Loaded>
      </section>
    </Page>
  );
}

function FlowTable({ flows, isFiltered }: { flows: readonly Api['Flow'][]; isFiltered: boolean }) {
  if (flows.length === 0) {
    return isFiltered ? (
      <Empty icon="search" title="No flows match" />
    ) : (
      <Empty icon="flows" title="No flows are deployed">
        <p>Add a manifest to the manifests folder, then restart the service.</p>
      </Empty>
    );
  }
  return (
    <Table
      label="Flows"
      columns={COLUMNS}
      rows={flows}
      keyOf={({ id }) => id}
      hrefOf={({ id }) => `/flows/flows/${id}`}
    />
  );
}

function RunCount({ number, isBad = false }: { number: number; isBad?: boolean }) {
  const tone = number === 0 ? 'muted' : isBad ? 'bad-text' : '';
  return <span class={tone}>{format.count(number)}</span>;
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
