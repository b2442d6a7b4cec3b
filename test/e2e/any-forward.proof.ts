import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import { json } from 'node:stream/consumers';
import { expect, inject, onTestFinished, test } from 'vitest';
import { type Chance, chanceOf, SEED } from '../chance.ts';
import { freePort } from '../free-port.ts';
import { dropSchema, newSchema } from '../postgres/schemas.ts';
import { createWorkspace, eventually, type Service, startService, type Workspace } from './service.ts';

const CLI = resolve(import.meta.dirname, '../../dist/cli.js');
const DELIVERIES = 60;
/** One delivery in five is filtered out, and one in four is followed by a repetition. */
const [FILTERED, REPEATED] = [5, 4];
const FLOW = {
  id: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a99',
  name: 'orders',
  version: '1',
  triggers: {
    hook: {
      type: 'webhook',
      inputs: { webhookSlug: 'orders', webhookEventId: 'string(body.n)', webhookWhen: `body.n % ${FILTERED} != 0` },
    },
  },
  steps: { a: { type: 'NoOp' } },
};
const HEALS = { seconds: 120, because: 'the service and the command are killed and start again' };

/** How a target reacts to one request. After `cuts` and `kills` the command cannot have noted an answer. */
type Reaction = 'answers' | 'refuses' | 'is busy' | 'answers and kills' | 'cuts' | 'kills';
const REACTIONS: readonly Reaction[] = ['refuses', 'is busy', 'answers and kills', 'cuts', 'kills'];

interface Got {
  readonly n: number;
  readonly key: string;
  readonly reaction: Reaction;
}

/** A target with random reactions, but 200 for a delivery's second try in a row, so that waits stay short. */
async function openTarget(chance: Chance, kill: () => void) {
  const got: Got[] = [];
  const answer = (response: ServerResponse, status: number) => void response.writeHead(status).end();
  const react: Readonly<Record<Reaction, (response: ServerResponse) => void>> = {
    answers: (response) => answer(response, 200),
    refuses: (response) => answer(response, 500),
    'is busy': (response) => answer(response, 503),
    'answers and kills': (response) => {
      response.once('finish', kill);
      answer(response, 200);
    },
    cuts: (response) => void response.destroy(),
    kills: (response) => {
      kill();
      response.destroy();
    },
  };
  const server = createServer(async (request, response) => {
    const { n } = (await json(request)) as { n: number };
    const isKnown = got.at(-1)?.n === n;
    const reaction = !isKnown && chance.once(6) ? chance.pick(REACTIONS) : 'answers';
    got.push({ n, key: String(request.headers['idempotency-key']), reaction });
    react[reaction](response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { got, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook` };
}

/** A service that keeps its address. `receive` sends a delivery until the service answers. */
async function openService(workspace: Workspace, database: string) {
  const schema = newSchema();
  const env = {
    ...{ SLUICE_PORT: String(await freePort()), SLUICE_DRAIN_SECONDS: '0', SLUICE_LOG_LEVEL: 'warn' },
    ...(database === 'PostgreSQL' && {
      ...{ SLUICE_DATABASE_URL: inject('postgresUrl'), SLUICE_DATABASE_SCHEMA: schema, SLUICE_REPLICA_NAME: 'only' },
    }),
  };
  let service: Service = await startService(workspace, env);
  const { url } = service;
  onTestFinished(async () => {
    await service.stop('SIGKILL');
    if (database === 'PostgreSQL') await dropSchema(schema).catch(() => {});
  });
  return {
    url,
    port: env.SLUICE_PORT,
    async restart(signal: NodeJS.Signals) {
      await service.stop(signal);
      service = await startService(workspace, env);
    },
    receive: (n: number) =>
      eventually(
        () => {
          const body = JSON.stringify({ n });
          const headers = { 'content-type': 'application/json' };
          const sent = fetch(`${url}/flows/api/webhook/orders`, { method: 'POST', headers, body });
          return sent.then(({ status }) => status).catch(() => 0);
        },
        (status) => status === 200,
        HEALS,
      ),
  };
}

/** Starts the command again whenever it was killed, until told to stop. */
function keepForwarding({ folder }: Workspace, to: { readonly url: string; readonly port: string }) {
  let child: ChildProcess | undefined;
  let isOver = false;
  let kills = 0;
  const start = async (target: string) => {
    while (!isOver) {
      const args = [CLI, 'listen', 'orders', '--to', to.url, '--forward', target, '--as', 'ada', '--since', '1h'];
      const env = { PATH: process.env.PATH ?? '', SLUICE_PORT: to.port };
      child = spawn(process.execPath, args, { cwd: folder, env, stdio: 'ignore' });
      await once(child, 'exit');
    }
  };
  return {
    start,
    kill() {
      kills += 1;
      child?.kill('SIGKILL');
    },
    end() {
      isOver = true;
      child?.kill('SIGINT');
    },
    get kills() {
      return kills;
    },
  };
}

test.each(['SQLite', 'PostgreSQL'])(
  'a forwarder sends every run of a flow once, in order, and twice only what nobody could note, on %s',
  async (database) => {
    const [target, ends] = [
      chanceOf(`target on ${database}`),
      chanceOf(`ends of the forwarded service on ${database}`),
    ];
    const workspace = await createWorkspace();
    await workspace.writeManifest('orders.json', FLOW);
    const service = await openService(workspace, database);
    const forwarding = keepForwarding(workspace, service);
    const { got, url } = await openTarget(target, () => forwarding.kill());
    const forwarded = forwarding.start(url);
    onTestFinished(async () => {
      forwarding.end();
      await forwarded;
    });
    let restarting = Promise.resolve();
    let restarts = 0;
    for (let n = 1; n <= DELIVERIES; n += 1) {
      if (ends.once(15)) {
        restarts += 1;
        // Not awaited, so that deliveries arrive while the service is killed: committed, answered, both or neither.
        restarting = restarting.then(() => service.restart(ends.once(2) ? 'SIGKILL' : 'SIGTERM'));
      }
      await service.receive(n);
      if (ends.once(REPEATED)) await service.receive(1 + ends.below(n));
    }
    await restarting;
    const expected = Array.from({ length: DELIVERIES }, (_, at) => at + 1).filter((n) => n % FILTERED !== 0);
    const last = expected.at(-1);
    await eventually(
      () => got.findLast(({ n }) => n === last),
      (end) => end !== undefined && ['answers', 'refuses'].includes(end.reaction),
      HEALS,
    );
    const about = `TEST_SEED=${SEED}: ${got.map(({ n, reaction }) => `${n} ${reaction}`).join(', ')}`;
    const firsts = got.filter(({ n }, at) => n !== got[at - 1]?.n);
    expect(
      firsts.map(({ n }) => n),
      about,
    ).toEqual(expected);
    for (const n of expected) {
      const own = got.filter((each) => each.n === n);
      expect(new Set(own.map(({ key }) => key)).size, `${about}: the key of ${n}`).toBe(1);
      // After `answers and kills` the command may or may not have noted the answer; all other reactions are certain.
      const again = own.filter(({ reaction }) => ['is busy', 'cuts', 'kills'].includes(reaction)).length;
      const maybe = own.filter(({ reaction }) => reaction === 'answers and kills').length;
      expect(own.length, `${about}: tries of ${n}`).toBeGreaterThanOrEqual(1 + again);
      expect(own.length, `${about}: tries of ${n}`).toBeLessThanOrEqual(1 + again + maybe);
    }
    console.info(`${restarts} restarts, ${forwarding.kills} kills, ${got.length} requests`);
  },
);
