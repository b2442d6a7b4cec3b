import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { createWorkspace, FLOW_ID, githubManifest, startService, type Workspace } from '../e2e/service.ts';
import { type Delivery, deliveryOf } from './bodies.ts';
import { fillNonces } from './fill-nonces.ts';
import type { FlushDelay } from './flush-delay.ts';
import type { Load } from './load.ts';

/** A server under load, in a separate process. */
export interface Candidate {
  readonly pid: number;
  /** Start of its process, by `performance.now()`. */
  readonly startedAt: number;
  readonly load: Pick<Load, 'url' | 'headers' | 'body'>;
  /** The status of every answer; any other voids the figure. */
  readonly expectedStatus: number;
  /** Other processes that work for it, such as its database server; each counts with its children. */
  readonly helpers?: readonly number[];
  /** Awaited after the warm-up; resolves shortly before the work to measure begins. */
  ready?(): Promise<void>;
  /** The progress of the accepted deliveries' runs; absent if it runs nothing. */
  runs?(): Promise<Runs>;
  stop(): Promise<void>;
}

export interface Runs {
  /** Runs that have succeeded since the service started. */
  readonly executed: number;
  /** Milliseconds since the oldest due step became due; 0 if none is due or this is not known. */
  readonly oldestDueMs: number;
  /** Time from a run's start to its first step's start, of the newest runs; null if not known. */
  readonly firstStepP99Ms?: number | null;
}

export interface CandidateOptions {
  /** Folder for CPU profiles of all threads. */
  readonly profileFolder?: string | undefined;
  /** Options of Node for the service, such as `--max-semi-space-size=4`. */
  readonly nodeOptions?: string | undefined;
  readonly flushDelay?: FlushDelay | undefined;
  /** A workspace that an earlier service left; by default a new one, which is removed at the end. */
  readonly workspace?: Workspace;
  readonly env?: Readonly<Record<string, string>>;
  /** The checkout whose build is started; by default this one. */
  readonly build?: string;
}

