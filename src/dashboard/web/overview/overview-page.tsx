import { pageParts } from '../../../features/page.ts';
import type { Api, PageOf } from '../api-types.ts';
import { format } from '../format.ts';
import { CodeLine } from '../kit/copy.tsx';
import { type Column, Segments, Table } from '../kit/list.tsx';
import { Empty, Loaded, Page, Panel, Total } from '../kit/page.tsx';
import { Icon, RunPill, RunWhy, StatusPill } from '../kit/pill.tsx';
import { Message, Time } from '../kit/time.tsx';
import type { Look } from '../looks.ts';
import { useResource } from '../resource.ts';
import { useQuery } from '../router.ts';
import { seesService } from '../scopes.ts';
import { words } from '../words.ts';
import { reasonCounts, WINDOWS, windowOf } from './chart-data.ts';
import { Charts } from './charts.tsx';
import { ConsumersPanel } from './consumers-panel.tsx';

/** What comes in, what becomes of it, and what needs a person. */
export function OverviewPage() {
  const [query, changeQuery] = useQuery();
  const window = windowOf(query.get('window'));
  const newest = useResource<readonly Api['Delivery'][]>('/webhooks/recent?take=1', {
    refreshOn: ['delivery.received'],
  });
  const runs = useResource<readonly Api['Run'][]>('/runs?take=1', { refreshOn: ['run.started'] });
  const isNew = newest.data?.length === 0 && runs.data?.length === 0;
  return (
    <Page
      title="Overview"
      actions={
        <Segments
          label="Window of the charts"
          choices={WINDOWS.map(({ value, text }) => ({ value, text }))}
          value={window.value}
          onChange={(value) => changeQuery({ window: value === windowOf(null).value ? undefined : value })}
        />
      }
    >
      {isNew ? <Welcome /> : null}
      <AttentionPanel />
      <Charts window={window.window} />
      <div class="columns">
        <ReasonsPanel />
        <InFlightPanel />
      </div>
      {pageParts.map(({ name, overview: OwnPanel }) => (OwnPanel === undefined ? null : <OwnPanel key={name} />))}
      {seesService ? <AlertsPanel /> : null}
      <ConsumersPanel />
      {seesService ? <ReplicasPanel /> : null}
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

function AttentionPanel() {
  const attention = useResource<readonly Api['Attention'][]>('/attention', {
    refreshOn: ['attention.changed'],
  });
  return (
    <Panel title="Needs attention" isFlush>
      <Loaded of={attention}>{(items) => <AttentionList items={items} />}</Loaded>
    </Panel>
  );
}

function ReasonsPanel() {
  const stats = useResource<Api['DeliveryStats']>('/webhooks/stats?hours=24', { refreshOn: ['delivery.received'] });
  return (
    <Panel title="Why deliveries failed a gate" aside="24 hours">
      <Loaded of={stats}>{(answer) => <ReasonBars stats={answer} />}</Loaded>
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

const ALERT_COLUMNS: readonly Column<Api['AlertTarget']>[] = [
  { name: 'Target', cell: ({ name, type }) => `${name} (${type})` },
  {
    name: 'Told of',
    cell: ({ kinds, severities, flows }) =>
      `${severities.map((severity) => SEVERITY_WORDS[severity]).join(', ')}: ${kindsText(kinds)}${flows === null ? '' : ` of ${flows.join(', ')}`}`,
    isMinor: true,
  },
  {
    name: 'Last message',
    cell: ({ lastMessage }) =>
      lastMessage === null ? (
        'None yet'
      ) : (
        <a href={`/flows/runs/${lastMessage.runId}`}>
          <Time at={lastMessage.at} />
        </a>
      ),
    align: 'end',
  },
  {
    name: 'Result',
    cell: ({ lastMessage }) =>
      lastMessage === null || lastMessage.status === null ? '' : <StatusPill status={lastMessage.status} />,
  },
];

const SEVERITY_WORDS: Readonly<Record<Api['Attention']['severity'], string>> = {
  error: 'Errors',
  warning: 'warnings',
  info: 'notes',
};

const SHOWN_KINDS = 3;

/** The attention list has many kinds. */
function kindsText(kinds: Api['AlertTarget']['kinds']): string {
  const shown = kinds.slice(0, SHOWN_KINDS).join(', ');
  return kinds.length > SHOWN_KINDS ? `${shown} and ${kinds.length - SHOWN_KINDS} more kinds` : shown;
}

/** Answers whether anybody is told. */
function AlertsPanel() {
  const targets = useResource<readonly Api['AlertTarget'][]>('/alerts', { refreshOn: ['run.completed'] });
  return (
    <Panel title="Alerts" isFlush>
      <Loaded of={targets}>
        {(list) =>
          list.length === 0 ? (
            <Empty icon="info" title="Failures are not reported">
              <p>
                Name a file with targets in <code>SLUICE_ALERTS</code>: Slack, Teams, Discord, PagerDuty, Opsgenie, a
                URL or mail.
              </p>
            </Empty>
          ) : (
            <Table label="Alerts" columns={ALERT_COLUMNS} rows={list} keyOf={({ name }) => name} />
          )
        }
      </Loaded>
    </Panel>
  );
}

const REPLICA_COLUMNS: readonly Column<Api['Replica']>[] = [
  { name: 'Replica', cell: ({ name, self }) => (self ? `${name} (this one)` : name) },
  { name: 'Version', cell: ({ version }) => version, isMinor: true },
  { name: 'Steps running', cell: ({ stepsRunning }) => format.count(stepsRunning), align: 'end' },
  { name: 'Started', cell: ({ startedAt }) => <Time at={startedAt} />, align: 'end', isMinor: true },
  { name: 'Last heartbeat', cell: ({ seenAt }) => <Time at={seenAt} />, align: 'end' },
];

/** Only where several processes share the database: a single one is what the reader has open. */
function ReplicasPanel() {
  const replicas = useResource<readonly Api['Replica'][]>('/replicas', { refreshOn: ['attention.changed'] });
  const { data, error } = replicas;
  if (error === undefined && (data === undefined || data.length < 2)) return null;
  return (
    <Panel title="Replicas" aside={data === undefined ? undefined : <Total count={data.length} />} isFlush>
      <Loaded of={replicas}>
        {(list) => <Table label="Replicas" columns={REPLICA_COLUMNS} rows={list} keyOf={({ name }) => name} />}
      </Loaded>
    </Panel>
  );
}

/** What to paste into a terminal first. */
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
    <div class="steps">
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

/** How often each reason was met with; each leads to the deliveries that it is the reason of. */
function ReasonBars({ stats }: { stats: Api['DeliveryStats'] }) {
  const reasons = reasonCounts(stats.counts);
  if (reasons.length === 0) {
    return (
      <Empty icon="shield" title={stats.total === 0 ? 'No deliveries in the last 24 hours' : 'Every delivery passed'}>
        <p>
          {stats.total === 0
            ? 'This panel counts deliveries that fail a gate.'
            : `${format.count(stats.total)} in the last 24 hours.`}
        </p>
      </Empty>
    );
  }
  return (
    <ul class="reason-bars">
      {reasons.map(({ reason, number, percent }) => (
        <li key={reason}>
          <a href={`/flows/deliveries?reason=${reason}`}>
            <span class="reason-name">{words.reason(reason)}</span>
            <span class="reason-count">{format.count(number)}</span>
            <span class="reason-bar" style={{ width: `${percent}%` }} />
          </a>
        </li>
      ))}
    </ul>
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

/** The newest of them. */
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

const ICONS: Readonly<Record<Api['Attention']['severity'], readonly [Look['icon'], string]>> = {
  error: ['cross', 'Error'],
  warning: ['warn', 'Warning'],
  info: ['info', 'Note'],
};

/** Links within the page open here; others, such as the metrics, open in a new tab. */
function AttentionList({ items }: { items: readonly Api['Attention'][] }) {
  if (items.length === 0) {
    return (
      <p class="all-well">
        <Icon name="check" />
        Nothing needs attention.
      </p>
    );
  }
  return (
    <ul class="attention">
      {items.map(({ kind, severity, message, link }) => {
        const [icon, name] = ICONS[severity];
        const isPlace = link.startsWith('/flows') && !link.startsWith('/flows/api');
        return (
          <li key={`${kind} ${message}`} class={severity}>
            <Icon name={icon} />
            <span class="unseen">{name}: </span>
            <a href={link} target={isPlace ? undefined : '_blank'} rel="noreferrer">
              <Message text={message} />
            </a>
          </li>
        );
      })}
    </ul>
  );
}
