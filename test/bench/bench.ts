import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { BODY_BYTES, bareFastify, type Candidate, sluice } from './candidates.ts';
import { type CpuSeconds, cpuBetween, cpuOf, machineCpu, ownCpu } from './cpu.ts';
import { type Figures, findLoader, type Load, steadyLoad } from './load.ts';

const HELP = `Usage: npm run bench -- [options]

Loads the built service and a bare Fastify server in turn, in one run, and prints medians. Only what is relative to the
bare server of the same run means anything: absolute figures change from machine to machine.

  --seconds <n>      length of one load (default 5)
  --rounds <n>       rounds; the medians are printed (default 3)
  --connections <n>  connections kept open (default 50)
  --only <text>      only candidates whose name contains the text; bare Fastify always runs
  --loader <name>    wrk or autocannon (default: wrk where it is installed)
  --profile <folder> write a CPU profile of each thread of the service into the folder
  --help             print this
`;

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '3' },
    connections: { type: 'string', default: '50' },
    only: { type: 'string', default: '' },
    loader: { type: 'string' },
    profile: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(HELP);
  process.exit();
}
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);
const connections = Number(values.connections);
const profile = { profileFolder: values.profile };

/** Other programs may take this much of one core before a round is repeated. */
const MAX_FOREIGN_CORES = 0.1;
const MAX_REPEATS = 3;
const STEADY_RATE = 1000;
/** A rate is sustained while no due step waits longer than this. */
const MAX_DUE_MS = 1000;

interface Row {
  readonly name: string;
  readonly make: () => Promise<Candidate>;
  /** The row that the ratio is of. */
  readonly base: string;
  readonly load: (load: Load) => Promise<Figures>;
  readonly closes?: boolean;
}

interface Measured extends Figures {
  readonly cpu: CpuSeconds | null;
  /** Answered requests. */
  readonly requests: number;
  /** Runs that ended during the load, and the oldest due step at its end; null where nothing is run. */
  readonly executed: number | null;
  readonly oldestDueMs: number | null;
  readonly foreignCores: number;
}

const loader = findLoader(values.loader);
const BARE = 'bare Fastify';
const BARE_CLOSING = 'bare Fastify, a connection for each';
const rows: readonly Row[] = [
  { name: BARE, make: bareFastify, base: BARE, load: loader.run },
  { name: BARE_CLOSING, make: bareFastify, base: BARE_CLOSING, load: loader.run, closes: true },
  { name: 'no gates, run durable', make: () => sluice('open', profile), base: BARE, load: loader.run },
  { name: 'GitHub, nonce, run durable', make: () => sluice('accepted', profile), base: BARE, load: loader.run },
  {
    name: 'the same, a connection for each',
    make: () => sluice('accepted'),
    base: BARE_CLOSING,
    load: loader.run,
    closes: true,
  },
  { name: 'the same, a million live nonces', make: () => sluice('millionNonces'), base: BARE, load: loader.run },
  { name: 'refused for its signature', make: () => sluice('forged', profile), base: BARE, load: loader.run },
  {
    name: `the same, steady ${STEADY_RATE}/s`,
    make: () => sluice('accepted'),
    base: BARE,
    load: (load: Load) => steadyLoad(load, STEADY_RATE),
  },
].filter(({ name, base }) => name === base || name.includes(values.only));

async function measure(candidate: Candidate, row: Row): Promise<Measured> {
  const load = { ...candidate.load, connections, closes: row.closes };
  await row.load({ ...load, seconds: 2 });
  const before = { cpu: cpuOf(candidate.pid), machine: machineCpu(), own: ownCpu(), runs: candidate.runs?.() };
  const startedAt = performance.now();
  const figures = await row.load({ ...load, seconds });
  const elapsed = (performance.now() - startedAt) / 1000;
  const after = { cpu: cpuOf(candidate.pid), machine: machineCpu(), own: ownCpu(), runs: candidate.runs?.() };
  if (figures.failed > 0 || figures.status !== candidate.expectedStatus) {
    throw new Error(`${row.name}: ${figures.failed} failed, status ${figures.status}: the figure is void`);
  }
  const cpu = before.cpu === null || after.cpu === null ? null : cpuBetween(before.cpu, after.cpu);
  const known = (cpu?.all ?? 0) + (after.own - before.own);
  return {
    ...figures,
    cpu,
    requests: figures.requestsPerSecond * elapsed,
    executed: before.runs === undefined || after.runs === undefined ? null : after.runs.executed - before.runs.executed,
    oldestDueMs: after.runs?.oldestDueMs ?? null,
    foreignCores: Math.max(0, (after.machine - before.machine - known) / elapsed),
  };
}

