import { type ChildProcess, spawn } from 'node:child_process';
import { createHmac, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { databaseEnvironment, dropDatabases } from '../database.ts';
import { endLater } from '../ending.ts';
import { eventually, type Patience } from '../eventually.ts';
import { temporaryFolder } from '../temporary.ts';
import { endsWithFile } from './children.ts';

export { eventually };

export const GITHUB_SECRET = "It's a Secret to Everybody";
export const FLOW_ID = '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10';

const MANY_RUNS: Patience = {
  seconds: 60,
  because: 'hundreds of runs may be in flight, some of which a kill interrupted',
};

/** A manifest with one GitHub trigger, a literal key and the given steps. */
export function githubManifest(overrides: { inputs?: object; steps?: object; flow?: object } = {}): object {
  return {
    ...overrides.flow,
    id: FLOW_ID,
    name: 'push',
    version: '1',
    triggers: {
      github: {
        type: 'webhook',
        inputs: {
          webhookSlug: 'push',
          webhookSignatureScheme: 'GitHub',
          webhookHmacKey: GITHUB_SECRET,
          webhookNonceHeader: 'X-GitHub-Delivery',
          ...overrides.inputs,
        },
      },
    },
    steps: overrides.steps ?? {
      first: { type: 'NoOp' },
      second: { type: 'LogMessage', inputs: { message: 'seen' }, runAfter: { first: ['Succeeded'] } },
    },
  };
}

interface Push {
  readonly key?: string;
  /** The id that GitHub gives a delivery. */
  readonly id?: string;
}

/** The headers of a delivery that GitHub signed. */
export function pushHeaders(body: string, { key = GITHUB_SECRET, id = randomUUID() }: Push = {}) {
  const signature = `sha256=${createHmac('sha256', key).update(body).digest('hex')}`;
  return { 'content-type': 'application/json', 'x-hub-signature-256': signature, 'x-github-delivery': id };
}

/** Sends a delivery to the trigger of `githubManifest`. */
export function sendPush({ url }: Pick<Service, 'url'>, body: string, push: Push = {}): Promise<Response> {
  return fetch(`${url}/flows/api/webhook/push`, { method: 'POST', headers: pushHeaders(body, push), body });
}

/** A folder for one service, with manifests and database; removed after the test or file that made it. */
export interface Workspace {
  readonly folder: string;
  writeManifest(name: string, manifest: object): Promise<void>;
  remove(): Promise<void>;
}

export async function createWorkspace(): Promise<Workspace> {
  const folder = temporaryFolder('service');
  await mkdir(join(folder, 'manifests'));
  const workspace: Workspace = {
    folder,
    writeManifest: (name, manifest) => writeFile(join(folder, 'manifests', name), JSON.stringify(manifest, null, 2)),
    async remove() {
      await dropDatabases(folder);
      await rm(folder, { recursive: true, force: true });
    },
  };
  endLater(workspace.remove);
  return workspace;
}

/** The built service as a child process. */
export interface Service {
  readonly url: string;
  readonly child: ChildProcess;
  /** All output so far, of both streams. */
  output(): string;
  /** Sends the signal; resolves with exit code and signal when the process is gone. */
  stop(signal: NodeJS.Signals): Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

const CHECKOUT = resolve(import.meta.dirname, '../..');

/** Starts the service built in a folder, by default this checkout's. */
export async function startService(
  workspace: Pick<Workspace, 'folder'>,
  env: Record<string, string> = {},
  build = CHECKOUT,
): Promise<Service> {
  const database = await databaseEnvironment(workspace.folder, env.SLUICE_DATABASE_URL);
  const child = endsWithFile(
    spawn(process.execPath, [join(build, 'dist/main.js')], {
      cwd: workspace.folder,
      env: { PATH: process.env.PATH ?? '', SLUICE_PORT: '0', ...env, ...database },
      stdio: ['ignore', 'pipe', 'pipe'],
    }),
  );
  const lines: string[] = [];
  // Not `exit`: the last output may arrive after it.
  const exited = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
  const url = await new Promise<string>((found, failed) => {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        lines.push(line);
        const match = /^Sluice listens on (http:\S+)$/.exec(line);
        if (match?.[1] !== undefined) found(match[1]);
      });
    }
    void exited.then(([code]) => failed(new Error(`the service ended with ${code}:\n${lines.join('\n')}`)));
  });
  return {
    url,
    child,
    output: () => lines.join('\n'),
    async stop(signal) {
      child.kill(signal);
      const [code, by] = await exited;
      return { code, signal: by };
    },
  };
}

/** Waits until the service wrote a text: output and answers travel separately, so it may come after the answer. */
export async function written({ output }: Pick<Service, 'output'>, text: string): Promise<void> {
  await eventually(output, (all) => all.includes(text));
}

/** Waits until no run is in flight; from then on counts are stable. */
export async function noneInFlight({ url }: Pick<Service, 'url'>, patience: Patience = MANY_RUNS): Promise<void> {
  await eventually(
    () => getJson<{ id: string; status: string }[]>(`${url}/flows/api/runs/active`),
    (active) => active.length === 0,
    patience,
  );
}

export async function getJson<T>(url: string): Promise<T> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}
