import { once } from 'node:events';
import { cp, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';
import { ROOT } from '../docs/pages.ts';
import { type Service, startService, type Workspace } from '../e2e/service.ts';
import { temporaryFolder } from '../temporary.ts';

export const EXAMPLES = [
  'stripe-fulfilment',
  'github-ci',
  'slack-command',
  'shopify-erp',
  'fan-out',
  'approvals',
] as const;
export type Example = (typeof EXAMPLES)[number];

/** Below the system's ephemeral ports, a range for each process: no other test takes a port before we listen on it. */
let nextPort = 12_000 + (process.pid % 1000) * 20;

async function freePort(): Promise<number> {
  for (;;) {
    const port = nextPort;
    nextPort += 1;
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}

interface Copy extends Workspace {
  /** The folder with all examples. */
  readonly examples: string;
  readonly port: number;
}

/** Copies all examples into a folder of the test; returns the one to use. Ports in their files become free ones. */
export async function copyExample(name: Example): Promise<Copy> {
  const root = temporaryFolder('example');
  const examples = join(root, 'examples');
  const folder = join(examples, name);
  await cp(join(ROOT, 'examples'), examples, { recursive: true, filter: (path) => !/[\\/]data$/.test(path) });
  await symlink(join(ROOT, 'dist'), join(root, 'dist'));
  const [port, own] = [await freePort(), await freePort()];
  for (const file of await readdir(folder, { withFileTypes: true })) {
    if (!file.isFile()) continue;
    const path = join(folder, file.name);
    const text = await readFile(path, 'utf8');
    await writeFile(path, text.replace(/(127\.0\.0\.1(?::|%3A))40\d0/g, `$1${own}`));
  }
  await writeFile(join(folder, '.env'), `${await readFile(join(folder, '.env'), 'utf8')}SLUICE_PORT=${port}\n`);
  const refuse = () => Promise.reject(new Error('the manifests of an example stay as they are'));
  return { folder, examples, port, writeManifest: refuse, remove: async () => {} };
}

/** The value of a variable in an example's `.env`. */
export async function variableOf({ folder }: Workspace, name: string): Promise<string> {
  const text = await readFile(join(folder, '.env'), 'utf8');
  const found = new RegExp(`^${name}=(.*)$`, 'm').exec(text)?.[1];
  if (found === undefined) throw new Error(`the example sets no ${name}`);
  return found;
}

/** Starts the service with an example's manifests, settings and code; it stops with the test. */
export async function serveExample(example: Copy): Promise<Service> {
  const service = await startService(example, { SLUICE_PORT: String(example.port) });
  onTestFinished(async () => {
    if (service.child.exitCode === null && service.child.signalCode === null) await service.stop('SIGTERM');
  });
  return service;
}

export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface FakeService {
  readonly asked: readonly Asked[];
  /** The highest number of simultaneous requests. */
  mostAtOnce(): number;
  /** Cuts all connections and stops listening. */
  goAway(): Promise<void>;
}

type Answer = { readonly status?: number; readonly body?: unknown };

/** Listens at the URL in place of the service that an example calls, and records requests, until the test ends. */
export async function fakeService(
  url: string,
  answer: (asked: Asked) => Answer | Promise<Answer>,
): Promise<FakeService> {
  const asked: Asked[] = [];
  let [inFlight, most] = [0, 0];
  const server = createServer(async (request, response) => {
    inFlight += 1;
    most = Math.max(most, inFlight);
    const body = (await buffer(request)).toString();
    const one = { method: request.method ?? '', path: request.url ?? '', headers: request.headers, body };
    asked.push(one);
    const { status = 200, body: told = {} } = await answer(one);
    inFlight -= 1;
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(told));
  }).listen(Number(new URL(url).port), '127.0.0.1');
  await once(server, 'listening');
  const goAway = async () => {
    if (!server.listening) return;
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  };
  onTestFinished(goAway);
  return { asked, mostAtOnce: () => most, goAway };
}
