import { createHmac, randomUUID } from 'node:crypto';
import { Agent, request } from 'node:http';
import { parseArgs } from 'node:util';
import { createWorkspace, eventually, GITHUB_SECRET, getJson, type Service, startService } from '../e2e/service.ts';
import { startPostgres } from '../postgres/server.ts';

/**
 * Compares deliveries that share runs with the same deliveries with a run each. Prints answers per second, time per
 * answer, the service's CPU, and when the last run ended.
 */
const { values } = parseArgs({
  options: {
    deliveries: { type: 'string', default: '10000' },
    runs: { type: 'string', default: '100' },
    connections: { type: 'string', default: '50' },
    /** Bytes of a body. */
    body: { type: 'string', default: '1024' },
    /** Use a separate PostgreSQL with normal flushing; by default SQLite. */
    postgres: { type: 'boolean', default: false },
  },
});
const [deliveries, runs, connections] = [values.deliveries, values.runs, values.connections].map(Number) as [
  number,
  number,
  number,
];
const collect = Math.ceil(deliveries / runs);

function manifestOf(coalesce: object | undefined): object {
  const inputs = {
    webhookSlug: 'stock',
    webhookSignatureScheme: 'GitHub',
    webhookHmacKey: GITHUB_SECRET,
    webhookNonceHeader: 'X-GitHub-Delivery',
  };
  return {
    id: randomUUID(),
    name: 'stock',
    version: '1',
    triggers: { hook: { type: 'webhook', inputs, ...(coalesce && { coalesce }) } },
    steps: { count: { type: 'Transform', inputs: { value: `\${size(trigger.deliveries)}` } } },
  };
}

const server = values.postgres ? await startPostgres(['-c', 'fsync=on']) : undefined;
const agent = new Agent({ keepAlive: true, maxSockets: connections });

/** Resolves with the milliseconds until the answer. */
function send(service: Service, n: number): Promise<number> {
  const start = `{"key":${n % runs},"n":${n},"padding":"`;
  const body = `${start}${'x'.repeat(Math.max(0, Number(values.body) - start.length - 2))}"}`;
  const signature = createHmac('sha256', GITHUB_SECRET).update(body).digest('hex');
  const headers = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    'x-hub-signature-256': `sha256=${signature}`,
    'x-github-delivery': randomUUID(),
  };
  const from = performance.now();
  return new Promise((resolve, reject) => {
    const outgoing = request(`${service.url}/flows/api/webhook/stock`, { method: 'POST', headers, agent }, (answer) => {
      answer.resume().on('end', () => {
        if (answer.statusCode === 200) resolve(performance.now() - from);
        else reject(new Error(`the answer was ${answer.statusCode}`));
      });
    });
    outgoing.on('error', reject).end(body);
  });
}

async function cpuSeconds({ url }: Service): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^process_cpu_seconds_total (\S+)$/m.exec(text)?.[1]);
}

async function measure(name: string, coalesce: object | undefined): Promise<void> {
  const workspace = await createWorkspace();
  await workspace.writeManifest('stock.json', manifestOf(coalesce));
  const database: Record<string, string> = {};
  if (server !== undefined) {
    Object.assign(database, { SLUICE_DATABASE_URL: server.url, SLUICE_DATABASE_SCHEMA: `bench_${Date.now()}` });
  }
  const env = { SLUICE_ENFORCEMENT_MODE: 'Enforce', SLUICE_LOG_LEVEL: 'warn', ...database };
  const service = await startService(workspace, env);
  try {
    const [from, cpu] = [performance.now(), await cpuSeconds(service)];
    const took: number[] = [];
    let next = 0;
    await Promise.all(
      Array.from({ length: connections }, async () => {
        for (let n = next++; n < deliveries; n = next++) took.push(await send(service, n));
      }),
    );
    const answered = (performance.now() - from) / 1000;
    await eventually(
      () => getJson<unknown[]>(`${service.url}/flows/api/runs?status=Running&take=1`),
      (active) => active.length === 0,
      { seconds: 600, because: 'all deliveries have their runs by then, on any machine' },
    );
    const ended = (performance.now() - from) / 1000;
    const used = (await cpuSeconds(service)) - cpu;
    const books = await getJson<Record<string, number>>(`${service.url}/flows/api/books`);
    took.sort((a, b) => a - b);
    const at = (share: number) => took[Math.floor(took.length * share)]?.toFixed(1);
    console.log(
      `${name}: ${Math.round(deliveries / answered)} a second, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, ${((used / deliveries) * 1e6).toFixed(0)} µs CPU each, all ended after ${ended.toFixed(1)} s; ${books.accepted} accepted = ${books.runs} runs + ${books.coalesced} coalesced, ${books.unaccounted} unaccounted`,
    );
  } finally {
    await service.stop('SIGTERM');
    await workspace.remove();
  }
}

console.log(`${deliveries} deliveries over ${connections} connections, ${values.body} bytes each`);
await measure('a run each', undefined);
await measure(`${runs} runs`, { key: 'body.key', quietSeconds: 5, maxSeconds: 60, collect });
agent.destroy();
await server?.stop();
