import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';
import { EVENTS } from '../../src/telemetry/events.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';

const FLOWS = 1_500;
const flowIds = Array.from(
  { length: FLOWS },
  (_, index) => `0b7e2f44-6c1d-4f0e-9a51-${String(index).padStart(12, '0')}`,
);

/** Everything that is counted for a flow. */
function runAll() {
  const metrics = createMetrics();
  for (const flow of ['none', ...flowIds]) {
    metrics.webhookReceived.inc({ flow, result: 'accepted', scheme: 'GitHub' });
    metrics.webhookRejected.inc({ flow, reason: 'signature_mismatch' });
    metrics.webhookDuplicate.inc({ flow });
    metrics.webhookFiltered.inc({ flow });
    metrics.webhookProcessingMs.observe({ flow, result: 'accepted' }, 3);
    metrics.runsStarted.inc({ flow, trigger: 'webhook' });
    metrics.runsCompleted.inc({ flow, status: 'Succeeded' });
    metrics.runDurationMs.observe({ flow, status: 'Succeeded' }, 70);
    metrics.deliveriesHeld.set({ flow }, 2);
  }
  return metrics;
}

interface Sample {
  readonly value: number;
  readonly labels: Readonly<Record<string, string | number | undefined>>;
  readonly metricName?: string;
}

async function samplesOf(metrics: ReturnType<typeof createMetrics>) {
  const all = (await metrics.registry.getMetricsAsJSON()) as unknown as { name: string; values: Sample[] }[];
  return all
    .map(({ name, values }) => ({ name, values: values.filter(({ labels }) => labels.flow !== undefined) }))
    .filter(({ values }) => values.length > 0);
}

it('the flows that metrics name are bounded, and what is left out is counted as other', async () => {
  const byFlow = await samplesOf(runAll());
  const named = byFlow.map(({ name, values }) => [name, new Set(values.map(({ labels }) => labels.flow)).size]);
  expect(Object.fromEntries(named)).toEqual({
    webhook_received_total: 1_002,
    webhook_rejected_total: 1_002,
    webhook_duplicate_total: 1_002,
    webhook_filtered_total: 1_002,
    webhook_processing_ms: 102,
    sluice_runs_started_total: 1_002,
    sluice_runs_completed_total: 1_002,
    sluice_run_duration_ms: 102,
    sluice_deliveries_held: 1_002,
  });
  const total = (name: string, metricName = name) =>
    byFlow
      .find((each) => each.name === name)
      ?.values.filter((sample) => sample.metricName === undefined || sample.metricName === metricName)
      .reduce((sum, { value }) => sum + value, 0);
  expect(total('webhook_received_total')).toBe(FLOWS + 1);
  expect(total('webhook_processing_ms', 'webhook_processing_ms_count')).toBe(FLOWS + 1);
  expect(total('sluice_deliveries_held')).toBe(2 * (FLOWS + 1));
});

it('every metric that has flows is among those that are bounded', async () => {
  const metrics = createMetrics();
  const withFlows = metrics.registry
    .getMetricsAsArray()
    .filter((metric) => (metric as unknown as { labelNames: string[] }).labelNames.includes('flow'))
    .map(({ name }) => name);
  expect(withFlows.sort()).toEqual((await samplesOf(runAll())).map(({ name }) => name).sort());
});

it('the held deliveries of other flows are those of now, added up', async () => {
  const metrics = runAll();
  const other = async () =>
    (await metrics.registry.getSingleMetricAsString('sluice_deliveries_held')).match(/flow="other"\} (\d+)/)?.[1];
  expect(await other()).toBe('1000');
  metrics.deliveriesHeld.set({ flow: flowIds[1400] ?? '' }, 5);
  metrics.deliveriesHeld.set({ flow: flowIds[1401] ?? '' }, 0);
  expect(await other()).toBe('1001');
});

it('a thousand flows make a scrape of less than a megabyte', async () => {
  const metrics = createMetrics();
  for (const flow of flowIds.slice(0, 1_000)) {
    metrics.webhookReceived.inc({ flow, result: 'accepted', scheme: 'GitHub' });
    metrics.webhookProcessingMs.observe({ flow, result: 'accepted' }, 3);
    metrics.runsStarted.inc({ flow, trigger: 'webhook' });
    metrics.runsCompleted.inc({ flow, status: 'Succeeded' });
    metrics.runDurationMs.observe({ flow, status: 'Succeeded' }, 70);
  }
  expect((await metrics.registry.metrics()).length).toBeLessThan(1_000_000);
});

it('every metric is set somewhere, and every event logged', () => {
  const src = resolve(import.meta.dirname, '../../src');
  const code = readdirSync(src, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !/(^|\/)(metrics|events)\.ts$/.test(file))
    .map((file) => readFileSync(join(src, file), 'utf8'))
    .join('\n');
  const { registry, ...metrics } = createMetrics();
  const isSet = (name: string) => RegExp(`metrics\\??\\.${name}\\b|\\b${name}\\.set\\(`).test(code);
  expect(Object.keys(metrics).filter((name) => !isSet(name))).toEqual([]);
  expect(Object.keys(EVENTS).filter((name) => !code.includes(`'${name}'`))).toEqual([]);
});
