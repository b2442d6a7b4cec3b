import { withQuery } from '../../dashboard/web/address.ts';
import type { Api } from '../../dashboard/web/api-types.ts';
import { format } from '../../dashboard/web/format.ts';
import { type Column, Segments } from '../../dashboard/web/kit/list.tsx';
import { Empty, Loaded, Panel } from '../../dashboard/web/kit/page.tsx';
import type { PagePart } from '../../dashboard/web/part.ts';
import { useResource } from '../../dashboard/web/resource.ts';
import { useQuery } from '../../dashboard/web/router.ts';
import { deliveryList } from '../deliveries/page/list.ts';
import { words } from '../deliveries/page/words.ts';
import { runList } from '../runs/page/list.ts';
import { askedOf, reasonCounts, sinceFirst, WINDOWS, windowOf } from './chart-data.ts';
import { Charts, chartOf, DeliveryBars, ListChart, RunBars, RunChart } from './charts.tsx';
import type { FigureAnswers } from './service.ts';

function WindowChoice() {
  const [query, changeQuery] = useQuery();
  return (
    <Segments
      label="Window of the charts"
      choices={WINDOWS.map(({ value, text }) => ({ value, text }))}
      value={windowOf(query.get('window')).value}
      onChange={(value) => changeQuery({ window: value === windowOf(null).value ? undefined : value })}
    />
  );
}

function ChosenCharts() {
  const [query] = useQuery();
  const { window } = windowOf(query.get('window'));
  // The first chart asks the same and shares the answer, unless the service is younger than the window.
  const times = useResource<FigureAnswers['DeliveryTimes']>(withQuery('/webhooks/timeseries', askedOf(window, false)), {
    refreshOn: ['delivery.received', 'run.started'],
    keepPrevious: true,
  });
  return (
    <Loaded of={times} lines={6}>
      {({ firstAt }) => <Charts window={sinceFirst(window, firstAt, Date.now())} />}
    </Loaded>
  );
}

function ReasonsPanel() {
  const stats = useResource<FigureAnswers['DeliveryStats']>('/webhooks/stats?hours=24', {
    refreshOn: ['delivery.received'],
  });
  return (
    <Panel title="Why deliveries failed a gate" aside="24 hours">
      <Loaded of={stats}>{(answer) => <ReasonBars stats={answer} />}</Loaded>
    </Panel>
  );
}

/** Counts of reasons; each links to the deliveries with that reason. */
function ReasonBars({ stats }: { stats: FigureAnswers['DeliveryStats'] }) {
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

function DeliveriesChart() {
  const [query] = useQuery();
  return (
    <ListChart>
      <DeliveryBars {...chartOf(query)} filter={deliveryList.filter(query)} />
    </ListChart>
  );
}

function RunsChart() {
  const [query] = useQuery();
  return (
    <ListChart>
      <RunBars {...chartOf(query)} filter={runList.filter(query)} />
    </ListChart>
  );
}

/** Deliveries to each flow in the last two hours, and durations of its runs. */
function useFlowColumns(): readonly Column<Api['Flow']>[] {
  const { data = [] } = useResource<readonly FigureAnswers['FlowStats'][]>('/flows/stats?hours=2');
  const byFlow = new Map(data.map((each) => [each.flowId, each]));
  const column = (
    name: string,
    numberOf: (figures: FigureAnswers['FlowStats']) => number | null,
    { shown = format.count, tone = '' } = {},
  ): Column<Api['Flow']> => {
    const of = ({ id }: Api['Flow']) => {
      const figures = byFlow.get(id);
      return figures === undefined ? null : numberOf(figures);
    };
    const cell = (flow: Api['Flow']) => {
      const number = of(flow);
      return <span class={number ? tone : 'muted'}>{number === null ? '–' : shown(number)}</span>;
    };
    return { name, cell, align: 'end', isMinor: true, sortBy: (flow) => of(flow) ?? 0 };
  };
  return [
    column('Deliveries, 2 h', ({ deliveries }) => deliveries),
    column('Refused, 2 h', ({ rejected }) => rejected, { tone: 'bad-text' }),
    column('p95, 2 h', ({ p95DurationMs }) => p95DurationMs, { shown: format.duration }),
  ];
}

export const figuresPage: PagePart = {
  name: 'figures',
  useFlowColumns,
  at: {
    overviewTools: WindowChoice,
    overviewTop: ChosenCharts,
    overviewColumns: ReasonsPanel,
    deliveriesChart: DeliveriesChart,
    runsChart: RunsChart,
    flowRuns: ({ flowId }) => <RunChart window={windowOf(null).window} flowId={flowId} />,
  },
};
