import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import {
  createWorkspace,
  eventually,
  getJson,
  githubManifest,
  pushHeaders,
  type Service,
  startService,
} from './service.ts';

/** An answer as received; JSON bodies are parsed. */
export interface WireAnswer {
  readonly statusCode: number;
  readonly reason: string | null;
  readonly runId: string | null;
  readonly text: string;
}

export interface Delivery {
  readonly slug: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Buffer;
  readonly method?: string;
}

/** The tools of an attack: the built service under Enforce, and honest deliveries for comparison. */
export interface Target {
  readonly service: Service;
  send(delivery: Delivery): Promise<WireAnswer>;
  /** Writes the text to a new socket and returns the answer once the service answered or closed the connection. */
  wire(text: string): Promise<string>;
  /** Opens a socket, writes the text and leaves the socket open; the suite closes it after the attack. */
  hold(text: string): Promise<Socket>;
  /** A delivery with a correct GitHub signature. */
  honest(body?: string): Delivery;
  /** The number of runs of the flow with this slug. */
  runsOf(slug: string): Promise<number>;
  /** Waits until the runs of the flow have ended, and returns them. */
  endedRuns(slug: string): Promise<readonly { id: string; status: string }[]>;
}

/** One flow per slug, with fixed ids so that tests can count their runs. */
export interface HostileFlow {
  readonly slug: string;
  readonly inputs: Readonly<Record<string, unknown>>;
  readonly steps?: object;
}

const flowIdOf = (index: number) => `0b7e2f44-6c1d-4f0e-9a51-${String(index).padStart(12, '0')}`;

/** Starts the built service under Enforce with the given flows and `push`, a GitHub flow. */
export async function startTarget(
  flows: readonly HostileFlow[],
  env: Record<string, string> = {},
): Promise<Target & { close(): Promise<void>; releaseSockets(): void }> {
  const workspace = await createWorkspace();
  const ids = new Map<string, string>();
  for (const [index, { slug, inputs, steps }] of [{ slug: 'push', inputs: {} } as HostileFlow, ...flows].entries()) {
    const id = flowIdOf(index);
    ids.set(slug, id);
    const isPush = slug === 'push';
    const manifest = githubManifest(steps === undefined ? {} : { steps });
    const triggers = { hook: { type: 'webhook', inputs: { webhookSlug: slug, ...inputs } } };
    await workspace.writeManifest(`${slug}.json`, { ...manifest, id, name: slug, ...(isPush ? {} : { triggers }) });
  }
  const service = await startService(workspace, {
    SLUICE_ENFORCEMENT_MODE: 'Enforce',
    SLUICE_LOG_LEVEL: 'warn',
    ...env,
  });
  const sockets = new Set<Socket>();
  const { hostname, port } = new URL(service.url);
  const open = async (): Promise<Socket> => {
    const socket = connect(Number(port), hostname);
    sockets.add(socket);
    socket.on('error', () => {});
    await once(socket, 'connect');
    return socket;
  };
  const runs = (slug: string) =>
    getJson<{ total: number; items: { id: string; status: string }[] }>(
      `${service.url}/flows/api/runs?flowId=${ids.get(slug)}&includeTotal=true&take=500`,
    );
  return {
    service,
    async send({ slug, headers, body, method = 'POST' }) {
      const response = await fetch(`${service.url}/flows/api/webhook/${slug}`, {
        method,
        headers,
        ...(method === 'GET' || method === 'HEAD' ? {} : { body }),
      });
      return readAnswer(response.status, await response.text());
    },
    async wire(text) {
      const socket = await open();
      let received = '';
      socket.on('data', (chunk) => {
        received += chunk.toString('latin1');
      });
      // Not once(), which rejects if the service resets the connection; a reset counts as an answer.
      const closed = new Promise((done) => socket.on('close', done));
      socket.end(text);
      await closed;
      return received;
    },
    async hold(text) {
      const socket = await open();
      socket.resume();
      socket.write(text);
      return socket;
    },
    honest: (body = '{"zen":"Keep it logically awesome."}') => ({
      slug: 'push',
      body,
      headers: pushHeaders(body),
    }),
    runsOf: async (slug) => (await runs(slug)).total,
    endedRuns: async (slug) =>
      (
        await eventually(
          () => runs(slug),
          ({ items }) => items.every(({ status }) => status !== 'Running'),
        )
      ).items,
    releaseSockets() {
      for (const socket of sockets) socket.destroy();
      sockets.clear();
    },
    async close() {
      await service.stop('SIGTERM');
    },
  };
}

function readAnswer(statusCode: number, text: string): WireAnswer {
  let body: { reason?: unknown; runId?: unknown } = {};
  try {
    body = JSON.parse(text) ?? {};
  } catch {
    // Some publishers get plain text.
  }
  const textOr = (value: unknown) => (typeof value === 'string' ? value : null);
  return { statusCode, reason: textOr(body.reason), runId: textOr(body.runId), text };
}
