import { afterEach, describe, expect, inject, it } from 'vitest';
import { type Chance, chanceOf, SEED } from '../chance.ts';
import { dropSchema, takeSchema } from '../postgres/schemas.ts';
import {
  createWorkspace,
  eventually,
  FLOW_ID,
  getJson,
  githubManifest,
  noneInFlight,
  type Service,
  sendPush,
  startService,
  type Workspace,
} from './service.ts';

const [ROUNDS, SENDERS, SKUS, COLLECT] = [6, 12, 5, 7];
const COALESCE = { key: 'body.sku', quietSeconds: 0.2, maxSeconds: 1.5, collect: COLLECT };

const replica = (name: string, schema: string) => ({
  SLUICE_DATABASE_URL: inject('postgresUrl'),
  SLUICE_DATABASE_SCHEMA: schema,
  SLUICE_REPLICA_NAME: name,
  SLUICE_DRAIN_SECONDS: '0',
});

/** For each database, the variables of each process that runs at once. */
const DATABASES: Readonly<Record<string, (schema: string) => readonly Record<string, string>[]>> = {
  SQLite: () => [{}],
  'PostgreSQL with two replicas': (schema) => [replica('one', schema), replica('two', schema)],
};

const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean();
});

interface Sent {
  readonly n: number;
  readonly sku: number;
}

const post = (service: Service, sent: Sent) => sendPush(service, JSON.stringify(sent), { id: `delivery ${sent.n}` });

