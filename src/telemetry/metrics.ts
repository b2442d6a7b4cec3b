import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

/** Everything `/metrics` shows. One per app, so that two apps in one process do not share counts. */
export interface Metrics {
  readonly registry: Registry;
  /** `flow` is the flow's id or `none`, `scheme` a scheme's name or `none`. */
  readonly webhookReceived: Counter<'flow' | 'result' | 'scheme'>;
  readonly webhookRejected: Counter<'flow' | 'reason'>;
  readonly webhookBodyBytes: Histogram;
  readonly webhookProcessingMs: Histogram<'flow' | 'result'>;
  readonly runsStarted: Counter<'flow' | 'trigger'>;
  readonly runsCompleted: Counter<'flow' | 'status'>;
  readonly runDurationMs: Histogram<'flow' | 'status'>;
  readonly stepsCompleted: Counter<'type' | 'status'>;
  readonly stepDurationMs: Histogram<'type'>;
  /** From the time a step fell due to its start. */
  readonly queueWaitMs: Histogram;
  readonly stepsInFlight: Gauge;
  /** `host` is an origin, of the first 50 hosts, or `other`. */
  readonly outgoingRequests: Counter<'host' | 'result'>;
  readonly outgoingCircuitsOpen: Gauge<'host'>;
  /** As of the last second. */
  readonly outgoingWaitingSteps: Gauge<'host'>;
  readonly dueSteps: Gauge;
  /** Of those that only wait for a slot. */
  readonly oldestDueStepSeconds: Gauge;
  /** Taken while their flow starts no runs. */
  readonly deliveriesHeld: Gauge<'flow'>;
  /** From the time a cron trigger fell due to its run's start. */
  readonly scheduleLagMs: Histogram;
  /** Set whenever the metrics are read. */
  readonly ready: Gauge;
  /** Set whenever the metrics are read; the same number in every replica. */
  readonly clusterReplicas: Gauge;
  /** Secrets, settings and extensions; set whenever the metrics are read. */
  readonly clusterDifferences: Gauge;
}

const LATENCY_MS_BUCKETS = [0.5, 1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000];
const DURATION_MS_BUCKETS = [1, 5, 25, 100, 500, 1000, 5000, 15_000, 60_000, 300_000, 3_600_000];
const BYTES_BUCKETS = [256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216];

export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  return {
    registry,
    ...webhookMetrics(registers),
    ...outgoingMetrics(registers),
    runsStarted: new Counter({
      name: 'sluice_runs_started_total',
      help: 'Runs started, by flow and trigger type.',
      labelNames: ['flow', 'trigger'],
      registers,
    }),
    runsCompleted: new Counter({
      name: 'sluice_runs_completed_total',
      help: 'Runs that ended, by flow and final status.',
      labelNames: ['flow', 'status'],
      registers,
    }),
    runDurationMs: new Histogram({
      name: 'sluice_run_duration_ms',
      help: 'Milliseconds from the start of a run to its end.',
      labelNames: ['flow', 'status'],
      buckets: DURATION_MS_BUCKETS,
      registers,
    }),
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
    scheduleLagMs: new Histogram({
      name: 'sluice_schedule_lag_ms',
      help: 'Milliseconds from the time a cron trigger became due to the start of its run.',
      buckets: DURATION_MS_BUCKETS,
      registers,
    }),
    deliveriesHeld: new Gauge({
      name: 'sluice_deliveries_held',
      help: 'Accepted deliveries whose runs start when their flow is enabled or resumed, by flow.',
      labelNames: ['flow'],
      registers,
    }),
    dueSteps: new Gauge({
      name: 'sluice_due_steps',
      help: 'Due steps that wait for their turn; not counted beyond the limit of the backlog.',
      registers,
    }),
    oldestDueStepSeconds: new Gauge({
      name: 'sluice_oldest_due_step_seconds',
      help: 'Age in seconds of the oldest due step that no limit in a manifest holds back; 0 if none waits.',
      registers,
    }),
    ready: new Gauge({
      name: 'sluice_ready',
      help: '1 while /health/ready answers 200, else 0.',
      registers,
    }),
    clusterReplicas: new Gauge({
      name: 'sluice_cluster_replicas',
      help: 'Live replicas, as of the last heartbeat of this one; 1 on SQLite.',
      registers,
    }),
    clusterDifferences: new Gauge({
      name: 'sluice_cluster_differences',
      help: 'Secrets, settings and extensions that differ between replicas; the attention list names them.',
      registers,
    }),
    stepsInFlight: new Gauge({
      name: 'sluice_steps_in_flight',
      help: 'Running steps.',
      registers,
    }),
  };
}

function outgoingMetrics(registers: Registry[]) {
  return {
    outgoingRequests: new Counter({
      name: 'sluice_outgoing_requests_total',
      help: 'Requests of HttpRequest steps by host and result: answered, failed, refused (Retry-After) or none. 50 hosts, then other.',
      labelNames: ['host', 'result'],
      registers,
    }),
    outgoingCircuitsOpen: new Gauge({
      name: 'sluice_outgoing_circuits_open',
      help: '1 while the circuit of a host is open, else 0; of other hosts, how many are open.',
      labelNames: ['host'],
      registers,
    }),
    outgoingWaitingSteps: new Gauge({
      name: 'sluice_outgoing_waiting_steps',
      help: 'Steps that wait for their turn at a host, in all replicas; at most 10000 are counted for each host.',
      labelNames: ['host'],
      registers,
    }),
  } as const;
}

function webhookMetrics(registers: Registry[]) {
  return {
    webhookReceived: new Counter({
      name: 'webhook_received_total',
      help: 'Deliveries received, by flow, result (accepted or rejected) and signature scheme.',
      labelNames: ['flow', 'result', 'scheme'],
      registers,
    }),
    webhookRejected: new Counter({
      name: 'webhook_rejected_total',
      help: 'Deliveries refused, or that Enforce would refuse while auditing, by flow and reason.',
      labelNames: ['flow', 'reason'],
      registers,
    }),
    webhookBodyBytes: new Histogram({
      name: 'webhook_body_bytes',
      help: 'Size of received bodies in bytes.',
      buckets: BYTES_BUCKETS,
      registers,
    }),
    webhookProcessingMs: new Histogram({
      name: 'webhook_processing_ms',
      help: 'Milliseconds from reading a delivery to answering it, by flow and result.',
      labelNames: ['flow', 'result'],
      buckets: LATENCY_MS_BUCKETS,
      registers,
    }),
  } as const;
}
