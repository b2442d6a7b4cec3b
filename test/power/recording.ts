import { createHmac, randomUUID } from 'node:crypto';
import { realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { DAY_MS } from '../../src/model/clock.ts';
import type { Chance } from '../chance.ts';
import { FLOW_ID, GITHUB_SECRET, githubManifest, type Service, startService, type Workspace } from '../e2e/service.ts';
import { type Snapshot, takeSnapshot } from './disk.ts';
import { buildLayer, type Entry, readJournal } from './journal.ts';

/** A delivery with a 200, and the length of the journal when the 200 was read. */
export interface Acknowledged {
  readonly nonce: string;
  readonly runId: string;
  readonly at: number;
  /** The length of the journal when the delivery became old enough to be removed. */
  removableFrom?: number;
}

/** A deploy with a 200, likewise. */
interface Deployed {
  readonly version: string;
  readonly at: number;
}

/** The service's changes to the files of its folder, and its acknowledgements. */
export interface Recording {
  readonly folder: string;
  readonly before: Snapshot;
  readonly entries: readonly Entry[];
  readonly deliveries: readonly Acknowledged[];
  readonly deploys: readonly Deployed[];
}

/** Its runs are in flight for a moment after the acknowledgement. */
export function manifestOf(version: number): object {
  const steps = {
    first: { type: 'NoOp' },
    pause: { type: 'Delay', inputs: { seconds: 0.2 }, runAfter: { first: ['Succeeded'] } },
    last: { type: 'LogMessage', inputs: { message: `seen by ${version}` }, runAfter: { pause: ['Succeeded'] } },
  };
  return { ...githubManifest({ steps }), version: String(version) };
}

const imported = (script: string) => `--import data:text/javascript,${encodeURIComponent(script)}`;

/** A minute passes in a second, so that the service does its every-minute work within a proof. */
const QUICK_MINUTES = imported(
  'const real = setInterval; globalThis.setInterval = (call, ms, ...rest) => real(call, ms === 60_000 ? 1000 : ms, ...rest);',
);

const clockAhead = (ms: number) => imported(`const { now } = Date; Date.now = () => now() + ${ms};`);

export const ENFORCE = {
  SLUICE_ENFORCEMENT_MODE: 'Enforce',
  SLUICE_LOG_LEVEL: 'warn',
  NODE_OPTIONS: QUICK_MINUTES,
};

/** A delivery as GitHub would send it. */
export function signed(nonce: string, bodyBytes: number) {
  const body = JSON.stringify({ nonce, padding: 'x'.repeat(bodyBytes) });
  const signature = createHmac('sha256', GITHUB_SECRET).update(body).digest('hex');
  const headers = {
    'content-type': 'application/json',
    'x-hub-signature-256': `sha256=${signature}`,
    'x-github-delivery': nonce,
  };
  return { headers, body };
}

export function send({ url }: Pick<Service, 'url'>, nonce: string, bodyBytes = 100): Promise<Response> {
  return fetch(`${url}/flows/api/webhook/push`, { method: 'POST', ...signed(nonce, bodyBytes) });
}

interface Burst {
  readonly count: number;
  readonly connections: number;
}

/** Runs the built service with layer.c, again and again on one folder, and records its acknowledgements. */
export class Recorder {
  readonly #workspace: Workspace;
  readonly #environment: Record<string, string>;
  readonly #journal: string;
  readonly #before: Snapshot;
  readonly #chance: Chance;
  readonly #deliveries: Acknowledged[] = [];
  readonly #deploys: Deployed[] = [];
  #service: Service | undefined;

  constructor(
    workspace: Workspace,
    options: { readonly scratch: string; readonly chance: Chance; readonly swallowsFlushes?: boolean },
  ) {
    const { scratch, chance, swallowsFlushes = false } = options;
    this.#workspace = workspace;
    this.#chance = chance;
    this.#journal = join(scratch, 'journal');
    const of = realpathSync(workspace.folder);
    this.#environment = { ...ENFORCE, ...buildLayer(scratch)({ journal: this.#journal, of, swallowsFlushes }) };
    this.#before = takeSnapshot(of);
  }

  get service(): Service {
    if (this.#service === undefined) throw new Error('no service runs');
    return this.#service;
  }

  async start(): Promise<void> {
    this.#service = await startService(this.#workspace, this.#environment);
  }

  /** From now on everything acknowledged may be removed. */
  async startLater(days: number): Promise<void> {
    for (const delivery of this.#deliveries) delivery.removableFrom ??= this.#position();
    const NODE_OPTIONS = `${QUICK_MINUTES} ${clockAhead(days * DAY_MS)}`;
    this.#service = await startService(this.#workspace, { ...this.#environment, NODE_OPTIONS });
  }

  async stop(signal: NodeJS.Signals): Promise<void> {
    await this.#service?.stop(signal);
    this.#service = undefined;
  }

  /** Sends so many deliveries over so many parallel connections. Each must be acknowledged. */
  async deliver({ count, connections }: Burst): Promise<void> {
    let left = count;
    const sender = async () => {
      for (; left > 0; ) {
        left -= 1;
        const nonce = randomUUID();
        const response = await send(this.service, nonce, this.#chance.pick([100, 3000, 20_000]));
        const at = this.#position();
        expect(response.status).toBe(200);
        this.#deliveries.push({ nonce, at, runId: ((await response.json()) as { runId: string }).runId });
      }
    };
    await Promise.all(Array.from({ length: connections }, sender));
  }

  async deploy(version: number): Promise<void> {
    const url = `${this.service.url}/flows/api/flows/${FLOW_ID}?allow=caution,breaking`;
    const response = await fetch(url, { method: 'PUT', body: JSON.stringify(manifestOf(version)) });
    const at = this.#position();
    expect(response.status, await response.text()).toBe(200);
    this.#deploys.push({ version: String(version), at });
  }

  /** Call it when no service runs. */
  finish(): Recording {
    return {
      folder: this.#before.path,
      before: this.#before,
      entries: readJournal(this.#journal),
      deliveries: this.#deliveries,
      deploys: this.#deploys,
    };
  }

  #position(): number {
    return statSync(this.#journal).size;
  }
}
