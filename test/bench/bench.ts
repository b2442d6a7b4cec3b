import { spawnSync } from 'node:child_process';
import { cpus, totalmem } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { bareFastify, delivery, onInstantStore, sluice } from './candidates.ts';
import { keepOn } from './counters.ts';
import { durablePeers } from './durable-peers.ts';
import { buildFlushDelay } from './flush-delay.ts';
import { openGrown } from './grown.ts';
import { startLoader } from './load.ts';
import { type Conditions, type Measured, measureQuietly, measureSustained, type Row } from './measure.ts';
import { openOnPostgres } from './on-postgres.ts';
import { installPeers, VERIFYING_PEERS } from './peers.ts';
import { summarise, tablesOf, writeJson } from './report.ts';

const HELP = `Usage: npm run bench -- [options]

Loads the built service and a bare Fastify server in turn, in one run, and prints medians. Only what is relative to the
bare server of the same run means anything: absolute figures change from machine to machine.

  --seconds <n>      length of one load (default 5)
  --rounds <n>       rounds; the medians are printed (default 3)
  --warm-up <n>      deliveries at full speed before a figure is taken, for 30 s at most (default 30000)
  --repeats <n>      how often a load is repeated that other programs disturbed (default 3)
  --connections <n>  connections kept open (default 50)
  --only <text>      only rows whose name contains the text, and the rows that their ratios are of
  --loader <name>    what loads at full speed: wrk, or the bench's own generator, which makes the loads of a steady rate
                     in any case (own; default: wrk where it is installed)
  --grown            also load a service with ten million nonces and a million deliveries, at rest and while it removes
                     old ones; ratios to the empty database. Filling it takes minutes and gigabytes
  --grown-folder <f> keep the filled database in the folder, or use the one that is there
  --store postgres   also load a service on a PostgreSQL that this starts; ratios to the same load on SQLite
  --peers            also load other programs that receive webhooks: adnanh/webhook where it is installed, the
                     middleware of @octokit/webhooks and Node-RED, installed from npm into a temporary folder
  --durable-peers    load what stores a delivery and runs one step of it, in place of the other rows: Fastify with
                     BullMQ, pg-boss, graphile-worker, DBOS and Restate, installed from npm into a temporary folder
                     (300 MB), and Sluice on SQLite and PostgreSQL. Redis has to be installed (redis-server)
  --pin              keep the loader on the last core and servers on the others; needs 4 cores and taskset
  --flush-delay <ms> make the service wait at each flush of the database, as a slow disk would; needs Linux and cc
  --profile <folder> write a CPU profile of each thread of the service into the folder
  --node-options <o> options of Node for the service, such as --node-options=--max-semi-space-size=4
  --json <file>      write the figures into the file too
  --help             print this

Columns: ratio and × base compare requests and CPU with bare Fastify, or with the row that the name says. CPU is in
microseconds for each request: event loop, writer of the database, rest (garbage collection, compilers, reader), and
helpers (a database server). At a steady rate, latency counts from the time that the timetable has for a request.
foreign is how many cores other programs used. executed is how many runs ended for each request meanwhile, and due how
long a due step waited at most; on PostgreSQL, first step is how long the first step waited (p99 of the newest runs).
KB written is what the kernel counts for each request, pages are those of the write-ahead log. first 200, idle and load
are the start, and the resident memory (without helpers) before the first load and at most during the measured one.
`;

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '3' },
    'warm-up': { type: 'string', default: '30000' },
    repeats: { type: 'string', default: '3' },
    connections: { type: 'string', default: '50' },
    only: { type: 'string', default: '' },
    loader: { type: 'string' },
    grown: { type: 'boolean', default: false },
    'grown-folder': { type: 'string' },
    store: { type: 'string' },
    peers: { type: 'boolean', default: false },
    'durable-peers': { type: 'boolean', default: false },
    pin: { type: 'boolean', default: false },
    'flush-delay': { type: 'string' },
    profile: { type: 'string' },
    'node-options': { type: 'string' },
    json: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(HELP);
  process.exit();
}

