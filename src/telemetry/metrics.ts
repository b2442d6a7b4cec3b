import {
  Counter,
  type CounterConfiguration,
  collectDefaultMetrics,
  Gauge,
  type GaugeConfiguration,
  Histogram,
  type HistogramConfiguration,
  Registry,
} from 'prom-client';
import { metricParts } from '../features/metrics.ts';
import type { Joined } from '../model/joined.ts';

type Made<Makers> = {
  [Index in keyof Makers]: Makers[Index] extends (...given: never[]) => infer Part ? Part : never;
};

/** Everything on `/metrics`. One per app, so that two apps in one process do not share counts. */
export type Metrics = KernelMetrics & Joined<Made<typeof metricParts>>;

interface KernelMetrics {
  readonly registry: Registry;
  /** `flow` is the flow's id, `none` or `other`, `scheme` a scheme's name or `none`. */
  readonly webhookReceived: FlowCounter<'result' | 'scheme'>;
  readonly webhookRejected: FlowCounter<'reason'>;
  /** Answered with 200 without a run of their own, because they are repetitions. */
  readonly webhookDuplicate: FlowCounter<never>;
  readonly webhookFiltered: FlowCounter<never>;
  /** Requests that are answered before any route sees them. */
  readonly requestsUnreadable: Counter<'status'>;
  readonly webhookBodyBytes: Histogram;
  readonly webhookProcessingMs: FlowHistogram<'result'>;
  readonly runsStarted: FlowCounter<'trigger'>;
  readonly runsCompleted: FlowCounter<'status'>;
  readonly runDurationMs: FlowHistogram<'status'>;
  readonly stepsCompleted: Counter<'type' | 'status'>;
  readonly stepDurationMs: Histogram<'type'>;
  /** From the time when a step was due to its start. */
  readonly queueWaitMs: Histogram;
  readonly stepsInFlight: Gauge;
  readonly dueSteps: Gauge;
  /** Of steps that only wait for a slot. */
  readonly oldestDueStepSeconds: Gauge;
  /** Open event streams. */
  readonly eventReaders: Gauge;
  /** Readers of the event stream that were refused, `too_many`, or disconnected, `too_slow`. */
  readonly eventReadersRefused: Counter<'reason'>;
  readonly roomRefused: Counter<'room'>;
  readonly commitSeconds: Histogram;
  /** These four are set whenever the metrics are read. */
  readonly databaseFileBytes: Gauge;
  readonly databaseWalBytes: Gauge;
  readonly diskFreeBytes: Gauge;
  readonly purgeAgeSeconds: Gauge;
  readonly buildInfo: Gauge<'version' | 'node' | 'database' | 'service'>;
  /** Set whenever the metrics are read. */
  readonly ready: Gauge;
}

