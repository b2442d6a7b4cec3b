// Lists the modules that a plain delivery runs through, from its request to the end of its run of two steps, on every
// thread of the service. Prints their paths under src/ as JSON. A function counts if 400 more deliveries call it at
// least 400 times more, which excludes the start, timers, and statements that are prepared once.
import { spawn } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { SourceMap } from 'node:module';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath, pathToFileURL } from 'node:url';

const ROOT = join(import.meta.dirname, '../..');
const DIST = pathToFileURL(join(ROOT, 'dist/')).href;
const KEY = 'the key of the spine';
const BODY = '{"ref":"refs/heads/main"}';
const FEW = 10;
const MORE = 400;
const MANIFEST = {
  id: '5b0e7d1c-93f2-4a86-8c1d-2f6e4b7a9036',
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
      },
    },
  },
  steps: { first: { type: 'NoOp' }, second: { type: 'NoOp', runAfter: { first: ['Succeeded'] } } },
};

const few = await callsOf(FEW);
const many = await callsOf(FEW + MORE);
const walked = new Map();
for (const [place, count] of many) if (count - (few.get(place) ?? 0) >= MORE) walked.set(place, count);
const modules = await modulesOf([...walked.keys()]);
process.stdout.write(`${JSON.stringify(modules, null, 2)}\n`);

/** Calls of each function in the life of a service that receives this many deliveries, by script and offset. */
async function callsOf(deliveries) {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-spine-'));
  await mkdir(join(folder, 'manifests'));
  await writeFile(join(folder, 'manifests/push.json'), JSON.stringify(MANIFEST));
  const coverage = join(folder, 'coverage');
  const service = spawn(process.execPath, [join(ROOT, 'dist/main.js')], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? '', SLUICE_PORT: '0', NODE_V8_COVERAGE: coverage },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(service, 'exit');
  try {
    const url = await addressOf(service);
    for (let index = 0; index < deliveries; index += 1) await deliver(url, `delivery-${index}`);
    await ended(url);
  } finally {
    service.kill('SIGTERM');
    await exited;
  }
  const counts = new Map();
  for (const file of await readdir(coverage)) {
    const { result } = JSON.parse(await readFile(join(coverage, file), 'utf8'));
    for (const { url, functions } of result.filter(({ url }) => url.startsWith(DIST)))
      for (const { ranges } of functions) {
        const place = `${url} ${ranges[0].startOffset}`;
        counts.set(place, (counts.get(place) ?? 0) + ranges[0].count);
      }
  }
  await rm(folder, { recursive: true });
  return counts;
}

async function addressOf(service) {
  for await (const line of createInterface({ input: service.stdout })) {
    const found = /^Sluice listens on (http:\S+)$/.exec(line);
    if (found !== null) return found[1];
  }
  throw new Error('the service ended before it listened');
}

async function deliver(url, id) {
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
}

/** Waits until no run is in flight. */
async function ended(url) {
  for (let tries = 0; tries < 200; tries += 1) {
    const response = await fetch(`${url}/flows/api/runs/active`);
    if ((await response.json()).length === 0) return;
    await new Promise((again) => setTimeout(again, 50));
  }
  throw new Error('runs are still in flight after 10 s');
}

/** The sources in which these functions begin. */
async function modulesOf(places) {
  const sources = new Set();
  for (const [url, offsets] of Map.groupBy(
    places.map((place) => place.split(' ')),
    ([url]) => url,
  )) {
    const file = fileURLToPath(url);
    const text = await readFile(file, 'utf8');
    const map = new SourceMap(JSON.parse(await readFile(`${file}.map`, 'utf8')));
    for (const [, offset] of offsets) {
      const before = text.slice(0, Number(offset));
      const line = before.split('\n').length - 1;
      const { originalSource } = map.findEntry(line, before.length - (before.lastIndexOf('\n') + 1));
      if (originalSource === undefined) continue;
      const source = relative(ROOT, fileURLToPath(new URL(originalSource, url)));
      if (source.startsWith('src/')) sources.add(source);
    }
  }
  return [...sources].sort();
}
