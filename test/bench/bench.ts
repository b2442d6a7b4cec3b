import { cpus, totalmem } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { BODY_BYTES, bareFastify, sluice } from './candidates.ts';
import { keepOn } from './cpu.ts';
import { buildFlushDelay } from './flush-delay.ts';
import { openGrown } from './grown.ts';
import { findLoader } from './load.ts';
import { type Conditions, type Measured, measureQuietly, measureSustained, type Row } from './measure.ts';
import { openOnPostgres } from './on-postgres.ts';
import { installPeers } from './peers.ts';
import { summarise, tableOf, writeJson } from './report.ts';

const HELP = `Usage: npm run bench -- [options]

Loads the built service and a bare Fastify server in turn, in one run, and prints medians. Only what is relative to the
bare server of the same run means anything: absolute figures change from machine to machine.

  --seconds <n>      length of one load (default 5)
  --rounds <n>       rounds; the medians are printed (default 3)
  --repeats <n>      how often a load is repeated that other programs disturbed (default 3)
  --connections <n>  connections kept open (default 50)
  --only <text>      only rows whose name contains the text, and the rows that their ratios are of
  --loader <name>    wrk or autocannon (default: wrk where it is installed)
  --grown            also load a service with ten million nonces and a million deliveries, at rest and while it removes
                     old ones; ratios to the empty database. Filling it takes minutes and gigabytes
  --grown-folder <f> keep the filled database in the folder, or use the one that is there
  --store postgres   also load a service on a PostgreSQL that this starts; ratios to the same load on SQLite
  --peers            also load other programs that receive webhooks: adnanh/webhook where it is installed, the
                     middleware of @octokit/webhooks and Node-RED, installed from npm into a temporary folder
  --pin              keep the loader on the last core and servers on the others; needs 4 cores and taskset
  --flush-delay <ms> make the service wait at each flush of the database, as a slow disk would; needs Linux and cc
  --profile <folder> write a CPU profile of each thread of the service into the folder
  --node-options <o> options of Node for the service, such as --node-options=--max-semi-space-size=4
  --json <file>      write the figures into the file too
  --help             print this

Columns: ratio and × base compare requests and CPU with bare Fastify, or with the row that the name says. CPU is in
microseconds of all threads for each request: event loop, writer of the database, rest (garbage collection, compilers,
reader). executed is how many runs ended for each request meanwhile, due how long a due step waited at most, and
foreign how many cores other programs used. On PostgreSQL, first is how long the first step waited (p99 of the newest
runs), and db the CPU of the database server.
`;

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '3' },
    repeats: { type: 'string', default: '3' },
    connections: { type: 'string', default: '50' },
    only: { type: 'string', default: '' },
    loader: { type: 'string' },
    grown: { type: 'boolean', default: false },
    'grown-folder': { type: 'string' },
    store: { type: 'string' },
    peers: { type: 'boolean', default: false },
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

const STEADY_RATE = 1000;
const SLOW_RATE = 100;
const MANY = 200;
const BARE = 'bare Fastify';
const BARE_CLOSING = 'bare Fastify, a connection for each';
const ACCEPTED = 'GitHub, nonce, run durable';
const ACCEPTED_MANY = `the same, ${MANY} connections`;
const SUSTAINED = 'sustained, runs executed';

const onStarted = values.pin ? pinned() : () => {};
const delayMs = values['flush-delay'];
const flushDelay = delayMs === undefined ? undefined : await buildFlushDelay(Number(delayMs));
const peers = values.peers ? await installPeers() : undefined;
if (values.store !== undefined && values.store !== 'postgres')
  throw new Error('--store takes postgres and nothing else');
const onPostgres =
  values.store === undefined
    ? undefined
    : await openOnPostgres({ profileFolder: values.profile, nodeOptions: values['node-options'] });
const grown = values.grown
  ? await openGrown(values['grown-folder'], {
      flushDelay,
      nodeOptions: values['node-options'],
      profileFolder: values.profile && join(values.profile, 'grown'),
    })
  : undefined;
const make = (variant: Parameters<typeof sluice>[0]) => () =>
  sluice(variant, { profileFolder: values.profile, nodeOptions: values['node-options'], flushDelay });