/** The id of its run; undefined without an answer. A repetition gets the run of its first delivery. */
async function runOf(service: Service, sent: Sent): Promise<string | undefined> {
  try {
    const response = await post(service, sent);
    // While another replica opens the flow, this one asks for the delivery again.
    if (response.status === 503) return undefined;
    expect(response.status).toBe(200);
    return ((await response.json()) as { runId: string }).runId;
  } catch (error) {
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}

const command = (service: Service, path: string, body: object = {}) =>
  fetch(`${service.url}/flows/api/flows/${FLOW_ID}/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  }).catch(() => undefined);

async function allRuns(service: Service) {
  const runs: { id: string; status: string }[] = [];
  for (;;) {
    const page = await getJson<typeof runs>(`${service.url}/flows/api/runs?take=500&skip=${runs.length}`);
    runs.push(...page);
    if (page.length < 500) return runs;
  }
}

function manifestOf(version: string): object {
  const manifest = githubManifest({
    inputs: { webhookDuplicateResponse: 'acknowledge' },
    steps: {
      all: { type: 'Transform', inputs: { value: `\${trigger.deliveries.map(d, d.body)}` } },
      newest: { type: 'Transform', inputs: { value: `\${trigger.body}` }, runAfter: { all: ['Succeeded'] } },
    },
  }) as { triggers: { github: object } };
  Object.assign(manifest.triggers.github, { coalesce: COALESCE });
  return { ...manifest, version };
}

const ENV = { SLUICE_ENFORCEMENT_MODE: 'Enforce', SLUICE_LOG_LEVEL: 'warn' };

async function startAll(workspace: Workspace, variables: readonly Record<string, string>[]): Promise<Service[]> {
  const services: Service[] = [];
  for (const own of variables) services.push(await startService(workspace, { ...ENV, ...own }));
  cleanups.push(() => Promise.all(services.map((service) => service.stop('SIGKILL'))));
  return services;
}

/** Sends while holding, deploying and killing at random; then sends the unanswered deliveries again. */
async function round(
  services: readonly Service[],
  { kills: { below, pick }, next, runs }: { kills: Chance; next: () => Sent; runs: Map<Sent, string> },
): Promise<Sent[]> {
  const unanswered: Sent[] = [];
  // Drawn before the first request, so that the speed of the answers does not change what is drawn.
  const killAt = 20 + below(150);
  const [holdAt, openAt, deployAt] = [below(killAt), below(killAt), below(killAt)];
  const [version, killed] = [`${below(1e9)}`, pick(services)];
  let count = 0;
  await Promise.all(
    Array.from({ length: SENDERS }, async (_, sender) => {
      const service = services[sender % services.length] as Service;
      while (count < killAt + 40) {
        count += 1;
        if (count === holdAt) void command(service, 'disable', { hold: true });
        if (count === openAt) void command(service, 'enable');
        if (count === deployAt) {
          const body = JSON.stringify(manifestOf(version));
          const put = { method: 'PUT', headers: { 'content-type': 'application/json' }, body };
          void fetch(`${service.url}/flows/api/flows/${FLOW_ID}`, put).catch(() => undefined);
        }
        if (count === killAt) killed.child.kill('SIGKILL');
        const sent = next();
        const runId = await runOf(service, sent);
        if (runId !== undefined) runs.set(sent, runId);
        else {
          unanswered.push(sent);
          return;
        }
      }
    }),
  );
  return unanswered;
}

describe.each(Object.entries(DATABASES))('on %s', (database, variables) => {
  it('each delivery is in one run, with others of its key, wherever processes are killed', async () => {
    const kills = chanceOf(`kills of coalesced deliveries on ${database}`);
    const skus = chanceOf(`keys of coalesced deliveries on ${database}`);
    const schema = takeSchema();
    const workspace = await createWorkspace();
    cleanups.push(() => dropSchema(schema).catch(() => {}));
    await workspace.writeManifest('push.json', manifestOf('1'));
    const runs = new Map<Sent, string>();
    let sentCount = 0;
    const next = (): Sent => {
      sentCount += 1;
      return { n: sentCount, sku: skus.below(SKUS) };
    };
    for (let n = 0; n < ROUNDS; n += 1) {
      const services = await startAll(workspace, variables(schema));
      await command(services[0] as Service, 'enable');
      const unanswered = await round(services, { kills, next, runs });
      await Promise.all(services.map((service) => service.stop('SIGKILL')));
      const [again] = await startAll(workspace, variables(schema).slice(0, 1));
      if (again === undefined) throw new Error('Nothing was started.');
      await command(again, 'enable');
      for (const sent of unanswered) {
        const runId = await eventually(
          () => {
            if (again.child.exitCode !== null) throw new Error(`The service ended: ${again.output()}`);
            return runOf(again, sent);
          },
          (answer) => answer !== undefined,
          { seconds: 60, because: 'the flow opens once all that it holds has its runs' },
        );
        runs.set(sent, runId as string);
      }
      await again.stop('SIGKILL');
    }
    const [service] = await startAll(workspace, variables(schema).slice(0, 1));
    if (service === undefined) throw new Error('Nothing was started.');
    await command(service, 'enable');
    await noneInFlight(service);
    await eventually(
      () => getJson<Record<string, number>>(`${service.url}/flows/api/books`),
      ({ held }) => held === 0,
      { seconds: 60, because: 'hundreds may be held' },
    );
    await noneInFlight(service);
    const about = `TEST_SEED=${SEED}`;
    const found = new Map<number, string>();
    const all = await allRuns(service);
    for (const { id, status } of all) {
      expect(status, about).toBe('Succeeded');
      type Steps = { stepKey: string; output: unknown }[];
      const steps = await getJson<Steps>(`${service.url}/flows/api/runs/${id}/steps`);
      const outputOf = (key: string) => steps.find(({ stepKey }) => stepKey === key)?.output;
      const deliveries = outputOf('all') as Sent[];
      expect(deliveries.length, about).toBeLessThanOrEqual(COLLECT);
      expect(new Set(deliveries.map(({ sku }) => sku)).size, `${about}: one key`).toBe(1);
      expect(outputOf('newest'), `${about}: the body is the newest`).toEqual(deliveries.at(-1));
      for (const { n } of deliveries) {
        expect(found.get(n), `${about}: delivery ${n} is in one run`).toBeUndefined();
        found.set(n, id);
      }
    }
    const promised = new Map([...runs].map(([{ n }, runId]) => [n, runId]));
    expect(new Map([...found].sort(([a], [b]) => a - b)), about).toEqual(
      new Map([...promised].sort(([a], [b]) => a - b)),
    );
    expect(found.size, `${about}: some share a run`).toBeGreaterThan(all.length);
    const books = await getJson<Record<string, number>>(`${service.url}/flows/api/books`);
    expect(books, about).toMatchObject({ runs: all.length, coalesced: found.size - all.length, unaccounted: 0 });
    await service.stop('SIGTERM');
  });
});
