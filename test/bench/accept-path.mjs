// Lists the modules of the built service that the main thread calls from the request of one signed delivery to its
// answer. Prints their paths under dist/ as JSON. Plain JavaScript on the built code: a loader would be listed too.
import { createHmac } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { Session } from 'node:inspector/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { pino } from 'pino';
import { buildApp } from '../../dist/app.js';

const KEY = 'the key of the accept path';
const BODY = '{"ref":"refs/heads/main"}';
const DIST = pathToFileURL(join(import.meta.dirname, '../../dist/')).href;
const MANIFEST = {
  id: '5b0e7d1c-93f2-4a86-8c1d-2f6e4b7a9035',
  name: 'push',
  version: '1',
  triggers: {
    github: {
      type: 'webhook',
      inputs: {
        webhookSlug: 'push',
        webhookEnforcementMode: 'Enforce',
        webhookSignatureScheme: 'GitHub',
        webhookHmacKey: KEY,
        webhookNonceHeader: 'X-GitHub-Delivery',
        webhookIpAllowList: ['127.0.0.1'],
        webhookRateLimitPermitsPerSecond: 100,
      },
    },
  },
  steps: { only: { type: 'NoOp' } },
};

const folder = await mkdtemp(join(tmpdir(), 'sluice-accept-path-'));
await mkdir(join(folder, 'manifests'));
await writeFile(join(folder, 'manifests/push.json'), JSON.stringify(MANIFEST));
const app = await buildApp({ folder, settings: { port: 0 }, logger: pino({ level: 'silent' }) });
const session = new Session();
session.connect();
let called;
// Read when the answer is ready.
app.fastify.addHook('onSend', async (request) => {
  if (request.method === 'POST') called = calledModules();
});
// Only the server: without a dispatcher, only the way to the answer is listed.
const url = await app.fastify.listen({ host: '127.0.0.1', port: 0 });
await session.post('Profiler.enable');
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
// The first delivery opens the connection. A timer may fire during one of the others, but not during all.
await deliver('warm-up');
const lists = [];
for (let index = 0; index < 5; index += 1) lists.push(await deliver(`delivery-${index}`));
const [first, ...others] = lists;
const modules = first.filter((name) => others.every((list) => list.includes(name))).sort();
process.stdout.write(`${JSON.stringify(modules, null, 2)}\n`);
session.disconnect();
await app.close();
await rm(folder, { recursive: true });

/** Returns the modules that one delivery called. */
async function deliver(id) {
  await session.post('Profiler.takePreciseCoverage');
  const response = await fetch(`${url}/flows/api/webhook/push`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-github-delivery': id,
      'x-hub-signature-256': `sha256=${createHmac('sha256', KEY).update(BODY).digest('hex')}`,
    },
    body: BODY,
  });
  if (response.status !== 200) throw new Error(`answered ${response.status}: ${await response.text()}`);
  await response.text();
  return called;
}

async function calledModules() {
  const { result } = await session.post('Profiler.takePreciseCoverage');
  return result
    .filter(({ url: script, functions }) => script.startsWith(DIST) && functions.some(wasCalled))
    .map(({ url: script }) => script.slice(DIST.length));
}

function wasCalled({ ranges }) {
  return ranges.some(({ count }) => count > 0);
}
