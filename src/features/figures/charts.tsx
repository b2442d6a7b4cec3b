import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { spanOf, withChanges, withQuery } from '../../dashboard/web/address.ts';
import { format } from '../../dashboard/web/format.ts';
import { Loaded, Panel } from '../../dashboard/web/kit/page.tsx';
import { useResource } from '../../dashboard/web/resource.ts';
import { navigate } from '../../dashboard/web/router.ts';
import { onColoursChange } from '../../dashboard/web/theme.ts';
import {
  askedOf,
  axisTexts,
  axisWidth,
  bucketName,
  type ChartSeries,
  type ChartWindow,
  COUNT_STEPS,
  countText,
  fromFirst,
  stack,
  stepOf,
  timeOf,
  total,
  windowOfSpan,
} from './chart-data.ts';
import type { FigureAnswers } from './service.ts';

/** Deliveries and runs over time. */
export function Charts({ window }: { window: ChartWindow }) {
  return (
    <div class="columns">
      <Panel title="Deliveries" aside={<a href="/flows/deliveries">All</a>}>
        <DeliveryBars window={window} onPick={(span) => navigate(withQuery('/flows/deliveries', span))} />
      </Panel>
      <Panel title="Runs" aside={<a href="/flows/runs">All</a>}>
        <RunBars window={window} onPick={(span) => navigate(withQuery('/flows/runs', span))} />
      </Panel>
    </div>
  );
}

/** The runs of one flow; the page of the flow lists them itself. */
export function RunChart({ window, flowId }: { window: ChartWindow; flowId: string }) {
  return (
    <Panel title={`Runs of ${window.name}`}>
      <RunBars
        window={window}
        filter={{ flowId }}
        onPick={(span) => navigate(withQuery('/flows/runs', { flowId, ...span }))}
      />
    </Panel>
  );
}

/** A chart above a list; it selects the list's time. */
export function ListChart({ children }: { children: ComponentChildren }) {
  return <section class="panel list-chart">{children}</section>;
}

/** The chart above a list, from the address of the list. */
export function chartOf(query: URLSearchParams): Omit<BarsProps, 'filter'> {
  const now = Date.now();
  const span = spanOf(query, now);
  const [since, until] = [timeOf(span.since), timeOf(span.until)];
  return {
    window: windowOfSpan(span, now),
    picked: since === undefined || until === undefined ? undefined : [since, until],
    isLow: true,
    // Adds an entry to the history, so that going back restores the longer span.
    onPick: (picked) =>
      navigate(`${location.pathname}${withChanges(location.search, { ...picked, last: undefined, skip: undefined })}`),
  };
}

interface Span {
  readonly since: string;
  readonly until: string;
}

interface BarsProps {
  readonly window: ChartWindow;
  /** Filter of the API, without the time. */
  readonly filter?: Readonly<Record<string, string | boolean>>;
  /** Called with the time of the bars that were clicked or dragged over. */
  readonly onPick: (span: Span & Record<string, string>) => void;
  readonly picked?: readonly [since: number, until: number] | undefined;
  readonly isLow?: boolean;
}

export function DeliveryBars({ window, filter, ...shared }: BarsProps) {
  const times = useResource<FigureAnswers['DeliveryTimes']>(
    withQuery('/webhooks/timeseries', { ...askedOf(window, false), ...filter }),
    { refreshOn: ['delivery.received'], keepPrevious: true },
  );
  return (
    <Loaded of={times} lines={shared.isLow === true ? 3 : 6}>
      {({ buckets: all, bucket }) => {
        const buckets = fromFirst(window, all);
        const accepted = buckets.map((each) => each.accepted);
        const failed = buckets.map((each) => each.rejected);
        return (
          <BarChart
            label={`Deliveries over ${window.name}: ${total(accepted)} accepted, ${total(failed)} failed a gate or were refused`}
            times={buckets.map(({ timestamp }) => Date.parse(timestamp))}
            bucket={bucket}
            series={[
              { name: 'Accepted', colour: 'accent', values: accepted },
              { name: 'Failed a gate or refused', colour: 'bad', values: failed },
            ]}
            {...shared}
          />
        );
      }}
    </Loaded>
  );
}

export function RunBars({ window, filter, ...shared }: BarsProps) {
  const times = useResource<{ bucket: ChartWindow['bucket']; buckets: readonly FigureAnswers['RunBucket'][] }>(
    withQuery('/runs/timeseries', { ...askedOf(window, true), ...filter }),
    { refreshOn: ['run.started', 'run.completed'], keepPrevious: true },
  );
  return (
    <Loaded of={times} lines={shared.isLow === true ? 3 : 6}>
      {({ buckets: all, bucket }) => {
        const buckets = fromFirst(window, all);
        const succeeded = buckets.map((each) => each.succeeded);
        const failed = buckets.map((each) => each.failed);
        const running = buckets.map((each) => each.running);
        const others = buckets.map((each) => each.total - each.succeeded - each.failed - each.running);
        return (
          <BarChart
            label={`Runs over ${window.name}: ${total(succeeded)} succeeded, ${total(failed)} failed, ${total(running)} in flight, ${format.counted(total(others), 'other')}`}
            times={buckets.map(({ timestamp }) => Date.parse(timestamp))}
            bucket={bucket}
            series={[
              { name: 'Succeeded', colour: 'good', values: succeeded },
              { name: 'Failed', colour: 'bad', values: failed },
              { name: 'In flight', colour: 'busy', values: running },
              { name: 'Skipped or cancelled', colour: 'muted', values: others },
            ]}
            {...shared}
          />
        );
      }}
    </Loaded>
  );
}

