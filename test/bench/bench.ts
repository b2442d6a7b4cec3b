import { type ChildProcess, spawn } from 'node:child_process';
import { createHmac, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createWorkspace, FLOW_ID, GITHUB_SECRET, githubManifest, startService } from '../e2e/service.ts';
import { fillNonces } from './fill-nonces.ts';
import { type Figures, findLoader, type Load } from './load.ts';

/**
 * Loads the built service and a bare Fastify server in turn, in one run, and prints medians. Only the ratio to the bare
 * server of the same run means anything: absolute figures change from machine to machine.
 */
const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '3' },
    connections: { type: 'string', default: '50' },
    loader: { type: 'string' },
  },
});
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);
const connections = Number(values.connections);

interface Candidate {
  readonly name: string;
  readonly load: Omit<Load, 'seconds' | 'connections'>;
  /** What every answer must be; anything else voids the figure. */
  readonly expectedStatus: number;
  stop(): Promise<void>;
}

const body = JSON.stringify({ ref: 'refs/heads/main', padding: randomBytes(988).toString('hex') });
const signature = `sha256=${createHmac('sha256', GITHUB_SECRET).update(body).digest('hex')}`;
const headers = { 'content-type': 'application/json', 'x-github-event': 'push', 'x-hub-signature-256': signature };
const forged = { ...headers, 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` };

async function bareFastify(): Promise<Candidate> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'bare-fastify.mjs')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  return {
    name: 'bare Fastify, body read to a Buffer',
    load: { url: `${String(line).trim()}/hook`, headers, body },
    expectedStatus: 200,
    stop: () => end(child),
  };
}

async function sluice(
  name: string,
  options: { inputs: object; mode: string; headers?: object; expect?: number; nonces?: number },
): Promise<Candidate> {
  const workspace = await createWorkspace();
  await workspace.writeManifest(
    'push.json',
    githubManifest({ inputs: options.inputs, steps: { only: { type: 'NoOp' } } }),
  );
  const env = { SLUICE_ENFORCEMENT_MODE: options.mode, SLUICE_LOG_LEVEL: 'warn' };
  if (options.nonces !== undefined) {
    await (await startService(workspace, env)).stop('SIGTERM');
    const file = join(workspace.folder, 'data/sluice.db');
    fillNonces(file, { flowId: FLOW_ID, triggerKey: 'github' }, options.nonces);
  }
  const service = await startService(workspace, env);
  return {
    name,
    load: { url: `${service.url}/flows/api/webhook/push`, headers: { ...headers, ...options.headers }, body },
    expectedStatus: options.expect ?? 200,
    async stop() {
      await service.stop('SIGTERM');
      await workspace.remove();
    },
  };
}

async function end(child: ChildProcess): Promise<void> {
  child.kill('SIGTERM');
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}

const makers = [
  bareFastify,
  () =>
    sluice('Sluice, no gates, run durable', {
      inputs: { webhookSignatureScheme: undefined, webhookHmacKey: undefined, webhookNonceHeader: undefined },
      mode: 'Off',
    }),
  () => sluice('Sluice, GitHub signature + nonce + run, durable', { inputs: {}, mode: 'Enforce' }),
  () => sluice('Sluice, the same with a million live nonces', { inputs: {}, mode: 'Enforce', nonces: 1_000_000 }),
  () =>
    sluice('Sluice, refused for a bad signature (recorded)', {
      inputs: {},
      mode: 'Enforce',
      headers: forged,
      expect: 401,
    }),
];

const loader = findLoader(values.loader);
console.log(
  `${loader.name}, ${connections} connections, ${seconds} s a load, ${rounds} rounds, body ${body.length} bytes`,
);
const results = new Map<string, Figures[]>();
for (let round = 0; round < rounds; round += 1) {
  for (const make of makers) {
    const candidate = await make();
    await loader.run({ ...candidate.load, seconds: 1, connections });
    const figures = await loader.run({ ...candidate.load, seconds, connections });
    await candidate.stop();
    if (figures.failed > 0 || figures.status !== candidate.expectedStatus) {
      throw new Error(`${candidate.name}: ${figures.failed} failed, status ${figures.status}: the figure is void`);
    }
    results.set(candidate.name, [...(results.get(candidate.name) ?? []), figures]);
  }
}

const median = (numbers: number[]) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
const base = median([...results.values()][0]?.map((figures) => figures.requestsPerSecond) ?? []);
console.log(
  `${'candidate'.padEnd(52)} ${'req/s'.padStart(8)} ${'p50 ms'.padStart(8)} ${'p99 ms'.padStart(8)} ${'ratio'.padStart(6)}`,
);
for (const [name, figures] of results) {
  const rate = median(figures.map((one) => one.requestsPerSecond));
  const p50 = median(figures.map((one) => one.p50Ms));
  const p99 = median(figures.map((one) => one.p99Ms));
  console.log(
    `${name.padEnd(52)} ${rate.toFixed(0).padStart(8)} ${p50.toFixed(1).padStart(8)} ${p99.toFixed(1).padStart(8)} ${(rate / base).toFixed(2).padStart(6)}`,
  );
}