/** One load on a fresh process; repeated where other programs used the machine meanwhile. */
async function measureQuietly(row: Row): Promise<Measured> {
  for (let attempt = 0; ; attempt += 1) {
    const candidate = await row.make();
    try {
      const measured = await measure(candidate, row);
      if (measured.foreignCores <= MAX_FOREIGN_CORES || attempt === MAX_REPEATS) return measured;
      process.stderr.write(`${row.name}: others used ${measured.foreignCores.toFixed(2)} cores; once more\n`);
    } finally {
      await candidate.stop();
    }
  }
}

/** The highest steady rate at which the steps keep up with the deliveries. */
async function sustained(): Promise<number> {
  const candidate = await sluice('accepted');
  try {
    let best = 0;
    let [low, high] = [100, 8000];
    while (high - low > 150) {
      const rate = Math.round((low + high) / 2);
      const figures = await steadyLoad({ ...candidate.load, connections, seconds }, rate);
      const due = candidate.runs?.().oldestDueMs ?? 0;
      const keepsUp = figures.failed === 0 && due < MAX_DUE_MS && figures.requestsPerSecond > rate * 0.95;
      if (keepsUp) best = Math.max(best, figures.requestsPerSecond);
      if (keepsUp) low = rate;
      else high = rate;
      while ((candidate.runs?.().oldestDueMs ?? 0) > 0) await new Promise((resolve) => setTimeout(resolve, 100));
    }
    return best;
  } finally {
    await candidate.stop();
  }
}

const median = (numbers: readonly number[]) =>
  [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;

process.stdout.write(
  `${loader.name}, ${connections} connections, ${seconds} s a load, ${rounds} rounds, body ${BODY_BYTES} bytes, ` +
    `Node ${process.versions.node}, ${cpus().length} cores\n`,
);
const results = new Map<string, Measured[]>();
for (let round = 0; round < rounds; round += 1) {
  for (const row of rows) results.set(row.name, [...(results.get(row.name) ?? []), await measureQuietly(row)]);
}

const rateOf = (name: string) => median(results.get(name)?.map((one) => one.requestsPerSecond) ?? []);
const microseconds = (name: string, thread: keyof CpuSeconds) =>
  median(results.get(name)?.map(({ cpu, requests }) => ((cpu?.[thread] ?? Number.NaN) * 1e6) / requests) ?? []);
const COLUMNS = [
  'req/s',
  'ratio',
  'p50 ms',
  'p99 ms',
  'loop µs',
  'writer',
  'rest',
  'all µs',
  '× bare',
  'runs',
  'due ms',
  'foreign',
];
const line = (name: string, cells: readonly string[]) =>
  `${name.padEnd(36)}${cells.map((cell) => cell.padStart(9)).join('')}\n`;
process.stdout.write(line('', COLUMNS));
for (const { name, base } of rows) {
  const all = results.get(name) ?? [];
  const of = (pick: (one: Measured) => number | null) => median(all.map((one) => pick(one) ?? Number.NaN));
  const shown = (value: number, digits: number) => (Number.isNaN(value) ? '-' : value.toFixed(digits));
  process.stdout.write(
    line(name, [
      shown(rateOf(name), 0),
      shown(rateOf(name) / rateOf(base), 2),
      shown(
        of((one) => one.p50Ms),
        1,
      ),
      shown(
        of((one) => one.p99Ms),
        1,
      ),
      shown(microseconds(name, 'loop'), 0),
      shown(microseconds(name, 'writer'), 0),
      shown(microseconds(name, 'rest'), 0),
      shown(microseconds(name, 'all'), 0),
      shown(microseconds(name, 'all') / microseconds(base, 'all'), 1),
      shown(
        of((one) => one.executed),
        0,
      ),
      shown(
        of((one) => one.oldestDueMs),
        0,
      ),
      shown(
        of((one) => one.foreignCores),
        2,
      ),
    ]),
  );
}
if ('sustained'.includes(values.only)) {
  const rate = await sustained();
  process.stdout.write(line('sustained, runs executed', [rate.toFixed(0), (rate / rateOf(BARE)).toFixed(2)]));
}
