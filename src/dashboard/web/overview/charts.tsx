import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { withQuery } from '../address.ts';
import type { Api } from '../api-types.ts';
import { format } from '../format.ts';
import { Loaded, Panel } from '../kit/page.tsx';
import { useResource } from '../resource.ts';
import { onColoursChange } from '../theme.ts';
import { axisTexts, bucketName, type ChartSeries, stack, stepOf, total, type windowOf } from './chart-data.ts';

type Window = ReturnType<typeof windowOf>;

/** Deliveries and runs over time. */
export function Charts({ window }: { window: Window }) {
  return (
    <div class="columns">
      <DeliveryChart window={window} />
      <RunChart window={window} />
    </div>
  );
}

function DeliveryChart({ window }: { window: Window }) {
  const { bucket, hours } = window;
  const times = useResource<Api['DeliveryTimes']>(withQuery('/webhooks/timeseries', { bucket, hours }), {
    refreshOn: ['delivery.received'],
    keepPrevious: true,
  });
  return (
    <Panel title="Deliveries" aside={<a href="/flows/deliveries">All</a>}>
      <Loaded of={times} lines={6}>
        {({ buckets, bucket: unit }) => {
          const accepted = buckets.map((each) => each.accepted);
          const failed = buckets.map((each) => each.rejected);
          return (
            <BarChart
              label={`Deliveries over ${window.name}: ${total(accepted)} accepted, ${total(failed)} failed a gate or were refused`}
              times={buckets.map(({ timestamp }) => Date.parse(timestamp))}
              isByDay={unit === 'day'}
              series={[
                { name: 'Accepted', colour: 'accent', values: accepted },
                { name: 'Failed a gate or refused', colour: 'bad', values: failed },
              ]}
            />
          );
        }}
      </Loaded>
    </Panel>
  );
}

interface RunChartProps {
  readonly window: Window;
  /** Of this flow alone; its page lists them itself. */
  readonly flowId?: string;
}

export function RunChart({ window, flowId }: RunChartProps) {
  const { bucket, hours } = window;
  const query = bucket === 'day' ? { bucket, days: hours / 24 } : { bucket, hours };
  const times = useResource<{ bucket: string; buckets: readonly Api['RunBucket'][] }>(
    withQuery('/runs/timeseries', { ...query, flowId }),
    {
      refreshOn: ['run.started', 'run.completed'],
      keepPrevious: true,
    },
  );
  return (
    <Panel
      title={flowId === undefined ? 'Runs' : `Runs of ${window.name}`}
      aside={flowId === undefined ? <a href="/flows/runs">All</a> : undefined}
    >
      <Loaded of={times} lines={6}>
        {({ buckets, bucket: unit }) => {
          const succeeded = buckets.map((each) => each.succeeded);
          const failed = buckets.map((each) => each.failed);
          const running = buckets.map((each) => each.running);
          const others = buckets.map((each) => each.total - each.succeeded - each.failed - each.running);
          return (
            <BarChart
              label={`Runs over ${window.name}: ${total(succeeded)} succeeded, ${total(failed)} failed, ${total(running)} in flight, ${format.counted(total(others), 'other')}`}
              times={buckets.map(({ timestamp }) => Date.parse(timestamp))}
              isByDay={unit === 'day'}
              series={[
                { name: 'Succeeded', colour: 'good', values: succeeded },
                { name: 'Failed', colour: 'bad', values: failed },
                { name: 'In flight', colour: 'busy', values: running },
                { name: 'Skipped or cancelled', colour: 'muted', values: others },
              ]}
            />
          );
        }}
      </Loaded>
    </Panel>
  );
}

interface ChartProps {
  /** What is drawn, in a sentence, for those who do not see it. */
  readonly label: string;
  /** Where each bar begins, milliseconds since the Unix epoch. */
  readonly times: readonly number[];
  readonly isByDay: boolean;
  readonly series: readonly ChartSeries[];
}

const HEIGHT = 168;

/** Stacked bars over time; the line above shows the bar under the pointer. */
function BarChart({ label, times, isByDay, series }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const [colours, setColours] = useState(0);
  useEffect(() => onColoursChange(() => setColours((generation) => generation + 1)), []);
  const key = JSON.stringify([times, series]);
  // `key` is the values as text, which come in new arrays each time.
  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const plot = new uPlot(optionsOf({ times, isByDay, series }, element, setHovered), stack(times, series), element);
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [key, isByDay, colours]);
  const at = hovered === null ? undefined : times[hovered];
  return (
    <figure class="chart">
      <figcaption>
        {series.map(({ name, colour, values }) => (
          <span key={name} class="chart-key">
            <span class={`swatch ${colour}`} />
            {name} <b>{format.count(at === undefined ? total(values) : (values[hovered ?? 0] ?? 0))}</b>
          </span>
        ))}
        <span class="muted">{at === undefined ? '' : bucketName(at, { isByDay })}</span>
      </figcaption>
      <div ref={place} class="plot" role="img" aria-label={label} />
    </figure>
  );
}

type Drawn = Pick<ChartProps, 'times' | 'isByDay' | 'series'>;

function optionsOf(
  { times, isByDay, series }: Drawn,
  element: HTMLElement,
  onHover: (index: number | null) => void,
): uPlot.Options {
  const colourOf = (name: string) => resolveColour(element, name);
  const axis = { stroke: colourOf('muted'), font: '11px system-ui, sans-serif', ticks: { show: false } };
  const grid = { stroke: colourOf('line'), width: 1 };
  const step = stepOf(times);
  const first = (times[0] ?? 0) / 1000;
  const last = (times.at(-1) ?? 0) / 1000;
  return {
    width: element.clientWidth,
    height: HEIGHT,
    padding: [8, 20, 0, 0],
    legend: { show: false },
    ...(isByDay ? { tzDate: (seconds: number) => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC') } : {}),
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    scales: {
      x: { time: true, range: () => [first, last + step] },
      // A little room above, and never less than one whole delivery.
      y: { range: (_plot, _min, max) => [0, Math.max(1, max * 1.08)] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 24,
        values: (_plot, at) => axisTexts(at, { isByDay }, isByDay || step * times.length > 2 * 86_400),
      },
      {
        ...axis,
        grid,
        size: 40,
        incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6],
        values: (_plot, at) => at.map(format.count),
      },
    ],
    series: [
      {},
      ...[...series].reverse().map(({ colour }) => ({
        fill: colourOf(colour),
        width: 0,
        points: { show: false },
        ...(uPlot.paths.bars === undefined ? {} : { paths: uPlot.paths.bars({ size: [0.72, 40] }) }),
      })),
    ],
    hooks: { setCursor: [(plot) => onHover(plot.cursor.idx ?? null)] },
  };
}

/** A canvas takes no custom property, and what one says depends on the colours in force. */
function resolveColour(element: HTMLElement, name: string): string {
  element.style.color = `var(--${name})`;
  const { color } = getComputedStyle(element);
  element.style.color = '';
  return color;
}
