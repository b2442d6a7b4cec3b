import { execFileSync } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import { buildApp } from '../../src/app.ts';
import { createWorkspace, githubManifest } from '../e2e/service.ts';
import { startPostgres } from '../postgres/server.ts';
import { FLOWS, fillLog, RARE_REASON } from './fill-log.ts';

/**
 * Asks every list, with every filter, of a service with a large database. Prints how long the answers took, and how
 * long the event loop was blocked meanwhile, because deliveries wait for that.
 */
const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '1000000' },
    repeat: { type: 'string', default: '20' },
    // A folder that an earlier bench left, to save filling one.
    folder: { type: 'string' },
    keep: { type: 'boolean', default: false },
    // `postgres` uses a copy of the database on a separate server.
    store: { type: 'string', default: 'sqlite' },
    // Asks only URLs that contain this text, such as `search`.
    only: { type: 'string', default: '' },
  },
});
const rows = Number(values.rows);
const repeat = Number(values.repeat);

const quietSettings = {
  logLevel: 'silent',
  runRetentionDays: 3650,
  deliveryRetentionDays: 3650,
} as const;

async function open(folder: string, databaseUrl = `sqlite:${fileIn(folder)}`) {
  const settings = { ...quietSettings, manifests: join(folder, 'manifests'), port: 0, databaseUrl };
  return buildApp({ folder, settings });
}

const fileIn = (folder: string) => join(folder, 'data/sluice.db');

async function filledFolder(): Promise<{ folder: string; remove(): Promise<void> }> {
  if (values.folder !== undefined && existsSync(values.folder))
    return { folder: values.folder, remove: async () => {} };
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest());
  await (await open(workspace.folder)).close();
  const file = fileIn(workspace.folder);
  const startedAt = performance.now();
  fillLog(file, rows);
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  console.log(
    `${rows} deliveries and runs: ${Math.round(statSync(file).size / 1e6)} MB in ${seconds} s, ${workspace.folder}`,
  );
  return { folder: workspace.folder, remove: () => (values.keep ? Promise.resolve() : workspace.remove()) };
}

const listed = (path: string, filters: readonly string[]) =>
  filters.flatMap((filter) =>
    ['', 'includeTotal=true', `skip=${Math.floor(rows / 2)}`, `skip=${rows - 60}`].map(
      (paging) => `${path}?${[filter, paging].filter((part) => part !== '').join('&')}`,
    ),
  );

const deliveryFilters = ['', ...Object.values(FLOWS).map((flowId) => `flowId=${flowId}`)].flatMap((flow) =>
  [
    '',
    'reason=signature_mismatch',
    `reason=${RARE_REASON}`,
    'reason=timestamp_skew',
    'rejectedOnly=true',
    'acceptedOnly=true',
  ].map((filter) => [flow, filter].filter((part) => part !== '').join('&')),
);
const runFilters = ['', ...Object.values(FLOWS).map((flowId) => `flowId=${flowId}`)].flatMap((flow) =>
  ['', 'status=Running', 'status=Succeeded', 'status=Failed', 'status=Cancelled', 'status=TimedOut'].map((filter) =>
    [flow, filter].filter((part) => part !== '').join('&'),
  ),
);
/** Whole search keys and prefixes: of one row, of every hundredth, of all. */
const keys = [`SO-${Math.floor(rows / 2)}`, 'SO-50', 'SO-', 'orders/create', 'orders/cancel'].flatMap((value) => [
  `search=${value}`,
  `searchKeys=${value.startsWith('SO') ? 'order' : 'event'}:${value}`,
]);
const searches = [
  'search=orders',
  'search=nothing-has-this',
  'search=192.0.2.7',
  // The key of the deployed trigger.
  'search=github',
  `search=${'0'.repeat(8)}`,
  ...keys,
].flatMap((search) => [search, `${search}&includeTotal=true`, `${search}&flowId=${FLOWS.rare}`]);