const MANY = 200;
const BARE = 'bare Fastify';
const BARE_CLOSING = 'bare Fastify, a connection for each';
const ACCEPTED = 'GitHub, nonce, run durable';
const ACCEPTED_MANY = `the same, ${MANY} connections`;
const SUSTAINED = 'sustained, runs executed';

const onStarted = values.pin ? pinned() : () => {};
const delayMs = values['flush-delay'];
const flushDelay = delayMs === undefined ? undefined : await buildFlushDelay(Number(delayMs));
if (values.store !== undefined && values.store !== 'postgres')
  throw new Error('--store takes postgres and nothing else');
const serviceOptions = { profileFolder: values.profile, nodeOptions: values['node-options'] };
const onPostgres =
  values.store === undefined && !values['durable-peers'] ? undefined : await openOnPostgres(serviceOptions);
const knownPeers = [
  ...(values.peers ? VERIFYING_PEERS : []),
  ...(values['durable-peers'] && onPostgres !== undefined ? durablePeers(onPostgres) : []),
];
const peers = await installPeers(knownPeers.filter(({ name }) => name.includes(values.only)));
const missing = [...peers.missing];
const grown = values.grown
  ? await openGrown(values['grown-folder'], {
      ...serviceOptions,
      flushDelay,
      profileFolder: values.profile && join(values.profile, 'grown'),
    })
  : undefined;
const make = (variant: Parameters<typeof sluice>[0]) => () => sluice(variant, { ...serviceOptions, flushDelay });
const accepted = make('accepted');
const bare: Row = { name: BARE, make: bareFastify, base: BARE };
const atFullSpeed: Row = { name: ACCEPTED, make: accepted, base: BARE };
const steady = (rate: number) => ({ base: BARE, rate, connections: MANY });
const ownRows: readonly Row[] = [
  bare,
  { name: BARE_CLOSING, make: bareFastify, base: BARE_CLOSING, closes: true },
  { name: 'bare Fastify, steady 1000/s', make: bareFastify, ...steady(1000) },
  { name: 'no gates, run durable', make: make('open'), base: BARE },
  { name: 'refused for its signature', make: make('forged'), base: BARE },
  atFullSpeed,
  { name: 'the same, body of 7 KB', make: make('accepted7'), base: BARE },
  { name: 'the same, body of 21 KB', make: make('accepted21'), base: BARE },
  { name: 'the same, store answers at once', make: () => onInstantStore(serviceOptions), base: BARE },
  { name: 'the same, a connection for each', make: accepted, base: BARE_CLOSING, closes: true },
  { name: 'the same, steady 1000/s', make: accepted, ...steady(1000) },
  { name: 'the same, steady 3000/s', make: accepted, ...steady(3000) },
  { name: 'the same, steady 3000/s, not warm', make: accepted, ...steady(3000), isCold: true },
  { name: 'the same, a million live nonces', make: make('millionNonces'), base: BARE },
  { name: 'the same, its event identified', make: make('identified'), base: ACCEPTED },
  { name: 'the same, asked of webhookWhen', make: make('filtered'), base: ACCEPTED },
  { name: 'the same, in order of a key', make: make('serialized'), base: ACCEPTED },
  ...(onPostgres === undefined
    ? []
    : [
        { name: ACCEPTED_MANY, make: accepted, base: BARE, connections: MANY },
        { name: 'PostgreSQL', make: onPostgres.make, base: ACCEPTED },
        { name: `PostgreSQL, ${MANY} connections`, make: onPostgres.make, base: ACCEPTED_MANY, connections: MANY },
        { name: 'PostgreSQL, steady 100/s', make: onPostgres.make, ...steady(100) },
      ]),
  ...(grown === undefined
    ? []
    : [
        { name: `grown: ${grown.name}`, make: grown.resting, base: ACCEPTED },
        { name: 'grown, deliveries removed meanwhile', make: grown.removingDeliveries, base: ACCEPTED },
        { name: 'grown, nonces and runs removed meanwhile', make: grown.removingRuns, base: ACCEPTED },
      ]),
];
const peerRows: readonly Row[] = peers.rows.map((peer) => ({ ...peer, base: BARE }));
const rows: readonly Row[] =
  onPostgres !== undefined && values['durable-peers']
    ? [
        bare,
        ...peerRows,
        { ...atFullSpeed, name: 'Sluice on SQLite' },
        { name: 'Sluice on PostgreSQL', make: onPostgres.make, base: BARE },
      ]
    : [...ownRows, ...peerRows];