/** The delivery of rows that name no other. */
export const delivery = deliveryOf(2);
const forged = { 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` };
const OPEN = { webhookSignatureScheme: undefined, webhookHmacKey: undefined, webhookNonceHeader: undefined };

/** Fastify with a route that only reads the body to a Buffer: the base of every ratio. */
export async function bareFastify(): Promise<Candidate> {
  const server = await startScript(join(import.meta.dirname, 'bare-fastify.mjs'));
  return candidateOf(server, `${server.url}/hook`);
}

interface Server {
  readonly child: ChildProcess;
  readonly startedAt: number;
}

/** Runs a Node script that prints its address as its first line. */
export async function startScript(
  path: string,
  { cwd, env = {} }: { cwd?: string; env?: Readonly<Record<string, string>> } = {},
): Promise<Server & { url: string }> {
  const startedAt = performance.now();
  const child = spawn(process.execPath, [path], {
    cwd,
    env: { PATH: process.env.PATH, NODE_ENV: 'production', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`${path} ended with ${code}`);
  });
  // The process may end after it printed its address.
  ended.catch(() => {});
  const [line] = (await Promise.race([once(child.stdout, 'data'), ended])) as [Buffer];
  return { child, startedAt, url: String(line).trim() };
}

/** A server that answers signed deliveries with 200. */
export function candidateOf({ child, startedAt }: Server, url: string): Candidate {
  return {
    pid: child.pid ?? 0,
    startedAt,
    load: { url, headers: delivery.headers, body: delivery.body },
    expectedStatus: 200,
    stop: () => endProcess(child),
  };
}

export async function endProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  await once(child, 'exit');
}

/** Waits for the first answer. Not with `fetch`, whose first use takes milliseconds itself. */
export async function deliverFirst({ load, expectedStatus }: Candidate): Promise<void> {
  const sent = request(load.url, { method: 'POST', headers: { ...load.headers, 'x-github-delivery': randomUUID() } });
  sent.end(load.body);
  const [answer] = await once(sent, 'response');
  answer.resume();
  await once(answer, 'end');
  if (answer.statusCode !== expectedStatus) throw new Error(`the first delivery was answered ${answer.statusCode}`);
}

/** Successful runs according to the service's metrics. */
export async function executedRuns(url: string): Promise<number> {
  const metrics = await (await fetch(`${url}/metrics`)).text();
  const executed = [...metrics.matchAll(/^sluice_runs_completed_total\{.*status="Succeeded".*\} (\d+)$/gm)];
  return executed.reduce((sum, [, count]) => sum + Number(count), 0);
}

/** The path of the trigger of `writeFlow`. */
export const ROUTE = '/flows/api/webhook/push';

interface Variant {
  readonly inputs?: object;
  /** Further fields of the flow. */
  readonly flow?: object;
  readonly mode?: string;
  readonly delivery?: Delivery;
  readonly expectedStatus?: number;
  /** Live nonces in the database before the load. */
  readonly nonces?: number;
}

const VARIANTS = {
  open: { inputs: OPEN, mode: 'Off' },
  accepted: {},
  accepted7: { delivery: deliveryOf(7) },
  accepted21: { delivery: deliveryOf(21) },
  forged: { delivery: { ...delivery, headers: { ...delivery.headers, ...forged } }, expectedStatus: 401 },
  millionNonces: { nonces: 1_000_000 },
  identified: { inputs: { webhookEventId: "headers['x-github-delivery']" } },
  filtered: { inputs: { webhookWhen: "body.action == 'changed' && !body.sender.login.startsWith('bot')" } },
  // A different key for each delivery: no run waits, so only the cost of the order itself remains.
  serialized: { flow: { serialize: "trigger.headers['x-github-delivery']" } },
} as const satisfies Record<string, Variant>;

/** The built service; deliveries are signed and have nonces unless the variant says otherwise. */
export async function sluice(variant: keyof typeof VARIANTS, options: CandidateOptions = {}): Promise<Candidate> {
  const { inputs = {}, flow = {}, mode = 'Enforce', expectedStatus = 200, nonces, ...own }: Variant = VARIANTS[variant];
  const { headers, body } = own.delivery ?? delivery;
  const workspace = options.workspace ?? (await createWorkspace());
  await writeFlow(workspace, inputs, flow);
  const env = { SLUICE_ENFORCEMENT_MODE: mode, SLUICE_LOG_LEVEL: 'warn', ...options.env };
  const file = join(workspace.folder, 'data/sluice.db');
  if (nonces !== undefined) {
    await (await startService(workspace, env)).stop('SIGTERM');
    fillNonces(file, { flowId: FLOW_ID, triggerKey: 'github' }, nonces);
  }
  const { flushDelay } = options;
  const startedAt = performance.now();
  const variables = { ...env, NODE_OPTIONS: nodeOptions(variant, options), ...flushDelay?.env };
  const service = await startService(workspace, variables, options.build);
  const pid = service.child.pid ?? 0;
  flushDelay?.check(pid);
  const database = new Database(file, { readonly: true });
  const oldestDue = database
    .prepare<[number], number | null>('SELECT min(due_at) FROM steps WHERE due_at <= ?')
    .pluck();
  return {
    pid,
    startedAt,
    load: { url: `${service.url}${ROUTE}`, headers, body },
    expectedStatus,
    async runs() {
      const now = Date.now();
      return { executed: await executedRuns(service.url), oldestDueMs: now - (oldestDue.get(now) ?? now) };
    },
    async stop() {
      database.close();
      await service.stop('SIGTERM');
      await workspace.remove();
    },
  };
}

/** The service on a store that answers acceptances and outcomes at once: only the event loop's work remains. */
export async function onInstantStore(options: CandidateOptions = {}): Promise<Candidate> {
  const workspace = await createWorkspace();
  await writeFlow(workspace);
  const server = await startScript(join(import.meta.dirname, 'instant-store.mjs'), {
    cwd: workspace.folder,
    env: {
      NODE_OPTIONS: nodeOptions('instant', options),
      SLUICE_ENFORCEMENT_MODE: 'Enforce',
      SLUICE_LOG_LEVEL: 'warn',
    },
  });
  const candidate = candidateOf(server, `${server.url}${ROUTE}`);
  return {
    ...candidate,
    runs: async () => ({ executed: await executedRuns(server.url), oldestDueMs: 0 }),
    async stop() {
      await candidate.stop();
      await workspace.remove();
    },
  };
}

/** A flow with one step that does nothing, and a trigger for signed deliveries. */
export function writeFlow(workspace: Workspace, inputs: object = {}, flow: object = {}): Promise<void> {
  const manifest = githubManifest({ inputs, steps: { only: { type: 'NoOp' } } });
  return workspace.writeManifest('push.json', { ...manifest, ...flow });
}

/** The given options of Node, and options to write CPU profiles into a folder for the variant. */
export function nodeOptions(variant: string, { profileFolder, nodeOptions: given = '' }: CandidateOptions): string {
  if (profileFolder === undefined) return given;
  const folder = join(profileFolder, variant);
  mkdirSync(folder, { recursive: true });
  // Each thread writes a file when it ends.
  return `${given} --cpu-prof --cpu-prof-dir=${folder}`;
}
