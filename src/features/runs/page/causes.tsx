import { CAUSE, withChanges } from '../../../dashboard/web/address.ts';
import type { Api } from '../../../dashboard/web/api-types.ts';
import { format } from '../../../dashboard/web/format.ts';
import { type Column, NoMatch, SearchedUntil, Table } from '../../../dashboard/web/kit/list.tsx';
import { Loaded } from '../../../dashboard/web/kit/page.tsx';
import { Icon } from '../../../dashboard/web/kit/pill.tsx';
import { Time } from '../../../dashboard/web/kit/time.tsx';
import { useResource } from '../../../dashboard/web/resource.ts';
import { useQuery } from '../../../dashboard/web/router.ts';
import { failuresPath } from './list.ts';

type Group = Api['RunFailures']['groups'][number];

const NAMES: Readonly<Record<(typeof CAUSE)[number], string>> = {
  step: 'Step',
  code: 'Code',
  host: 'Host',
  error: 'Error',
};

/** The failure filters of the list; each can be removed. */
export function CauseFilters() {
  const [query, changeQuery] = useQuery();
  const given = CAUSE.filter((name) => (query.get(name) ?? '') !== '');
  if (given.length === 0) return null;
  return (
    <ul class="causes" aria-label="Failed by">
      {given.map((name) => (
        <li key={name}>
          <span class="muted">{NAMES[name]}</span> <span class="break">{query.get(name)}</span>
          <button type="button" class="icon-button" onClick={() => changeQuery({ [name]: undefined, skip: undefined })}>
            <Icon name="cross" />
            <span class="unseen">{`Any ${name}`}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}

/** Link to the runs of a group; keeps the other filters of the list. */
function hrefOf({ flowId, step, code, host, error }: Group, query: URLSearchParams): string {
  const cause = { flowId, step, code, host: host ?? undefined, error };
  return `/flows/runs${withChanges(query.toString(), { ...cause, group: undefined, skip: undefined })}`;
}

/** Failures of the filtered runs, grouped by cause. */
export function CauseList({ flows }: { flows: readonly Api['Flow'][] }) {
  const [query] = useQuery();
  const failures = useResource<Api['RunFailures']>(failuresPath(query), {
    refreshOn: ['run.completed'],
    keepPrevious: true,
  });
  const names = new Map(flows.map(({ id, name }) => [id, name]));
  return (
    <>
      <SearchedUntil at={failures.data?.searchedUntil} />
      <div class="panel">
        <Loaded of={failures} lines={6}>
          {({ groups }) =>
            groups.length === 0 ? (
              <NoMatch what="failures" path="/flows/runs?group=cause" />
            ) : (
              <Table
                label="Failures"
                columns={columnsOf(names)}
                rows={groups}
                keyOf={({ trend, count, firstAt, lastAt, ...cause }) => JSON.stringify(cause)}
                hrefOf={(group) => hrefOf(group, query)}
              />
            )
          }
        </Loaded>
      </div>
    </>
  );
}

const columnsOf = (names: ReadonlyMap<string, string>): readonly Column<Group>[] => [
  {
    name: 'Error',
    cell: ({ error, code }) => (
      <span class="why-text bad" title={`${error}\n${code}`}>
        {error === '' ? code : error}
      </span>
    ),
  },
  { name: 'Runs', align: 'end', cell: ({ count }) => format.count(count), sortBy: ({ count }) => count },
  { name: 'Trend', isMinor: true, cell: ({ trend }) => <Trend numbers={trend} /> },
  { name: 'Step', cell: ({ step }) => <b>{step}</b>, sortBy: ({ step }) => step },
  { name: 'Code', isMinor: true, cell: ({ code }) => <code>{code}</code>, sortBy: ({ code }) => code },
  {
    name: 'Host',
    isMinor: true,
    cell: ({ host }) => (host === null ? <span class="muted">–</span> : host.replace(/^https:\/\//, '')),
    sortBy: ({ host }) => host,
  },
  {
    name: 'Flow',
    isMinor: true,
    cell: ({ flowId }) => names.get(flowId) ?? <code>{format.shortId(flowId)}</code>,
    sortBy: ({ flowId }) => names.get(flowId) ?? flowId,
  },
  {
    name: 'First',
    isMinor: true,
    cell: ({ firstAt }) => <Time at={firstAt} withClock />,
    sortBy: ({ firstAt }) => Date.parse(firstAt),
  },
  { name: 'Last', cell: ({ lastAt }) => <Time at={lastAt} />, sortBy: ({ lastAt }) => Date.parse(lastAt) },
];

const HEIGHT = 16;

/** Failures over time, in the chosen span or, by default, the last day. */
function Trend({ numbers }: { numbers: readonly number[] }) {
  const most = Math.max(1, ...numbers);
  const bars = numbers.map((number, place) => ({ place, height: Math.ceil((number / most) * HEIGHT) }));
  return (
    <svg
      class="trend"
      viewBox={`0 0 ${numbers.length * 3} ${HEIGHT}`}
      role="img"
      aria-label={`From first to last: ${numbers.join(', ')}`}
    >
      {bars.map(({ place, height }) => (
        <rect key={place} x={place * 3} y={HEIGHT - height} width={2} height={height} />
      ))}
    </svg>
  );
}