const rows: readonly Row[] = [
  { name: BARE, make: bareFastify, base: BARE },
  { name: BARE_CLOSING, make: bareFastify, base: BARE_CLOSING, closes: true },
  { name: 'no gates, run durable', make: make('open'), base: BARE },
  { name: 'refused for its signature', make: make('forged'), base: BARE },
  { name: ACCEPTED, make: make('accepted'), base: BARE },
  { name: 'the same, a connection for each', make: make('accepted'), base: BARE_CLOSING, closes: true },
  { name: `the same, steady ${STEADY_RATE}/s`, make: make('accepted'), base: BARE, rate: STEADY_RATE },
  { name: 'the same, a million live nonces', make: make('millionNonces'), base: BARE },
  ...(onPostgres === undefined
    ? []
    : [
        { name: ACCEPTED_MANY, make: make('accepted'), base: BARE, connections: MANY },
        { name: 'PostgreSQL', make: onPostgres.make, base: ACCEPTED },
        { name: `PostgreSQL, ${MANY} connections`, make: onPostgres.make, base: ACCEPTED_MANY, connections: MANY },
        { name: `PostgreSQL, steady ${SLOW_RATE}/s`, make: onPostgres.make, base: BARE, rate: SLOW_RATE },
      ]),
  ...(grown === undefined
    ? []
    : [
        { name: `grown: ${grown.name}`, make: grown.resting, base: ACCEPTED },
        { name: 'grown, deliveries removed meanwhile', make: grown.removingDeliveries, base: ACCEPTED },
        { name: 'grown, nonces and runs removed meanwhile', make: grown.removingRuns, base: ACCEPTED },
      ]),
  ...(peers?.rows ?? []).map((peer) => ({ ...peer, base: BARE })),
];
const wanted = rows.filter(({ name }) => name.includes(values.only));
const bases = new Set([BARE, ...wanted.map(({ base }) => base)]);
const chosen = rows.filter((row) => wanted.includes(row) || bases.has(row.name));

const conditions: Conditions = {
  loader: findLoader(values.loader),
  seconds: Number(values.seconds),
  connections: Number(values.connections),
  repeats: Number(values.repeats),
  onStarted,
};

/** Moves this process and the loaders that it starts to the last core; yields what moves servers to the others. */
function pinned(): (pid: number) => void {
  const last = cpus().length - 1;
  if (last < 3) throw new Error(`--pin needs 4 cores; there are ${last + 1}`);
  keepOn(String(last), process.pid);
  return (pid) => keepOn(`0-${last - 1}`, pid);
}

const machine = {
  loader: conditions.loader.name,
  connections: conditions.connections,
  seconds: conditions.seconds,
  rounds: Number(values.rounds),
  bodyBytes: BODY_BYTES,
  flushDelayMs: Number(delayMs ?? 0),
  pinned: values.pin,
  node: process.versions.node,
  cores: cpus().length,
  processor: cpus()[0]?.model ?? '',
  memoryGb: Math.round(totalmem() / 1e9),
};
process.stdout.write(
  `${machine.loader}, ${machine.connections} connections, ${machine.seconds} s a load, ${machine.rounds} rounds, ` +
    `body ${BODY_BYTES} bytes, Node ${machine.node}, ${machine.cores} cores, ${machine.memoryGb} GB` +
    `${machine.flushDelayMs === 0 ? '' : `, ${machine.flushDelayMs} ms more for each flush`}\n`,
);

const results = new Map<Row, Measured[]>(chosen.map((row) => [row, []]));
try {
  for (let round = 0; round < machine.rounds; round += 1) {
    for (const row of chosen) results.get(row)?.push(await measureQuietly(row, conditions));
  }
  if (SUSTAINED.includes(values.only)) {
    const accepted = make('accepted');
    const sustained = await measureSustained(accepted, { low: 200, high: 12_000 }, conditions);
    results.set({ name: SUSTAINED, make: accepted, base: BARE }, sustained === undefined ? [] : [sustained]);
  }
} finally {
  await flushDelay?.remove();
  await peers?.remove();
  await grown?.remove();
  await onPostgres?.remove();
}
process.stdout.write(tableOf(summarise(results)));
if (values.json !== undefined) writeJson(values.json, machine, results);