const LATENCY_MS_BUCKETS = [0.5, 1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000];
const DURATION_MS_BUCKETS = [1, 5, 25, 100, 500, 1000, 5000, 15_000, 60_000, 300_000, 3_600_000];
const COMMIT_SECONDS_BUCKETS = [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
const BYTES_BUCKETS = [256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216];

/** Shared by all services of a process: its observers of the event loop and of garbage collection never end. */
const OF_PROCESS = new Registry();

export function createMetrics(): Metrics {
  if (OF_PROCESS.getMetricsAsArray().length === 0) collectDefaultMetrics({ register: OF_PROCESS });
  const registry = Registry.merge([OF_PROCESS]);
  const registers = [registry];
  const flows = { counted: flowNames(MOST_COUNTED_FLOWS), timed: flowNames(MOST_TIMED_FLOWS) };
  const kernel: KernelMetrics = {
    registry,
    ...webhookMetrics(registers, flows),
    ...runMetrics(registers, flows),
    ...dashboardMetrics(registry),
    ...storeMetrics(registry),
    stepsCompleted: new Counter({
      name: 'sluice_steps_completed_total',
      help: 'Attempts of steps that ended, by step type and status.',
      labelNames: ['type', 'status'],
      registers,
    }),
    stepDurationMs: new Histogram({
      name: 'sluice_step_duration_ms',
      help: 'Milliseconds that one attempt of a step took.',
      labelNames: ['type'],
      buckets: DURATION_MS_BUCKETS,
      registers,
    }),
    queueWaitMs: new Histogram({
      name: 'sluice_queue_wait_ms',
      help: 'Milliseconds from the time a step became due to its start.',
      buckets: LATENCY_MS_BUCKETS,
      registers,
    }),
    dueSteps: gaugeIn(registry, {
      name: 'sluice_due_steps',
      help: 'Due steps that wait for their turn; not counted beyond the limit of the backlog.',
    }),
    oldestDueStepSeconds: gaugeIn(registry, {
      name: 'sluice_oldest_due_step_seconds',
      help: 'Age in seconds of the oldest due step that no limit in a manifest holds back; 0 if none waits.',
    }),
    ready: gaugeIn(registry, { name: 'sluice_ready', help: '1 while /health/ready answers 200, else 0.' }),
    stepsInFlight: gaugeIn(registry, { name: 'sluice_steps_in_flight', help: 'Running steps.' }),
  };
  const gaugeOfFlows: GaugeOfFlows = (described) =>
    flowGauge(flows.counted, { ...described, labelNames: ['flow'], registers });
  const makers: readonly ((registry: Registry, gaugeOfFlows: GaugeOfFlows) => object)[] = metricParts;
  return Object.assign(kernel, ...makers.map((make) => make(registry, gaugeOfFlows))) as Metrics;
}

/** A gauge that a part of the service measures. */
export function gaugeIn(registry: Registry, described: Pick<GaugeConfiguration<never>, 'name' | 'help'>): Gauge {
  return new Gauge({ ...described, registers: [registry] });
}

function storeMetrics(registry: Registry) {
  const registers = [registry];
  return {
    commitSeconds: new Histogram({
      name: 'sluice_commit_seconds',
      help: 'Seconds that the commit of a transaction took, its flush to the disk included.',
      buckets: COMMIT_SECONDS_BUCKETS,
      registers,
    }),
    databaseFileBytes: gaugeIn(registry, {
      name: 'sluice_database_file_bytes',
      help: 'Size of the database file, or of the schema with its indexes on PostgreSQL.',
    }),
    databaseWalBytes: gaugeIn(registry, {
      name: 'sluice_database_wal_bytes',
      help: 'Size of the write-ahead log next to the database file; 0 on PostgreSQL, which has one for all databases.',
    }),
    diskFreeBytes: gaugeIn(registry, {
      name: 'sluice_disk_free_bytes',
      help: 'Free bytes of the disk that the database file is on; NaN on PostgreSQL, which does not tell.',
    }),
    purgeAgeSeconds: gaugeIn(registry, {
      name: 'sluice_purge_age_seconds',
      help: 'Seconds for which the oldest nonce has been past its end; retention keeps it below 120.',
    }),
    buildInfo: new Gauge({
      name: 'sluice_build_info',
      help: '1, with the version of Sluice and of Node, the kind of database and the name of the service.',
      labelNames: ['version', 'node', 'database', 'service'],
      registers,
    }),
  } as const;
}

function dashboardMetrics(registry: Registry) {
  const registers = [registry];
  return {
    eventReaders: gaugeIn(registry, { name: 'sluice_event_readers', help: 'Open event streams.' }),
    requestsUnreadable: startingAtZero(
      new Counter({
        name: 'sluice_requests_unreadable_total',
        help: 'Requests refused before any route sees them, by status: 400 and 431 cannot be read, 408 stopped arriving, 417 expects what nobody offers.',
        labelNames: ['status'],
        registers,
      }),
      ['400', '408', '417', '431'].map((status) => ({ status })),
    ),
    eventReadersRefused: startingAtZero(
      new Counter({
        name: 'sluice_event_readers_refused_total',
        help: 'Readers of the event stream by reason: too_many are not let in, too_slow have their stream ended.',
        labelNames: ['reason'],
        registers,
      }),
      ['too_many', 'too_slow'].map((reason) => ({ reason })),
    ),
    roomRefused: startingAtZero(
      new Counter({
        name: 'sluice_room_refused_total',
        help: 'Requests that got 409 because there was no room: for another consumer, or another rehearsal.',
        labelNames: ['room'],
        registers,
      }),
      ['consumers', 'rehearsals'].map((room) => ({ room })),
    ),
  } as const;
}

interface Flows {
  readonly counted: FlowNames;
  readonly timed: FlowNames;
}

function runMetrics(registers: Registry[], { counted, timed }: Flows) {
  return {
    runsStarted: flowCounter(counted, {
      name: 'sluice_runs_started_total',
      help: 'Runs started, by flow and trigger type.',
      labelNames: ['flow', 'trigger'],
      registers,
    }),
    runsCompleted: flowCounter(counted, {
      name: 'sluice_runs_completed_total',
      help: 'Runs that ended, by flow and final status.',
      labelNames: ['flow', 'status'],
      registers,
    }),
    runDurationMs: flowHistogram(timed, {
      name: 'sluice_run_duration_ms',
      help: 'Milliseconds from the start of a run to its end.',
      labelNames: ['flow', 'status'],
      buckets: DURATION_MS_BUCKETS,
      registers,
    }),
  } as const;
}

/** Starts at zero, so that the first event is a rise. */
function startingAtZero<Label extends string>(counter: Counter<Label>, labels: readonly Record<Label, string>[]) {
  for (const each of labels) counter.inc(each, 0);
  return counter;
}

function webhookMetrics(registers: Registry[], { counted, timed }: Flows) {
  return {
    webhookReceived: flowCounter(counted, {
      name: 'webhook_received_total',
      help: 'Deliveries received, by flow, result (accepted or rejected) and signature scheme.',
      labelNames: ['flow', 'result', 'scheme'],
      registers,
    }),
    webhookRejected: flowCounter(counted, {
      name: 'webhook_rejected_total',
      help: 'Deliveries refused, or that Enforce would refuse while auditing, by flow and reason.',
      labelNames: ['flow', 'reason'],
      registers,
    }),
    webhookDuplicate: flowCounter(counted, {
      name: 'webhook_duplicate_total',
      help: 'Deliveries answered with 200 that repeat another one and start no run, by flow.',
      labelNames: ['flow'],
      registers,
    }),
    webhookFiltered: flowCounter(counted, {
      name: 'webhook_filtered_total',
      help: 'Deliveries answered with 200 that webhookWhen keeps from starting a run, by flow.',
      labelNames: ['flow'],
      registers,
    }),
    webhookBodyBytes: new Histogram({
      name: 'webhook_body_bytes',
      help: 'Size of received bodies in bytes.',
      buckets: BYTES_BUCKETS,
      registers,
    }),
    webhookProcessingMs: flowHistogram(timed, {
      name: 'webhook_processing_ms',
      help: 'Milliseconds from reading a delivery to answering it, by flow and result.',
      labelNames: ['flow', 'result'],
      buckets: LATENCY_MS_BUCKETS,
      registers,
    }),
  } as const;
}

/** The labels that callers pass: the flow's id, or `none`, and the metric's other labels. */
type FlowLabels<Label extends string> = Readonly<Record<Label | 'flow', string>>;

/** Metrics by flow, for as many flows as `nameOf` has names. */
interface FlowCounter<Label extends string> {
  inc(labels: FlowLabels<Label>, value?: number): void;
  get: Counter['get'];
}
interface FlowHistogram<Label extends string> {
  observe(labels: FlowLabels<Label>, value: number): void;
}
interface FlowGauge {
  /** The flows that share the name `other` are added up. */
  set(labels: FlowLabels<never>, value: number): void;
}

/** Makes a part's gauge that is labelled with the flow. */
type GaugeOfFlows = (described: Pick<GaugeConfiguration<never>, 'name' | 'help'>) => FlowGauge;

/** The `flow` of a metric: its id, or `other` for all flows beyond the limit, in the order of their first event. */
type FlowNames = (flowId: string) => string;

/** Some 5 series per flow for a counter, some 15 per result for a duration: 1000 flows with all made 3.5 MB a scrape. */
const MOST_COUNTED_FLOWS = 1000;
const MOST_TIMED_FLOWS = 100;

const OTHER = 'other';

function flowNames(most: number): FlowNames {
  const named = new Set<string>();
  return (flowId) => {
    // `none` does not take the place of a flow.
    if (flowId === 'none' || named.has(flowId)) return flowId;
    if (named.size >= most) return OTHER;
    named.add(flowId);
    return flowId;
  };
}

/** The labels with the name of their flow, which for almost every flow is its id. */
function named<Label extends string>(labels: FlowLabels<Label>, nameOf: FlowNames): FlowLabels<Label> {
  const flow = nameOf(labels.flow);
  return flow === labels.flow ? labels : { ...labels, flow };
}

function flowCounter<Label extends string>(
  nameOf: FlowNames,
  config: CounterConfiguration<Label | 'flow'>,
): FlowCounter<Label> {
  const counter = new Counter(config);
  return {
    inc: (labels, value) => counter.inc(named(labels, nameOf), value),
    get: () => counter.get(),
  };
}

function flowHistogram<Label extends string>(
  nameOf: FlowNames,
  config: HistogramConfiguration<Label | 'flow'>,
): FlowHistogram<Label> {
  const histogram = new Histogram(config);
  return { observe: (labels, value) => histogram.observe(named(labels, nameOf), value) };
}

function flowGauge(nameOf: FlowNames, config: GaugeConfiguration<'flow'>): FlowGauge {
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