const wanted = rows.filter(({ name }) => name.includes(values.only));
const bases = new Set([BARE, ...wanted.map(({ base }) => base)]);
const chosen = rows.filter((row) => wanted.includes(row) || bases.has(row.name));

const loader = startLoader(values.loader);
const conditions: Conditions = {
  loader,
  seconds: Number(values.seconds),
  connections: Number(values.connections),
  warmUp: Number(values['warm-up']),
  repeats: Number(values.repeats),
  onStarted,
};

/** Moves this process and its loaders to the last core; returns a function that moves a server to the others. */
function pinned(): (pid: number) => void {
  const last = cpus().length - 1;
  if (last < 3) throw new Error(`--pin needs 4 cores; there are ${last + 1}`);
  keepOn(String(last), process.pid);
  return (pid) => keepOn(`0-${last - 1}`, pid);
}

/** The commit that is checked out, with a + if files differ from it. */
function commit(): string {
  const git = (...args: string[]) => spawnSync('git', args, { cwd: import.meta.dirname, encoding: 'utf8' }).stdout;
  const name = git('rev-parse', '--short', 'HEAD')?.trim();
  return name ? `${name}${git('status', '--porcelain') === '' ? '' : '+'}` : 'unknown';
}

const machine = {
  commit: commit(),
  loader: loader.name,
  connections: conditions.connections,
  seconds: conditions.seconds,
  rounds: Number(values.rounds),
  warmUp: conditions.warmUp,
  body: `${delivery.name}, ${Buffer.byteLength(delivery.body)} bytes`,
  flushDelayMs: Number(delayMs ?? 0),
  pinned: values.pin,
  node: process.versions.node,
  cores: cpus().length,
  processor: cpus()[0]?.model ?? '',
  memoryGb: Math.round(totalmem() / 1e9),
};
process.stdout.write(
  `commit ${machine.commit}, ${machine.loader}, ${machine.connections} connections, ${machine.seconds} s a load after ` +
    `${machine.warmUp} deliveries, ${machine.rounds} rounds, body of ${machine.body}, Node ${machine.node}, ` +
    `${machine.cores} cores (${machine.processor}), ${machine.memoryGb} GB` +
    `${machine.flushDelayMs === 0 ? '' : `, ${machine.flushDelayMs} ms more for each flush`}\n\n`,
);

const results = new Map<Row, Measured[]>(chosen.map((row) => [row, []]));
/** Measures a row once more. Drops a peer that cannot be started or loaded, and names it in `missing`. */
async function measureAgain(row: Row): Promise<void> {
  try {
    results.get(row)?.push(await measureQuietly(row, conditions));
  } catch (error) {
    if (!peerRows.includes(row)) throw error;
    results.delete(row);
    missing.push(`${row.name}: ${error instanceof Error ? (error.cause ?? error) : error}`);
  }
}

try {
  for (let round = 0; round < machine.rounds; round += 1) {
    for (const row of [...results.keys()]) await measureAgain(row);
  }
  if (SUSTAINED.includes(values.only) && !values['durable-peers']) {
    const sustained = await measureSustained(accepted, { low: 200, high: 12_000 }, conditions);
    results.set({ name: SUSTAINED, make: accepted, base: BARE }, sustained === undefined ? [] : [sustained]);
  }
} finally {
  loader.stop();
  await flushDelay?.remove();
  await peers.remove();
  await grown?.remove();
  await onPostgres?.remove();
}
process.stdout.write(tablesOf(summarise(results)));
for (const line of missing) process.stdout.write(`\nleft out: ${line}\n`);
if (values.json !== undefined) writeJson(values.json, { ...machine, missing }, results);
