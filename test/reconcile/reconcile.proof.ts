import { randomUUID } from 'node:crypto';
import { expect, inject, onTestFinished, test } from 'vitest';
import { chanceOf } from '../chance.ts';
import { createWorkspace, eventually, getJson, type Service, startService, type Workspace } from '../e2e/service.ts';
import { dropSchema } from '../postgres/schemas.ts';
import { type FakeGithub, fakeGithub } from './github.ts';
import { manifestOf, SECRET } from './reconciling.ts';

const LOST = 100;
const KILLS = 8;
const ROUNDS = ['first', 'second'];

interface Replica {
  service: Service | undefined;
  start(): Promise<Service>;
  kill(): Promise<void>;
}

function replicaOf(workspace: Workspace, env: Record<string, string>): Replica {
  const replica: Replica = {
    service: undefined,
    async start() {
      replica.service ??= await startService(workspace, env);
      return replica.service;
    },
    async kill() {
      const { service } = replica;
      replica.service = undefined;
      await service?.stop('SIGKILL');
    },
  };
  return replica;
}

async function prepare(names: readonly string[], reconcile: object = {}) {
  const github = await fakeGithub({ secret: SECRET, target: undefined });
  const workspace = await createWorkspace();
  const schema = `reconcile_${randomUUID().replaceAll('-', '')}`;
  const url = inject('postgresUrl');
  const common = { SLUICE_ENFORCEMENT_MODE: 'Enforce', SLUICE_EGRESS_ALLOW: '127.0.0.1', SLUICE_LOG_LEVEL: 'error' };
  const onPostgres = (name: string) => ({
    ...{
      SLUICE_DATABASE_URL: url,
      SLUICE_DATABASE_SCHEMA: schema,
      SLUICE_REPLICA_NAME: name,
      SLUICE_DRAIN_SECONDS: '0',
    },
  });
  const replicas = names.map((name) => replicaOf(workspace, { ...common, ...(names.length > 1 && onPostgres(name)) }));
  onTestFinished(async () => {
    await Promise.all(replicas.map((replica) => replica.kill()));
    await github.close();
    await workspace.remove();
    if (names.length > 1) await dropSchema(schema, url).catch(() => {});
  });
  await workspace.writeManifest('shop.json', manifestOf(github.baseUrl, { reconcile }));
  return { github, replicas };
}

const asked = async ({ asked: requests }: FakeGithub, count: number) => {
  const until = requests.length + count;
  await eventually(
    async () => requests.length,
    (length) => length >= until,
  );
};

interface Row {
  readonly id: string;
  readonly deliveryId: string;
}
const runsOf = ({ url }: Service) => getJson<Row[]>(`${url}/flows/api/runs?take=500`);

/** Every delivery has one run, and its original is known when it comes after all. */
async function expectEachOnce(github: FakeGithub, { url }: Service) {
  await eventually(
    () => runsOf({ url } as Service),
    ({ length }) => length >= github.sent.length,
  );
  github.target = `${url}/flows/api/webhook/shop`;
  for (const lost of github.sent) expect(await github.redeliver(lost)).toBe(200);
  await asked(github, 2);
  const records = await getJson<{ runId: string; outcome: string | null; headers: Record<string, string> }[]>(
    `${url}/flows/api/webhooks/recent?take=500`,
  );
  const runs = await runsOf({ url } as Service);
  expect(runs).toHaveLength(github.sent.length);
  const first = records.filter(({ outcome }) => outcome === null);
  expect(first.map(({ headers }) => headers['x-github-delivery']).sort()).toEqual(
    github.sent.map(({ guid }) => guid).sort(),
  );
  expect(await getJson(`${url}/flows/api/books`)).toMatchObject({
    runs: github.sent.length,
    reconciled: github.sent.length,
    duplicates: github.sent.length,
    unaccounted: 0,
  });
}

test('deliveries that fail while the service is off have their runs soon after its start, each once', async () => {
  const { github, replicas } = await prepare(['only'], { every: 'PT15M' });
  const [replica] = replicas as [Replica];
  await replica.start();
  await asked(github, 1);
  await replica.service?.stop('SIGTERM');
  replica.service = undefined;
  for (let n = 0; n < LOST; n += 1) await github.deliver({ n });
  const service = await replica.start();
  await eventually(
    () => runsOf(service),
    ({ length }) => length >= LOST,
  );
  expect(await runsOf(service)).toHaveLength(LOST);
  const gaps = (await getJson<{ kind: string; message: string }[]>(`${service.url}/flows/api/attention`)).filter(
    ({ kind }) => kind === 'deliveries_missed',
  );
  expect(gaps).toHaveLength(1);
  expect(gaps[0]?.message).toMatch(new RegExp(`^${LOST} deliveries to shop/github did not arrive`));
});

test.each(ROUNDS)(
  'a service that is killed again and again while it fetches doubles nothing (%s round)',
  async (round) => {
    const { below } = chanceOf(`kills of one that reconciles, ${round} round`);
    const { github, replicas } = await prepare(['only']);
    const [replica] = replicas as [Replica];
    await replica.start();
    await asked(github, 1);
    await replica.kill();
    for (let n = 0; n < LOST; n += 1) await github.deliver({ n });
    for (let kill = 0; kill < KILLS; kill += 1) {
      await replica.start();
      await asked(github, 1 + below(20));
      await replica.kill();
    }
    await expectEachOnce(github, await replica.start());
  },
);

test.each(ROUNDS)('two replicas of which one is killed again and again double nothing (%s round)', async (round) => {
  const { below, once } = chanceOf(`kills of two that reconcile, ${round} round`);
  const { github, replicas } = await prepare(['one', 'two']);
  const [one, two] = replicas as [Replica, Replica];
  await Promise.all([one.start(), two.start()]);
  await asked(github, 1);
  await Promise.all([one.kill(), two.kill()]);
  for (let n = 0; n < LOST; n += 1) await github.deliver({ n });
  for (let kill = 0; kill < KILLS; kill += 1) {
    await Promise.all([one.start(), two.start()]);
    await asked(github, 1 + below(20));
    await (once(2) ? one : two).kill();
  }
  await expectEachOnce(github, await one.start());
});