const api = '/flows/api';
const day = 86_400_000;
const spans = [
  `since=${Date.now() - 20 * 60_000}`,
  `since=${Date.now() - 15 * day - 20 * 60_000}&until=${Date.now() - 15 * day}`,
  `since=${Date.now() - 31 * day}`,
].flatMap((span) => [
  span,
  `${span}&includeTotal=true`,
  ...Object.values(FLOWS).map((flowId) => `${span}&flowId=${flowId}&includeTotal=true`),
]);
const waits = ['signal', 'delay', 'retry', 'poll', 'host', 'slot'].flatMap((kind) => [
  `waiting=${kind}&includeTotal=true`,
  `waiting=${kind}&flowId=${FLOWS.rare}`,
]);
const urls = [
  ...[...spans, ...waits].map((filter) => `${api}/runs?${filter}`),
  ...[...spans, 'heldOnly=true&includeTotal=true'].map((filter) => `${api}/webhooks/recent?${filter}`),
  ...[`minutes=60`, `minutes=360`, `minutes=360&flowId=${FLOWS.busy}`].flatMap((minutes) => [
    `${api}/runs/timeseries?bucket=minute&${minutes}`,
    `${api}/webhooks/timeseries?bucket=minute&${minutes}`,
  ]),
  ...listed(`${api}/webhooks/recent`, deliveryFilters),
  ...searches.map((search) => `${api}/webhooks/recent?${search}`),
  ...listed(`${api}/runs`, runFilters),
  ...searches.map((search) => `${api}/runs?${search}`),
  `${api}/runs/active`,
  `${api}/runs/stats`,
  ...['hour&hours=24', 'hour&hours=720', 'day&days=30', 'day&days=365'].flatMap((bucket) => [
    `${api}/runs/timeseries?bucket=${bucket}`,
    `${api}/runs/timeseries?bucket=${bucket}&flowId=${FLOWS.busy}`,
  ]),
  ...[1, 24, 720].flatMap((hours) => [
    `${api}/webhooks/stats?hours=${hours}`,
    `${api}/webhooks/timeseries?hours=${hours}`,
    `${api}/webhooks/timeseries?hours=${hours}&flowId=${FLOWS.busy}`,
    `${api}/webhooks/readiness?hours=${hours}`,
  ]),
  ...['flows', 'schedules', 'handlers', 'schemes', 'attention'].map((name) => `${api}/${name}`),
];

const percentile = (sorted: readonly number[], share: number) =>
  sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;

const { folder, remove } = await filledFolder();
const server = values.store === 'postgres' ? await startPostgres(['-c', 'shared_buffers=256MB']) : undefined;
if (server !== undefined) {
  const copy = ['dist/cli.js', 'copy', '--from', `sqlite:${fileIn(folder)}`, '--to', server.url];
  execFileSync(process.execPath, copy, { stdio: 'inherit' });
}
const app = await open(folder, server?.url);
const base = await app.listen();
const results: { url: string; p50: number; p99: number; loop: number }[] = [];
for (const url of urls.filter((each) => each.includes(values.only))) {
  const times: number[] = [];
  const loop = monitorEventLoopDelay({ resolution: 1 });
  for (let round = 0; round <= repeat; round += 1) {
    // The first answer is not counted, because it prepares the statement and reads cold pages.
    if (round === 1) loop.enable();
    const startedAt = performance.now();
    const response = await fetch(`${base}${url}`);
    const text = await response.text();
    if (!response.ok) throw new Error(`${url}: ${response.status} ${text}`);
    if (round > 0) times.push(performance.now() - startedAt);
  }
  loop.disable();
  times.sort((a, b) => a - b);
  results.push({ url, p50: percentile(times, 0.5), p99: percentile(times, 0.99), loop: loop.percentile(99) / 1e6 });
}
await app.close();
await server?.stop();
await remove();

results.sort((a, b) => b.p99 - a.p99);
console.log(
  `${'p50 ms'.padStart(8)} ${'p99 ms'.padStart(8)} ${'loop p99'.padStart(9)}  answer, slowest first; ${repeat} times each`,
);
for (const { url, p50, p99, loop } of results) {
  console.log(`${p50.toFixed(1).padStart(8)} ${p99.toFixed(1).padStart(8)} ${loop.toFixed(1).padStart(9)}  ${url}`);
}
