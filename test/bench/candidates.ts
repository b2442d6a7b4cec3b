import { type ChildProcess, spawn } from 'node:child_process';
import { createHmac, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import {
  createWorkspace,
  FLOW_ID,
  GITHUB_SECRET,
  githubManifest,
  startService,
  type Workspace,
} from '../e2e/service.ts';
import { fillNonces } from './fill-nonces.ts';
import type { FlushDelay } from './flush-delay.ts';
import type { Load } from './load.ts';

/** Something that is loaded: a server in a process of its own. */
export interface Candidate {
  readonly pid: number;
  readonly load: Omit<Load, 'seconds' | 'connections'>;
  /** What every answer must be; anything else voids the figure. */
  readonly expectedStatus: number;
  /** What became of the accepted deliveries; absent where nothing is run. */
  runs?(): Promise<Runs>;
  /** CPU seconds of other processes that work for it, such as its database server. */
  otherCpu?(): number;
  stop(): Promise<void>;
}

export interface Runs {
  /** Runs that have succeeded since the service started. */
  readonly executed: number;
  /** Milliseconds since the oldest due step became due; 0 where none is. */
  readonly oldestDueMs: number;
  /** From a run's start to that of its first step, of the newest runs; null where it is not known. */
  readonly firstStepP99Ms?: number | null;
}

export interface CandidateOptions {
  /** Where CPU profiles of all threads are written. */
  readonly profileFolder?: string | undefined;
  /** Options of Node for the service, such as `--max-semi-space-size=4`. */
  readonly nodeOptions?: string | undefined;
  readonly flushDelay?: FlushDelay | undefined;
  /** An earlier service's; else a new one, which is removed in the end. */
  readonly workspace?: Workspace;
  readonly env?: Readonly<Record<string, string>>;
}

const BODY = JSON.stringify({ ref: 'refs/heads/main', padding: randomBytes(988).toString('hex') });
export const BODY_BYTES = Buffer.byteLength(BODY);
const signature = `sha256=${createHmac('sha256', GITHUB_SECRET).update(BODY).digest('hex')}`;
const headers = { 'content-type': 'application/json', 'x-github-event': 'push', 'x-hub-signature-256': signature };
/** What is sent where a row says nothing else. */
export const signedDeliveries = { headers, body: BODY };
const forged = { 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` };
const OPEN = { webhookSignatureScheme: undefined, webhookHmacKey: undefined, webhookNonceHeader: undefined };

/** Fastify with a route that reads the body to a Buffer and does nothing else: what every ratio is of. */
export async function bareFastify(): Promise<Candidate> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'bare-fastify.mjs')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  return candidateOf(child, `${String(line).trim()}/hook`);
}

/** A server that answers signed deliveries with 200. */
export function candidateOf(child: ChildProcess, url: string): Candidate {
  return {
    pid: child.pid ?? 0,
    load: { url, headers, body: BODY },
    expectedStatus: 200,
    async stop() {
      child.kill('SIGTERM');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    },
  };
}

interface Variant {
  readonly inputs?: object;
  readonly mode?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly expectedStatus?: number;
  /** Live nonces in the database before the load. */
  readonly nonces?: number;
}

const VARIANTS = {
  open: { inputs: OPEN, mode: 'Off' },
  accepted: {},
  forged: { headers: forged, expectedStatus: 401 },
  millionNonces: { nonces: 1_000_000 },
} as const satisfies Record<string, Variant>;

/** The built service; signed deliveries with nonces unless the variant says otherwise. */
export async function sluice(variant: keyof typeof VARIANTS, options: CandidateOptions = {}): Promise<Candidate> {
  const { inputs = {}, mode = 'Enforce', headers: own = {}, expectedStatus = 200, nonces }: Variant = VARIANTS[variant];
  const workspace = options.workspace ?? (await createWorkspace());
  await writeFlow(workspace, inputs);
  const env = { SLUICE_ENFORCEMENT_MODE: mode, SLUICE_LOG_LEVEL: 'warn', ...options.env };
  const file = join(workspace.folder, 'data/sluice.db');
  if (nonces !== undefined) {
    await (await startService(workspace, env)).stop('SIGTERM');
    fillNonces(file, { flowId: FLOW_ID, triggerKey: 'github' }, nonces);
  }
  const { flushDelay } = options;
  const service = await startService(workspace, {
    ...env,
    NODE_OPTIONS: nodeOptions(variant, options),
    ...flushDelay?.env,
  });
  const pid = service.child.pid ?? 0;
  flushDelay?.check(pid);
  const database = new Database(file, { readonly: true });
  const oldestDue = database
    .prepare<[number], number | null>('SELECT min(due_at) FROM steps WHERE due_at <= ?')
    .pluck();
  return {
    pid,
    load: { url: `${service.url}/flows/api/webhook/push`, headers: { ...headers, ...own }, body: BODY },
    expectedStatus,
    async runs() {
      const now = Date.now();
      const metrics = await (await fetch(`${service.url}/metrics`)).text();
      const executed = [...metrics.matchAll(/^sluice_runs_completed_total\{.*status="Succeeded".*\} (\d+)$/gm)];
      return {
        executed: executed.reduce((sum, [, count]) => sum + Number(count), 0),
        oldestDueMs: now - (oldestDue.get(now) ?? now),
      };
    },
    async stop() {
      database.close();
      await service.stop('SIGTERM');
      await workspace.remove();
    },
  };
}

/** A flow of one step that does nothing, with a trigger for signed deliveries. */
export function writeFlow(workspace: Workspace, inputs: object = {}): Promise<void> {
  return workspace.writeManifest('push.json', githubManifest({ inputs, steps: { only: { type: 'NoOp' } } }));
}

/** Options of Node for a service: those that are given, and what writes its profiles into a folder of its own. */
export function nodeOptions(variant: string, { profileFolder, nodeOptions: given = '' }: CandidateOptions): string {
  if (profileFolder === undefined) return given;
  const folder = join(profileFolder, variant);
  mkdirSync(folder, { recursive: true });
  // Each thread writes a file of its own when it ends.
  return `${given} --cpu-prof --cpu-prof-dir=${folder}`;
}
