import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import pino from 'pino';
import { stepTypes } from '../../src/config/steps.ts';
import { createCatalog } from '../../src/flows/catalog.ts';
import { handlerTable } from '../../src/flows/handlers/index.ts';
import { createRuntime } from '../../src/flows/runtime.ts';
import { parseManifest } from '../../src/manifest/load.ts';
import { createServiceClock } from '../../src/model/clock.ts';
import { openSqliteStore } from '../../src/store/sqlite/client.ts';
import { createLiveEvents } from '../../src/telemetry/events.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';

/**
 * Runs many runs of a flow of five NoOp steps on a database in a file. Prints steps per second, and the time from the
 * commit of a run to the start of its first step. Figures of two machines cannot be compared.
 */
const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '10000' },
    /** Runs started at once. */
    width: { type: 'string', default: '50' },
    concurrency: { type: 'string', default: '16' },
  },
});
const runs = Number(values.runs);
const FLOW_ID = '0b7c9d10-0000-4000-8000-000000000001';
const clock = createServiceClock({ now: () => Date.now(), monotonic: () => performance.now() });
const keys = ['a', 'b', 'c', 'd', 'e'];
const steps = Object.fromEntries(
  keys.map((key, at) => [key, { type: 'NoOp', runAfter: at === 0 ? {} : { [keys[at - 1] ?? '']: ['Succeeded'] } }]),
);

const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
const store = await openSqliteStore({ path: join(folder, 'bench.db') });
const logger = pino({ level: 'silent' });
const handlers = handlerTable(stepTypes().handlers);
const readSecret = () => ({ error: 'there are no secrets' });
const { flow } = parseManifest(JSON.stringify({ id: FLOW_ID, version: '1', steps }), 'bench.json', {
  handlers,
  readSecret,
  strict: false,
  checks: [],
});
if (flow === undefined) throw new Error('the manifest has errors');
const catalog = createCatalog(store, clock);
await catalog.deploy(flow);
const live = createLiveEvents();
const startedAt = new Map<string, number>();
let delays: number[] = [];
let onFirstStep: () => void = () => {};
let ended = 0;
let finish: () => void = () => {};
const finished = new Promise<void>((resolve) => {
  finish = resolve;
});
live.subscribe(({ type, runId, data }) => {
  if (type === 'run.started' && runId !== null) startedAt.set(runId, performance.now());
  if (type === 'step.started' && data.stepKey === 'a' && runId !== null) {
    delays.push(performance.now() - (startedAt.get(runId) ?? Number.NaN));
    startedAt.delete(runId);
    onFirstStep();
  }
  if (type === 'run.completed') {
    ended += 1;
    if (ended === runs) finish();
  }
});
const runtime = createRuntime({
  store,
  catalog,
  handlers,
  readSecret,
  clock,
  logger,
  live,
  metrics: createMetrics(),
  concurrency: Number(values.concurrency),
});
await runtime.start();

async function start(): Promise<void> {
  const request = { flowId: FLOW_ID, triggerKey: 'manual', triggerType: 'manual' } as const;
  await runtime.engine.triggerFlow({ ...request, body: Buffer.from('{}'), contentType: null, headers: {} });
}

const begunAt = performance.now();
const cpuAtBegin = process.cpuUsage();
let left = runs;
await Promise.all(
  Array.from({ length: Number(values.width) }, async () => {
    while (left > 0) {
      left -= 1;
      await start();
    }
  }),
);
const acceptedAfter = performance.now() - begunAt;
await finished;
const seconds = (performance.now() - begunAt) / 1000;
const cpu = process.cpuUsage(cpuAtBegin);
const flooded = delays;
delays = [];
for (let count = 0; count < 300; count += 1) {
  const isFirst = new Promise<void>((resolve) => {
    onFirstStep = resolve;
  });
  await start();
  await isFirst;
}
await runtime.stop(1000);
await store.close();
await rm(folder, { recursive: true, force: true });

function percentiles(times: number[]): string {
  const sorted = times.toSorted((one, other) => one - other);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  return `p50 ${at(0.5).toFixed(1)} ms, p99 ${at(0.99).toFixed(1)} ms`;
}
console.log(
  `${runs} runs of ${keys.length} steps, ${values.width} started at once, ${values.concurrency} steps at once`,
);
console.log(`${((runs * keys.length) / seconds).toFixed(0)} steps/s, ${(runs / seconds).toFixed(0)} runs/s`);
console.log(
  `${((cpu.user + cpu.system) / (runs * keys.length)).toFixed(0)} µs of CPU a step, its share of the run's start too`,
);
console.log(
  `all were accepted after ${(acceptedAfter / 1000).toFixed(1)} s, all had ended after ${seconds.toFixed(1)} s`,
);
console.log(`accepted to first step, all the others waiting too: ${percentiles(flooded)}`);
console.log(`accepted to first step, one run after the other: ${percentiles(delays)}`);
