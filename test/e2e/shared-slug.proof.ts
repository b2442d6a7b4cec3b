import { randomUUID } from 'node:crypto';
import { expect, inject, it, onTestFinished } from 'vitest';
import { chanceOf } from '../chance.ts';
import { dropSchema } from '../postgres/schemas.ts';
import {
  createWorkspace,
  GITHUB_SECRET,
  getJson,
  githubManifest,
  noneInFlight,
  type Service,
  sendPush,
  startService,
} from './service.ts';

const ROUNDS = 6;
const FLOWS = ['a', 'b', 'c'] as const;
const idOf = (flow: string) => `0${flow}000000-0000-4000-8000-000000000000`;

interface Accepted {
  readonly deliveryId: string;
  readonly runs: readonly { readonly flowId: string; readonly runId: string }[];
}

interface Run {
  readonly id: string;
  readonly flowId: string;
  readonly deliveryId: string;
}

/** Flow `b` filters out half of the deliveries. */
function manifestOf(flow: (typeof FLOWS)[number]): object {
  const inputs = {
    webhookSlug: 'push',
    webhookShared: true,
    webhookSignatureScheme: 'GitHub',
    webhookHmacKey: GITHUB_SECRET,
    webhookNonceHeader: 'X-GitHub-Delivery',
    ...(flow === 'b' && { webhookWhen: 'body.isFor' }),
  };
  return { ...githubManifest(), id: idOf(flow), name: flow, triggers: { push: { type: 'webhook', inputs } } };
}

const post = (service: Service, delivery: string, isFor: boolean) =>
  sendPush(service, JSON.stringify({ delivery, isFor }), { id: delivery });

async function allRuns(service: Service): Promise<Run[]> {
  const runs: Run[] = [];
  for (let skip = 0; ; skip += 500) {
    const page = await getJson<Run[]>(`${service.url}/flows/api/runs?take=500&skip=${skip}`);
    runs.push(...page);
    if (page.length < 500) return runs;
  }
}

/** On PostgreSQL, one of two replicas is killed while the other continues. */
const DATABASES = [
  ['SQLite', 1],
  ['PostgreSQL', 2],
] as const;

function databaseOf(name: (typeof DATABASES)[number][0]): Record<string, string> {
  if (name === 'SQLite') return {};
  const [url, schema] = [inject('postgresUrl'), `shared_${randomUUID().replaceAll('-', '')}`];
  onTestFinished(() => dropSchema(schema, url));
  return { SLUICE_DATABASE_URL: url, SLUICE_DATABASE_SCHEMA: schema, SLUICE_DRAIN_SECONDS: '0' };
}

it.each(DATABASES)(
  'starts the runs of all flows of a slug or none, once, wherever a process is killed, on %s',
  async (database, size) => {
    const kills = chanceOf(`kills on a shared slug on ${database}`);
    const bodies = chanceOf(`bodies for a shared slug on ${database}`);
    const workspace = await createWorkspace();
    for (const flow of FLOWS) await workspace.writeManifest(`${flow}.json`, manifestOf(flow));
    const env = { SLUICE_ENFORCEMENT_MODE: 'Enforce', SLUICE_LOG_LEVEL: 'warn', ...databaseOf(database) };
    const start = async () => {
      const services: Service[] = [];
      for (let n = 1; n <= size; n += 1) {
        services.push(
          await startService(workspace, { ...env, ...(size > 1 && { SLUICE_REPLICA_NAME: `replica-${n}` }) }),
        );
      }
      return services as [Service, ...Service[]];
    };
    const stop = (services: readonly Service[], signal: NodeJS.Signals) =>
      Promise.all(services.map((service) => service.stop(signal)));
    const sent = new Map<string, { readonly isFor: boolean; accepted?: Accepted }>();
    for (let round = 0; round < ROUNDS; round += 1) {
      const services = await start();
      const [killed] = services;
      const killAfter = 10 + kills.below(120);
      let count = 0;
      await Promise.all(
        Array.from({ length: 12 }, async (_, publisher) => {
          const service = services[publisher % size] ?? killed;
          while (count <= killAfter + 12) {
            const [delivery, isFor] = [randomUUID(), bodies.once(2)];
            sent.set(delivery, { isFor });
            count += 1;
            if (count === killAfter) killed.child.kill('SIGKILL');
            const accepted = await post(service, delivery, isFor)
              .then(async (response) => (response.status === 200 ? ((await response.json()) as Accepted) : undefined))
              .catch(() => undefined);
            if (accepted === undefined) return;
            sent.set(delivery, { isFor, accepted });
          }
        }),
      );
      await stop(services, 'SIGKILL');
      const others = await start();
      const [again] = others;
      for (const [delivery, { isFor, accepted }] of sent) {
        const { status } = await post(again, delivery, isFor);
        if (accepted === undefined) expect([200, 409]).toContain(status);
        else expect(status, 'the nonce of an answered delivery is refused').toBe(409);
        if (status === 200) expect((await post(again, delivery, isFor)).status).toBe(409);
      }
      await stop(others, 'SIGKILL');
    }
    const services = await start();
    const [service] = services;
    await noneInFlight(service);
    const runs = await allRuns(service);
    const known = new Set(runs.map(({ id }) => id));
    for (const { accepted } of sent.values()) {
      for (const { runId } of accepted?.runs ?? []) expect(known.has(runId), 'no answered run is lost').toBe(true);
    }
    const flowsOf = new Map<string, string[]>();
    for (const { deliveryId, flowId } of runs) flowsOf.set(deliveryId, [...(flowsOf.get(deliveryId) ?? []), flowId]);
    expect(flowsOf.size, 'each delivery has one record').toBe(sent.size);
    const both = [...sent.values()].filter(({ isFor }) => isFor).length;
    const counts = [...flowsOf.values()].map((flows) => flows.sort().join());
    const all = FLOWS.map(idOf).join();
    expect(new Set(counts)).toEqual(new Set([all, [idOf('a'), idOf('c')].join()]));
    expect(counts.filter((flows) => flows === all)).toHaveLength(both);
    const books = await getJson<Record<string, number>>(`${service.url}/flows/api/books`);
    expect(books).toMatchObject({ accepted: sent.size, runs: sent.size, unaccounted: 0 });
    await stop(services, 'SIGTERM');
  },
);
