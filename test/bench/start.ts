import { connect, type Socket } from 'node:net';
import { cpus } from 'node:os';
import { setTimeout as wait } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { bareFastify, type Candidate, deliverFirst, sluice } from './candidates.ts';
import { cpuOf, residentMb, sumOf } from './counters.ts';
import { startLoader } from './load.ts';

const HELP = `Usage: npm run bench:start -- [options]

Starts the built service and a bare Fastify server in turn, on new databases, and prints medians: milliseconds until it
listens and until it has answered a signed delivery with 200, CPU milliseconds of all its threads until then, and the
memory that is resident when idle, while slow senders hold their bodies, and some time after a flood of deliveries.

  --rounds <n>         starts of each (default 7)
  --idle-seconds <n>   time from the first 200 to the reading of idle memory (default 5)
  --senders <n>        slow senders, each with a body of 1 MiB that lacks its last byte (default 200; 0 leaves them out)
  --flood-seconds <n>  length of the flood (default 10; 0 leaves it out)
  --after-seconds <n>  time from the flood to the last reading (default 60)
  --loader <name>      what makes the flood: wrk or own (default: wrk where it is installed)
  --node-options <o>   options of Node for the service, such as --node-options=--max-semi-space-size=4
  --help               print this
`;

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    'idle-seconds': { type: 'string', default: '5' },
    senders: { type: 'string', default: '200' },
    'flood-seconds': { type: 'string', default: '10' },
    'after-seconds': { type: 'string', default: '60' },
    loader: { type: 'string' },
    'node-options': { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(HELP);
  process.exit();
}
const rounds = Number(values.rounds);
const senders = Number(values.senders);
const floodSeconds = Number(values['flood-seconds']);
const afterSeconds = Number(values['after-seconds']);
const loader = startLoader(values.loader);

const MEBIBYTE = 1_048_576;
const CONNECTIONS = 50;

interface Row {
  readonly name: string;
  readonly make: () => Promise<Candidate>;
}

const rows: readonly Row[] = [
  { name: 'bare Fastify', make: bareFastify },
  { name: 'Sluice', make: () => sluice('accepted', { nodeOptions: values['node-options'] }) },
];

interface Started {
  readonly listeningMs: number;
  readonly answeredMs: number;
  readonly cpuMs: number;
  readonly idleMb: number;
}

/** One process from its start until it is idle. */
async function start({ make }: Row): Promise<Started> {
  const candidate = await make();
  const { pid, startedAt } = candidate;
  const listeningMs = performance.now() - startedAt;
  try {
    await deliverFirst(candidate);
    const answeredMs = performance.now() - startedAt;
    const cpu = cpuOf(pid);
    const cpuMs = cpu === null ? Number.NaN : sumOf(cpu) * 1000;
    await wait(Number(values['idle-seconds']) * 1000);
    return { listeningMs, answeredMs, cpuMs, idleMb: residentMb(pid) };
  } finally {
    await candidate.stop();
  }
}

/** The memory while every sender has sent its body except the last byte. */
async function withSlowSenders({ make }: Row): Promise<number> {
  const candidate = await make();
  const sockets: Socket[] = [];
  try {
    const { hostname, port, pathname } = new URL(candidate.load.url);
    const head = `POST ${pathname} HTTP/1.1\r\nhost: ${hostname}\r\ncontent-length: ${MEBIBYTE}\r\n\r\n`;
    const body = Buffer.alloc(MEBIBYTE - 1, 'x');
    let answered = 0;
    for (let index = 0; index < senders; index += 1) {
      // Different addresses, because one client's share for bodies is smaller than this.
      const localAddress = `127.0.1.${1 + (index % 250)}`;
      const socket = connect({ host: hostname, port: Number(port), localAddress });
      sockets.push(socket);
      socket.on('data', () => {
        answered += 1;
      });
      socket.write(head);
      await new Promise((sent) => socket.write(body, sent));
    }
    // Bytes that the kernel accepted may not have reached the process yet.
    await wait(2000);
    if (answered > 0) throw new Error(`${answered} slow senders were answered: the figure is void`);
    return residentMb(candidate.pid);
  } finally {
    for (const socket of sockets) socket.destroy();
    await candidate.stop();
  }
}

interface Flooded {
  readonly atEndMb: number;
  readonly afterMb: number;
}

/** The memory of each after its flood, and again after a time without requests, the same for all. */
async function afterFloods(): Promise<Flooded[]> {
  const candidates: Candidate[] = [];
  try {
    const atEnd: number[] = [];
    for (const { make } of rows) {
      const candidate = await make();
      candidates.push(candidate);
      await loader.run({ ...candidate.load, connections: CONNECTIONS, seconds: floodSeconds });
      atEnd.push(residentMb(candidate.pid));
    }
    await wait(afterSeconds * 1000);
    return candidates.map(({ pid }, at) => ({ atEndMb: atEnd[at] ?? Number.NaN, afterMb: residentMb(pid) }));
  } finally {
    await Promise.all(candidates.map((candidate) => candidate.stop()));
  }
}

const median = (numbers: readonly number[]) =>
  [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;

process.stdout.write(`Node ${process.versions.node}, ${cpus().length} cores, ${rounds} starts\n`);
const starts = rows.map((): Started[] => []);
for (let round = 0; round < rounds; round += 1) {
  for (const [at, row] of rows.entries()) starts[at]?.push(await start(row));
}
const held: number[] = [];
if (senders > 0) for (const row of rows) held.push(await withSlowSenders(row));
const floods = floodSeconds > 0 ? await afterFloods() : [];
loader.stop();

const shown = (value: number | undefined) => (value === undefined || Number.isNaN(value) ? '-' : value.toFixed(0));
const line = (name: string, cells: readonly string[]) =>
  `${name.padEnd(14)}${cells.map((cell) => cell.padStart(13)).join('')}\n`;
process.stdout.write(
  line('', [
    'listens ms',
    'first 200 ms',
    'CPU ms',
    'idle MB',
    `${senders} slow MB`,
    'flood MB',
    `${afterSeconds} s later MB`,
  ]),
);
for (const [at, { name }] of rows.entries()) {
  const of = (pick: (one: Started) => number) => shown(median((starts[at] ?? []).map(pick)));
  process.stdout.write(
    line(name, [
      of((one) => one.listeningMs),
      of((one) => one.answeredMs),
      of((one) => one.cpuMs),
      of((one) => one.idleMb),
      shown(held[at]),
      shown(floods[at]?.atEndMb),
      shown(floods[at]?.afterMb),
    ]),
  );
}
