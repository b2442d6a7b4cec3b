import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { count } from '../format.ts';
import { onColoursChange } from '../theme.ts';

/** One of the values that a bar is stacked of. */
export interface ChartSeries {
  readonly name: string;
  /** A colour of the style sheet, without its dashes. */
  readonly colour: 'accent' | 'good' | 'bad' | 'busy' | 'muted';
  readonly values: readonly number[];
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

/** Stacked bars over time; what the pointer is on stands in the line above. */
export function BarChart({ label, times, isByDay, series }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const [colours, setColours] = useState(0);
  useEffect(() => onColoursChange(() => setColours((generation) => generation + 1)), []);
  const key = JSON.stringify([times, series]);
  // `key` stands for the values, which come in new arrays each time.
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
            {name} <b>{count(at === undefined ? sum(values) : (values[hovered ?? 0] ?? 0))}</b>
          </span>
        ))}
        <span class="muted">{at === undefined ? '' : bucketName(at, isByDay)}</span>
      </figcaption>
      <div ref={place} class="plot" role="img" aria-label={label} />
    </figure>
  );
}

type Drawn = Pick<ChartProps, 'times' | 'isByDay' | 'series'>;

/** Seconds from one bar to the next. */
function stepOf(times: readonly number[]): number {
  return ((times[1] ?? 0) - (times[0] ?? 0)) / 1000;
}

/** Each series lies on those before it; the last, the highest, is drawn first. */
function stack(times: readonly number[], series: readonly ChartSeries[]): uPlot.AlignedData {
  const middle = stepOf(times) / 2;
  const heights = times.map(() => 0);
  const stacked = series.map(({ values }) =>
    values.map((value, index) => {
      heights[index] = (heights[index] ?? 0) + value;
      return heights[index] ?? 0;
    }),
  );
  return [times.map((ms) => ms / 1000 + middle), ...stacked.reverse()];
}

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
        values: (_plot, at) => axisTexts(at, isByDay || step * times.length > 2 * 86_400),
      },
      {
        ...axis,
        grid,
        size: 40,
        incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6],
        values: (_plot, at) => at.map(count),
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

const hourText = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hour12: false });
const dayText = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });

function axisTexts(seconds: readonly number[], isByDay: boolean): string[] {
  const texts = seconds.map((second) => (isByDay ? dayText : hourText).format(second * 1000));
  return texts.map((text, index) => (text === texts[index - 1] ? '' : text));
}

function bucketName(ms: number, isByDay: boolean): string {
  const day = dayText.format(ms);
  return isByDay ? day : `${day}, ${hourText.format(ms)}`;
}

/** A canvas takes no custom property, and what one says depends on the colours in force. */
function resolveColour(element: HTMLElement, name: string): string {
  element.style.color = `var(--${name})`;
  const { color } = getComputedStyle(element);
  element.style.color = '';
  return color;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
