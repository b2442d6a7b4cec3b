import { randomUUID } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { Agent, type IncomingHttpHeaders, request as send } from 'node:http';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import pino from 'pino';
import { expect, vi } from 'vitest';
import type { Extensions } from '../../src/config/api.ts';
import type { SettingsInput } from '../../src/config/settings-schema.ts';
import type { WebhookInputs } from '../../src/manifest/webhook-inputs.ts';
import { enforcementSummary } from '../../src/webhooks/webhook-lines.ts';
import { buildApp } from '../database.ts';
import { endLater, openForFile } from '../ending.ts';
import { temporaryFolder } from '../temporary.ts';

/** A request exactly as sent: fetch would add its own headers and refuse others. */
export interface Sent {
  readonly method?: string;
  /** Follows the slug, such as `?challenge=abc`. */
  readonly query?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

export interface Answered {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** The fields of a delivery record that tests read, as the dashboard shows them. */
export interface Recorded {
  readonly id: string;
  readonly triggerKey: string | null;
  readonly reason: string | null;
  readonly violations: readonly string[];
  readonly detail: string | null;
  readonly scheme: string | null;
  readonly mode: string;
  readonly rejected: boolean;
  readonly runId: string | null;
  readonly usedPreviousKey: boolean;
  readonly bodyBytes: number;
  readonly headers: Readonly<Record<string, string>>;
}

/** A complete service in this process, on a real socket, with a clock that the test sets. It closes by itself. */
export interface Gateway {
  readonly url: string;
  /** The folder of its manifests and, if it has one, its database. */
  readonly folder: string;
  readonly warnings: readonly string[];
  /** Messages of the start about triggers that are not enforced. */
  readonly summary: readonly string[];
  /** Log lines so far, as written. */
  readonly logged: string[];
  /** Milliseconds since the Unix epoch. */
  setNow(ms: number): void;
  deliver(slug: string, sent: Sent): Promise<Answered>;
  /** Gets any path of the service. */
  get(path: string): Promise<string>;
  /** Deploys a flow over the API, whatever access it opens; returns the warnings, fails if the deploy is refused. */
  deploy(manifest: { readonly id: string }): Promise<string[]>;
  latestDelivery(): Promise<Recorded>;
  countRuns(): Promise<number>;
  close(): Promise<void>;
}

export interface GatewayOptions {
  /** Id of the flow; by default a new one. */
  readonly flowId?: string;
  /** An existing folder, which stays after `close`; by default a new one. */
  readonly folder?: string;
  /** Inputs of webhook triggers by key; the key is the slug too. */
  readonly triggers: Readonly<Record<string, WebhookInputs>>;
  /** Manifests of further flows, by file name. */
  readonly others?: Readonly<Record<string, object>>;
  /** Which deliveries share runs, for all triggers. */
  readonly coalesce?: object;
  /** By default a single step that does nothing. */
  readonly steps?: object;
  readonly settings?: SettingsInput;
  readonly extensions?: Extensions;
  /** Turns off the sweep every minute, because the test moves the clock by years. */
  readonly keepsAll?: boolean;
}

export const NOW = Date.UTC(2026, 10, 21, 12);

export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const { folder = temporaryFolder('publishers'), others = {}, settings, extensions } = options;
  await mkdir(join(folder, 'manifests'), { recursive: true });
  await writeFile(join(folder, 'manifests', 'publishers.json'), JSON.stringify(manifestOf(options)));
  for (const [name, manifest] of Object.entries(others)) {
    await writeFile(join(folder, 'manifests', `${name}.json`), JSON.stringify(manifest));
  }
  let now = NOW;
  // The intervals of the service never fire.
  if (options.keepsAll === true) vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const logged: string[] = [];
  const logger = pino({ level: 'trace' }, { write: (line) => logged.push(line) });
  const app = await buildApp({
    folder,
    // A second start may configure less than the first.
    allow: ['access'],
    clock: { now: () => now, monotonic: () => now },
    logger,
    settings: {
      port: 0,
      databaseUrl: 'sqlite::memory:',
      manifests: 'manifests',
      enforcementMode: 'Enforce',
      allowLegacySha1: true,
      ...settings,
    },
    ...(extensions === undefined ? {} : { extensions }),
  });
  const url = await app.listen();
  if (options.keepsAll === true) vi.useRealTimers();
  const agent = new Agent({ keepAlive: true });
  const close = () => {
    agent.destroy();
    return app.close();
  };
  endLater(close);
  const get = async (path: string) => (await exchange(`${url}${path}`, { agent, sent: { method: 'GET' } })).text;
  return {
    url,
    folder,
    warnings: app.warnings,
    summary: enforcementSummary(app.triggers().list()),
    logged,
    setNow: (ms) => {
      now = ms;
    },
    deliver: (slug, sent) => exchange(`${url}/flows/api/webhook/${slug}${sent.query ?? ''}`, { agent, sent }),
    get,
    async deploy(manifest) {
      const path = `/flows/api/flows/${manifest.id}?allow=access`;
      const answer = await app.fastify.inject({ method: 'PUT', url: path, payload: JSON.stringify(manifest) });
      if (answer.statusCode !== 200) throw new Error(answer.body);
      return answer.json().warnings;
    },
    async latestDelivery() {
      const [latest]: Recorded[] = JSON.parse(await get('/flows/api/webhooks/recent?take=1'));
      if (latest === undefined) throw new Error('there is no delivery');
      return latest;
    },
    async countRuns() {
      return JSON.parse(await get('/flows/api/runs?take=1&includeTotal=true')).total;
    },
    close,
  };
}

/** A test's flow with one webhook trigger, on a service that tests share. */
export interface Hook extends Pick<Gateway, 'get' | 'latestDelivery' | 'countRuns' | 'logged' | 'setNow'> {
  readonly flowId: string;
  /** The path of its URL. */
  readonly path: string;
  readonly warnings: readonly string[];
  send(sent: Sent): Promise<Answered>;
}

/**
 * Services for all tests of a file, one for each kind of settings: a start takes longer than most tests. Each test
 * opens its own flows there, and gets data of these alone.
 */
export function sharedGateways(): (inputs: WebhookInputs, settings?: SettingsInput) => Promise<Hook> {
  const started = new Map<string, Promise<Gateway>>();
  return async (inputs, settings = {}) => {
    const kind = JSON.stringify(settings);
    const starting = started.get(kind) ?? openForFile(() => startGateway({ triggers: {}, settings, keepsAll: true }));
    started.set(kind, starting);
    return openHook(await starting, inputs);
  };
}

async function openHook(gateway: Gateway, inputs: WebhookInputs): Promise<Hook> {
  const { get, setNow, deliver } = gateway;
  const flowId = randomUUID();
  const slug = `hook-${flowId}`;
  setNow(NOW);
  const triggers = { hook: { ...inputs, webhookSlug: slug } };
  const warnings = await gateway.deploy(manifestOf({ flowId, triggers }));
  const before = gateway.logged.length;
  return {
    flowId,
    path: `/flows/api/webhook/${slug}`,
    warnings,
    get,
    setNow,
    get logged() {
      return gateway.logged.slice(before);
    },
    send: (sent) => deliver(slug, sent),
    async latestDelivery() {
      const [latest] = JSON.parse(await get(`/flows/api/webhooks/recent?take=1&flowId=${flowId}`));
      expect(latest, 'there is no delivery').toBeDefined();
      return latest;
    },
    countRuns: async () => JSON.parse(await get(`/flows/api/runs?take=1&includeTotal=true&flowId=${flowId}`)).total,
  };
}

function manifestOf({ triggers, flowId = randomUUID(), coalesce, steps }: GatewayOptions) {
  const webhooks = Object.entries(triggers).map(([key, inputs]) => [
    key,
    { type: 'webhook', inputs: { webhookSlug: key, ...inputs }, coalesce },
  ]);
  return {
    id: flowId,
    name: 'publishers',
    version: '1',
    triggers: Object.fromEntries(webhooks),
    steps: steps ?? { only: { type: 'NoOp' } },
  };
}

async function exchange(url: string, { agent, sent }: { agent: Agent; sent: Sent }): Promise<Answered> {
  const body = Buffer.from(sent.body ?? '');
  const { method = 'POST' } = sent;
  const headers = method === 'POST' ? { ...sent.headers, 'content-length': body.byteLength } : { ...sent.headers };
  return new Promise((resolve, reject) => {
    const outgoing = send(url, { method, headers, agent }, (response) => {
      buffer(response).then(
        (bytes) => resolve({ status: response.statusCode ?? 0, headers: response.headers, text: bytes.toString() }),
        reject,
      );
    });
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}