interface ChartProps {
  /** Describes the chart in a sentence, for people who do not see it. */
  readonly label: string;
  /** Start of each bar, milliseconds since the Unix epoch. */
  readonly times: readonly number[];
  readonly bucket: ChartWindow['bucket'];
  readonly series: readonly ChartSeries[];
  readonly onPick: BarsProps['onPick'];
  readonly picked?: BarsProps['picked'];
  readonly isLow?: boolean | undefined;
}

const HEIGHT = 168;
const LOW = 96;
const HINT = 'Click a bar, or drag over several';

/** Stacked bars over time; the line above shows the bar under the pointer. */
function BarChart({ label, times, bucket, series, onPick, picked, isLow = false }: ChartProps) {
  const isByDay = bucket === 'day';
  const height = isLow ? LOW : HEIGHT;
  const place = useRef<HTMLDivElement>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const [colours, setColours] = useState(0);
  useEffect(() => onColoursChange(() => setColours((generation) => generation + 1)), []);
  const key = JSON.stringify([times, series, picked]);
  // Keeps the newest callback without making a new chart for it.
  const pick = useRef(onPick);
  pick.current = onPick;
  // `key` has the values as text, because their arrays are new each time.
  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const onSpan = (from: number, to: number) => pick.current({ since: isoOf(from), until: isoOf(to) });
    const options = optionsOf({ times, isByDay, series, height }, element, { onHover: setHovered, onSpan });
    const plot = new uPlot(options, stack(times, series), element);
    const mark = () => markPicked(plot, picked);
    mark();
    const observer = new ResizeObserver(() => {
      plot.setSize({ width: element.clientWidth, height });
      mark();
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [key, bucket, height, colours]);
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
        {at === undefined ? (
          <span class="muted minor">{isLow ? HINT : null}</span>
        ) : (
          <span class="muted">{bucketName(at, { isByDay })}</span>
        )}
      </figcaption>
      <div ref={place} class={isLow ? 'plot low' : 'plot'} role="img" aria-label={label} title={HINT} />
    </figure>
  );
}

const isoOf = (ms: number) => new Date(ms).toISOString();

/** Marks the bars that the list below is about. */
function markPicked(plot: uPlot, picked: BarsProps['picked']): void {
  if (picked === undefined) return;
  const [left, right] = picked.map((ms) => plot.valToPos(ms / 1000, 'x'));
  if (left === undefined || right === undefined) return;
  plot.setSelect({ left, width: right - left, top: 0, height: plot.over.clientHeight }, false);
}

interface Drawn extends Pick<ChartProps, 'times' | 'series'> {
  readonly isByDay: boolean;
  readonly height: number;
}

interface Listeners {
  onHover(index: number | null): void;
  /** Milliseconds since the Unix epoch. */
  onSpan(from: number, to: number): void;
}

function optionsOf({ times, isByDay, series, height }: Drawn, element: HTMLElement, on: Listeners): uPlot.Options {
  const colourOf = (name: string) => resolveColour(element, name);
  const axis = { stroke: colourOf('muted'), font: '11px system-ui, sans-serif', ticks: { show: false } };
  const grid = { stroke: colourOf('line'), width: 1 };
  const step = stepOf(times);
  const first = (times[0] ?? 0) / 1000;
  const last = (times.at(-1) ?? 0) / 1000;
  return {
    width: element.clientWidth,
    height,
    padding: [8, 20, 0, 0],
    legend: { show: false },
    ...(isByDay ? { tzDate: (seconds: number) => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC') } : {}),
    cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
    scales: {
      x: { time: true, range: () => [first, last + step] },
      // A little room above, and at least the height of one delivery.
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
        size: (_plot, texts) => axisWidth(texts),
        space: height === LOW ? 22 : 30,
        incrs: [...COUNT_STEPS],
        values: (_plot, at) => at.map(countText),
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
    hooks: {
      setCursor: [(plot) => on.onHover(plot.cursor.idx ?? null)],
      setSelect: [(plot) => pickDragged(plot, times, on)],
      ready: [(plot) => plot.over.addEventListener('click', () => pickClicked(plot, times, on))],
    },
  };
}

function pickClicked({ cursor: { idx } }: uPlot, times: readonly number[], { onSpan }: Listeners): void {
  const from = times[idx ?? -1];
  if (from !== undefined) onSpan(from, from + stepOf(times) * 1000);
}

/** Reports the time of all bars that the pointer was dragged over. */
function pickDragged(plot: uPlot, times: readonly number[], { onSpan }: Listeners): void {
  const { left, width } = plot.select;
  const step = stepOf(times) * 1000;
  const first = times[0];
  if (width <= 0 || step === 0 || first === undefined) return;
  const [from, to] = [left, left + width].map((at) => plot.posToVal(at, 'x') * 1000);
  if (from === undefined || to === undefined) return;
  onSpan(first + Math.floor((from - first) / step) * step, first + Math.ceil((to - first) / step) * step);
}

/** A canvas cannot use custom properties, and their values depend on the colours in force. */
function resolveColour(element: HTMLElement, name: string): string {
  element.style.color = `var(--${name})`;
  const { color } = getComputedStyle(element);
  element.style.color = '';
  return color;
}
