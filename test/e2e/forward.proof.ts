import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { resolve } from 'node:path';
import { buffer, text } from 'node:stream/consumers';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import { freePort } from '../free-port.ts';
import { dropSchema, newSchema } from '../postgres/schemas.ts';
import { runCli } from './cli.ts';
import { createWorkspace, eventually, type Service, startService } from './service.ts';

const CLI = resolve(import.meta.dirname, '../../dist/cli.js');
const FLOW = {
  id: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a99',
  name: 'orders',
  version: '1',
  triggers: { hook: { type: 'webhook', inputs: { webhookSlug: 'orders' } } },
  steps: { a: { type: 'NoOp' } },
};

/** A service that keeps its address when restarted. */
async function openService(database: string) {
  const workspace = await createWorkspace();
  await workspace.writeManifest('orders.json', FLOW);
  const schema = newSchema();
  const env = {
    SLUICE_PORT: String(await freePort()),
    SLUICE_DRAIN_SECONDS: '0',
    ...(database === 'postgres' && { SLUICE_DATABASE_URL: inject('postgresUrl'), SLUICE_DATABASE_SCHEMA: schema }),
  };
  let service: Service | undefined = await startService(workspace, env);
  const { url } = service;
  onTestFinished(async () => {
    await service?.stop('SIGKILL');
    if (database === 'postgres') await dropSchema(schema).catch(() => {});
  });
  return {
    url,
    workspace,
    env,
    async restart(signal: NodeJS.Signals, meanwhile = async () => {}) {
      await service?.stop(signal);
      service = undefined;
      await meanwhile();
      service = await startService(workspace, env);
    },
    /** Sends a delivery and returns its id. */
    async receive(n: number): Promise<string> {
      const body = JSON.stringify({ n });
      const headers = { 'content-type': 'application/json', authorization: 'Bearer hush', 'x-event-key': `k${n}` };
      const response = await fetch(`${url}/flows/api/webhook/orders`, { method: 'POST', headers, body });
      return ((await response.json()) as { deliveryId: string }).deliveryId;
    },
  };
}

interface Got {
  readonly key: string;
  readonly body: string;
  readonly headers: IncomingHttpHeaders;
}

/** A target at a fixed port; `answer` gives the status of each answer. */
async function openTarget(answer: (got: Got) => Promise<number> | number = () => 200) {
  const port = await freePort();
  const got: Got[] = [];
  let server: ReturnType<typeof createServer> | undefined;
  const target = {
    url: `http://127.0.0.1:${port}/hook`,
    got,
    keys: () => got.map(({ key }) => key),
    async open() {
      server = createServer(async (request, response) => {
        const { headers } = request;
        const one = { key: String(headers['idempotency-key']), body: (await buffer(request)).toString(), headers };
        got.push(one);
        response.writeHead(await answer(one)).end();
      });
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
    },
    async close() {
      server?.closeAllConnections();
      server?.close();
      server = undefined;
    },
  };
  onTestFinished(() => target.close());
  return target;
}

function listen(service: Awaited<ReturnType<typeof openService>>, args: readonly string[]) {
  const { workspace, env } = service;
  const child: ChildProcess = spawn(process.execPath, [CLI, 'listen', '--to', service.url, ...args], {
    cwd: workspace.folder,
    env: { PATH: process.env.PATH ?? '', SLUICE_PORT: env.SLUICE_PORT },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const output = Promise.all([text(child.stdout as never), text(child.stderr as never)]);
  const exited = once(child, 'exit') as Promise<[number | null]>;
  return {
    child,
    exited,
    async stop(signal: NodeJS.Signals) {
      child.kill(signal);
      const [code] = await exited;
      const [stdout, stderr] = await output;
      return { code, stdout, stderr };
    },
  };
}

describe.each(['sqlite', 'postgres'])('sluice listen --forward, on %s', (database) => {
  it('sends what came while it was away, in order, as it came, and waits for a target that is away', async () => {
    const service = await openService(database);
    const target = await openTarget();
    const forward = ['orders', '--forward', target.url, '--as', 'ada', '--since', '1h'];
    const ids = [await service.receive(1), await service.receive(2)];
    const first = listen(service, forward);
    // The target does not listen yet.
    await eventually(
      async () => (await fetch(`${service.url}/flows/api/webhooks/consumers`)).json() as Promise<object[]>,
      (consumers) => consumers.length === 1,
    );
    await target.open();
    await eventually(
      async () => target.got.length,
      (length) => length >= 2,
    );
    const { code, stdout, stderr } = await first.stop('SIGINT');
    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`^\\d\\d:\\d\\d:\\d\\d {2}orders/hook {2}200 {2}\\d+ ms {2}${ids[0]}`));
    expect(stderr).toContain(`as ada`);

    for (let n = 3; n <= 150; n += 1) ids.push(await service.receive(n));
    const second = listen(service, [...forward, '--json', '--count', '148']);
    const [ended] = await second.exited;
    expect(ended).toBe(0);
    expect(target.keys()).toEqual(ids);
    expect(target.got.map(({ body }) => body)).toEqual(ids.map((_, at) => `{"n":${at + 1}}`));
    expect(target.got[149]?.headers).toMatchObject({
      'content-type': 'application/json',
      'x-event-key': 'k150',
      authorization: '[redacted]',
    });
  });

  it('waits for a service that is away when it starts', async () => {
    const service = await openService(database);
    const target = await openTarget();
    await target.open();
    const ids = [await service.receive(1)];
    let forwarding: ReturnType<typeof listen> | undefined;
    await service.restart('SIGTERM', async () => {
      const proxy = createServer((_, response) => response.writeHead(503).end('{"message":"away"}'));
      proxy.listen(Number(service.env.SLUICE_PORT), '127.0.0.1');
      forwarding = listen(service, ['orders', '--forward', target.url, '--as', 'ada', '--since', '1h', '--count', '1']);
      await once(proxy, 'request');
      proxy.close();
      proxy.closeAllConnections();
    });
    expect(await forwarding?.exited).toEqual([0, null]);
    expect(target.keys()).toEqual(ids);
  });

  it('gives each name a cursor of its own, and ends where another program has the name', async () => {
    const service = await openService(database);
    const target = await openTarget();
    await target.open();
    const ids = [await service.receive(1), await service.receive(2)];
    for (const as of ['ada', 'bob']) {
      const args = ['--forward', target.url, '--as', as, '--since', '1h', '--count', '2'];
      expect(await listen(service, args).exited).toEqual([0, null]);
    }
    expect(target.keys()).toEqual([...ids, ...ids]);

    const late = await openTarget(async () => {
      // Another command under the same name was faster.
      const consumer = (await (await fetch(`${service.url}/flows/api/webhooks/consumers/ada`)).json()) as {
        cursor: string;
      };
      const query = new URLSearchParams({
        from: consumer.cursor,
        to: `1.0.${'0'.repeat(8)}-0000-4000-8000-${'0'.repeat(12)}`,
      });
      await fetch(`${service.url}/flows/api/webhooks/consumers/ada/advance?${query}`, { method: 'POST' });
      return 200;
    });
    await late.open();
    await service.receive(3);
    const both = await runCli(
      service.workspace,
      ['listen', '--to', service.url, '--forward', late.url, '--as', 'ada'],
      { env: { SLUICE_PORT: service.env.SLUICE_PORT } },
    );
    expect(both).toMatchObject({ code: 2, stderr: expect.stringContaining('give each its own name with --as') });
  });
});
