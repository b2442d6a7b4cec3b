import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import pino from 'pino';
import { buildApp } from '../../src/app.ts';

/**
 * Deploys a folder of many flows in several ways. Prints the duration of each, and the longest time that the event loop
 * was blocked, which is how long a delivery may have to wait. Figures of two machines cannot be compared.
 */
const { values } = parseArgs({ options: { flows: { type: 'string', default: '1000' } } });
const count = Number(values.flows);
const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
const manifests = join(folder, 'manifests');
await mkdir(manifests);

const idOf = (at: number) => `0b7c9d10-0000-4000-8000-${String(at).padStart(12, '0')}`;
const after = (key: string) => ({ [key]: ['Succeeded'] });
const manifestOf = (at: number, version: string) => ({
  id: idOf(at),
  name: `flow ${at}`,
  version,
  triggers: {
    hook: {
      type: 'webhook',
      inputs: {
        webhookSlug: `flow-${at}`,
        webhookSignatureScheme: 'Generic',
        webhookHmacKey: 'a key of the benchmark that nobody knows',
        webhookTimestampHeader: 'X-Timestamp',
        webhookReplayToleranceSeconds: 300,
        webhookBodySchema: { type: 'object', properties: { id: { type: 'string' }, total: { type: 'number' } } },
      },
    },
  },
  steps: {
    log: { type: 'LogMessage', inputs: { message: `version ${version} of @{trigger.body.id}` } },
    check: { type: 'NoOp', runAfter: after('log') },
    large: { type: 'NoOp', runAfter: { check: { statuses: ['Succeeded'], when: 'trigger.body.total > 100' } } },
    call: { type: 'HttpRequest', inputs: { url: 'http://localhost:1/' }, runAfter: after('check') },
    // All run the last flow.
    ...(at === count - 1
      ? {}
      : { sub: { type: 'RunFlow', inputs: { flow: idOf(count - 1) }, runAfter: after('call') } }),
  },
});
const write = (at: number, version: string) =>
  writeFile(join(manifests, `flow-${at}.json`), JSON.stringify(manifestOf(at, version)));

const delay = monitorEventLoopDelay({ resolution: 1 });
async function measure<Value>(what: string, work: () => Promise<Value>): Promise<Value> {
  delay.reset();
  delay.enable();
  const began = performance.now();
  const value = await work();
  const seconds = (performance.now() - began) / 1000;
  // A timer due after the last block records it.
  await new Promise((resolve) => setTimeout(resolve, 5));
  delay.disable();
  console.log(`${what}: ${seconds.toFixed(2)} s, longest block ${(delay.max / 1e6).toFixed(0)} ms`);
  return value;
}

for (let at = 0; at < count; at += 1) await write(at, '1');
const options = {
  folder,
  logger: pino({ level: 'error' }),
  environment: {},
  settings: { port: 0, manifests: 'manifests', databaseUrl: 'sqlite:bench.db', maxBodyBytes: 50_000_000 },
};
console.log(`${count} flows`);
const first = await measure('first start', () => buildApp(options));
await first.close();
const app = await measure('start with what is deployed', () => buildApp(options));
await app.listen();
await measure('reload, nothing changed', () => app.reload());
await write(0, '2');
await measure('reload, one flow changed', () => app.reload());
for (let at = 0; at < count; at += 1) await write(at, '3');
await measure('reload, all changed', () => app.reload());
const put = (url: string, payload: string) =>
  app.fastify.inject({ method: 'PUT', url: `/flows/api/flows${url}?allow=access,rollback`, payload });
const one = await measure('PUT of one flow', () => put(`/${idOf(0)}`, JSON.stringify(manifestOf(0, '4'))));
const all = Array.from({ length: count }, (_, at) => manifestOf(at, '5'));
const many = await measure('PUT of all flows', () => put('', JSON.stringify(all)));
for (const { statusCode, body } of [one, many]) if (statusCode !== 200) console.log(statusCode, body.slice(0, 500));
await app.close();
await rm(folder, { recursive: true, force: true });
