import {
  Counter,
  type CounterConfiguration,
  Gauge,
  type GaugeConfiguration,
  Histogram,
  type HistogramConfiguration,
} from 'prom-client';

/** What a metric's labels are called with: the flow's id, or `none`, and what else it has. */
type FlowLabels<Label extends string> = Readonly<Record<Label | 'flow', string>>;

/** Metrics by flow, of so many flows as `nameOf` has names for. */
export interface FlowCounter<Label extends string> {
  inc(labels: FlowLabels<Label>, value?: number): void;
  get: Counter['get'];
}
export interface FlowHistogram<Label extends string> {
  observe(labels: FlowLabels<Label>, value: number): void;
}
export interface FlowGauge {
  /** All that `other` stands for is added up. */
  set(labels: FlowLabels<never>, value: number): void;
}

/** The `flow` of a metric: its id, or `other` for all flows after the first so many that anything happened to. */
export type FlowNames = (flowId: string) => string;

/**
 * A counter has some 5 series of each flow, a duration some 15 of each result: a thousand flows with all of them made
 * 3.5 MB a scrape.
 */
export const MOST_COUNTED_FLOWS = 1000;
export const MOST_TIMED_FLOWS = 100;

const OTHER = 'other';

export function flowNames(most: number): FlowNames {
  const named = new Set<string>();
  return (flowId) => {
    // What belongs to no flow takes no flow's place.
    if (flowId === 'none' || named.has(flowId)) return flowId;
    if (named.size >= most) return OTHER;
    named.add(flowId);
    return flowId;
  };
}

export function flowCounter<Label extends string>(
  nameOf: FlowNames,
  config: CounterConfiguration<Label | 'flow'>,
): FlowCounter<Label> {
  const counter = new Counter(config);
  return {
    inc: (labels, value) => counter.inc({ ...labels, flow: nameOf(labels.flow) }, value),
    get: () => counter.get(),
  };
}

export function flowHistogram<Label extends string>(
  nameOf: FlowNames,
  config: HistogramConfiguration<Label | 'flow'>,
): FlowHistogram<Label> {
  const histogram = new Histogram(config);
  return { observe: (labels, value) => histogram.observe({ ...labels, flow: nameOf(labels.flow) }, value) };
}

export function flowGauge(nameOf: FlowNames, config: GaugeConfiguration<'flow'>): FlowGauge {
  const gauge = new Gauge(config);
  const others = new Map<string, number>();
  return {
    set({ flow }, value) {
      const name = nameOf(flow);
      if (name !== OTHER) return gauge.set({ flow }, value);
      if (value === 0) others.delete(flow);
      else others.set(flow, value);
      gauge.set(
        { flow: OTHER },
        [...others.values()].reduce((sum, each) => sum + each, 0),
      );
    },
  };
}
