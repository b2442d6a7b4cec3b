import type { z } from 'zod';
import { ALL_FLOWS, skipOf, withQuery } from '../../dashboard/web/address.ts';
import type { Api, PageOf } from '../../dashboard/web/api-types.ts';
import { format } from '../../dashboard/web/format.ts';
import {
  type Column,
  NoMatch,
  Pager,
  SearchFilter,
  SelectFilter,
  SpanFilter,
  Table,
} from '../../dashboard/web/kit/list.tsx';
import { Empty, Loaded, Page, Total } from '../../dashboard/web/kit/page.tsx';
import { Pill } from '../../dashboard/web/kit/pill.tsx';
import { Time } from '../../dashboard/web/kit/time.tsx';
import type { LookRow } from '../../dashboard/web/looks.ts';
import { allActions, type PagePart } from '../../dashboard/web/part.ts';
import { useResource } from '../../dashboard/web/resource.ts';
import { useQuery } from '../../dashboard/web/router.ts';
import { activityList } from './page/list.ts';
import { ACTIONS, actionText, detailText } from './page/words.ts';
import type { interventionSchema } from './service.ts';

type Intervention = z.output<typeof interventionSchema>;

/** Lists interventions, newest first; the address keeps the filters. */
function ActivityPage() {
  const [query] = useQuery();
  const activity = useResource<PageOf<Intervention>>(activityList.path(query), {
    refreshOn: ['run.started', 'run.completed'],
    keepPrevious: true,
  });
  const flows = useResource<readonly Api['Flow'][]>(ALL_FLOWS);
  const names = new Map((flows.data ?? []).map(({ id, name }) => [id, name]));
  const actions = Object.entries({ ...ACTIONS, ...allActions() }).map(([value, text]) => ({ value, text }));
  return (
    <Page title="Activity" badges={activity.data === undefined ? null : <Total count={activity.data.total} />}>
      <search class="filters">
        <SearchFilter name="target" label="Id of a flow, run or delivery" />
        <SearchFilter name="actor" label="Actor" isSecond />
        <SelectFilter name="action" label="Action" choices={[{ value: '', text: 'All actions' }, ...actions]} />
        <SpanFilter />
      </search>
      <div class="panel">
        <Loaded of={activity} lines={8}>
          {({ items, total, skip, take }) =>
            items.length === 0 ? (
              <NoActivity isFiltered={activityList.isNarrowed(query)} />
            ) : (
              <>
                <Table
                  label="Activity"
                  columns={columnsOf(names)}
                  rows={items}
                  keyOf={({ id }) => id}
                  isStale={activity.isLoading && activity.data !== undefined && activity.data.skip !== skipOf(query)}
                />
                <Pager total={total} skip={skip} take={take} />
              </>
            )
          }
        </Loaded>
      </div>
    </Page>
  );
}

function NoActivity({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <NoMatch what="actions" path="/flows/activity" />;
  return (
    <Empty icon="activity" title="No one has changed anything yet">
      <p>This page lists every deploy, disable, cancel, retry and similar action, with who did it and why.</p>
    </Empty>
  );
}

function columnsOf(names: ReadonlyMap<string, string>): readonly Column<Intervention>[] {
  return [
    { name: 'When', cell: ({ at }) => <Time at={at} withClock /> },
    { name: 'Who', cell: WhoCell },
    { name: 'Action', cell: ActionCell },
    { name: 'Target', cell: (intervention) => <TargetCell {...intervention} names={names} /> },
    { name: 'Result', cell: ResultCell },
    { name: 'Client', cell: ({ clientIp }) => <span class="mono">{clientIp ?? '–'}</span>, isMinor: true },
  ];
}

function WhoCell({ actor }: Intervention) {
  return (
    <a href={withQuery('/flows/activity', { actor })} title={`Only what ${actor} did`}>
      {actor}
    </a>
  );
}

/** The action, further details of the request, and the reason. */
function ActionCell({ action, details, reason }: Intervention) {
  return (
    <>
      {allActions()[action] ?? actionText(action)}
      {shownDetails(details).map(([name, value]) => (
        <span key={name} class="muted break action-detail">
          {`${detailText(name)}: ${value}`}
        </span>
      ))}
      {reason === null ? null : <q class="break action-detail">{reason}</q>}
    </>
  );
}

/** Leaves out the planned count, which the target shows, and a count of zero left out. */
function shownDetails(details: Intervention['details']) {
  return Object.entries(details).filter(
    ([name, value]) => name !== 'planned' && !(name === 'leftOut' && value === '0'),
  );
}

interface TargetProps extends Pick<Intervention, 'target' | 'details'> {
  /** Names of flows, by id. */
  readonly names: ReadonlyMap<string, string>;
}

function TargetCell({ target, details, names }: TargetProps) {
  if (target === null) {
    const { planned } = details;
    return <span class="muted">{planned === undefined ? 'the service' : format.counted(Number(planned), 'run')}</span>;
  }
  const { type, id } = target;
  const nameOf = (flowId: string) => names.get(flowId) ?? format.shortId(flowId);
  if (type === 'flow') return <a href={`/flows/flows/${encodeURIComponent(id)}`}>{nameOf(id)}</a>;
  if (type === 'schedule') {
    const [, flowId = id, triggerKey = ''] = /^flow-(.{36})-(.+)$/.exec(id) ?? [];
    return <a href="/flows/schedules" title={id}>{`${nameOf(flowId)} / ${triggerKey}`}</a>;
  }
  const places = { run: '/flows/runs', delivery: '/flows/deliveries' } as const;
  const label = { run: 'Run', delivery: 'Delivery' } as const;
  return (
    <a href={`${places[type]}/${encodeURIComponent(id)}`} title={id}>
      {label[type]} <span class="mono">{format.shortId(id)}</span>
    </a>
  );
}

const OUTCOMES: Readonly<Record<Intervention['outcome'], LookRow>> = {
  done: ['good', 'check', 'Done'],
  refused: ['warn', 'stop', 'Refused'],
  failed: ['bad', 'cross', 'Failed'],
  unknown: ['quiet', 'pending', 'Not known'],
};

function ResultCell({ outcome, statusCode }: Intervention) {
  const [tone, icon, text] = OUTCOMES[outcome];
  const title =
    statusCode === null ? 'It is in progress, or the process died before it answered' : `Answered ${statusCode}`;
  return (
    <Pill tone={tone} icon={icon} title={title}>
      {text}
    </Pill>
  );
}

function WhoChangedIt({ flow: { id } }: { flow: Api['Flow'] }) {
  return <a href={withQuery('/flows/activity', { target: id })}>Who changed it</a>;
}

export const activityPage: PagePart = {
  name: 'activity',
  routes: [{ path: '/flows/activity', page: ActivityPage, title: 'Activity', question: activityList.path }],
  place: { text: 'Activity', href: '/flows/activity', key: 'a', icon: 'activity', isOfService: true },
  at: { flowBadges: WhoChangedIt },
};
