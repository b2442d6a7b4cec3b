import { randomUUID } from 'node:crypto';
import { expect, inject, onTestFinished, test } from 'vitest';
import { chanceOf } from '../../chance.ts';
import { createWorkspace, eventually, getJson, type Service, startService, type Workspace } from '../../e2e/service.ts';
import { dropSchema } from '../../postgres/schemas.ts';
import { type FakeGithub, fakeGithub, type SpoiltAnswer } from './github.ts';
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
  const write = (baseUrl: string) => workspace.writeManifest('shop.json', manifestOf(baseUrl, { reconcile }));
  return { github, replicas, write };
}

const asked = async ({ asked: requests }: FakeGithub, count: number) => {
  const until = requests.length + count;
  await eventually(
    async () => requests.length,
    (length) => length >= until,
    { seconds: 60, because: 'where nothing is left to fetch, a look a second makes a few requests' },
  );
};

interface Row {
  readonly id: string;
  readonly deliveryId: string;
}
const runsOf = ({ url }: Service) => getJson<Row[]>(`${url}/flows/api/runs?take=500`);

/** Waits until a look that begins from now on has settled all that it found. */
const looked = async (github: FakeGithub) => {
  const before = github.looks;
  await eventually(
    () => github.looks,
    (looks) => looks >= before + 2,
    { seconds: 120, because: 'a look asks for every page of a hundred deliveries' },
  );
};

/** Every delivery has one run, and its original is known when it comes after all. */
async function expectEachOnce(github: FakeGithub, { url }: Service) {
  await eventually(
    () => runsOf({ url } as Service),
    ({ length }) => length >= github.sent.length,
    { seconds: 240, because: 'a log that a killed process was asking is free when its lease ends' },
  );
  github.target = `${url}/flows/api/webhook/shop`;
  for (const lost of github.sent) expect(await github.redeliver(lost)).toBe(200);
  await looked(github);
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
    { seconds: 120, because: 'a hundred are fetched and accepted one after the other' },
  );
  expect(await runsOf(service)).toHaveLength(LOST);
  const gaps = async () =>
    (await getJson<{ kind: string; message: string }[]>(`${service.url}/flows/api/attention`)).filter(
      ({ kind }) => kind === 'deliveries_missed',
    );
  // It is told when the look is over, after the last run.
  const told = await eventually(gaps, ([gap]) => gap?.message.startsWith(`${LOST} deliveries`) === true);
  expect(told).toMatchObject([{ message: expect.stringContaining('to shop/github did not arrive') }]);
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

const BAD: readonly SpoiltAnswer[] = [
  ...[400, 404, 406, 409, 410, 418, 451, 500, 502].map((status) => ({ status, body: '{"message":"no"}' })),
  ...[
    { status: 200, body: '{"id": 1, "request": {"pay' },
    { status: 200, body: '' },
    { status: 200, body: 'null' },
  ],
  ...[{ status: 200, body: '[]' }, { status: 200, body: '<html></html>', contentType: 'text/html' }, { isCut: true }],
  ...[{ status: 200, body: '{"guid": "another", "request": {"headers": {}, "payload": {}}}' }, { status: 301 }],
];
const [SPOILT, NEVER] = [40, 7];

interface Kept {
  readonly outcome: string | null;
  readonly detail: string | null;
  readonly runId: string | null;
}

test.each([
  [1, ['only']],
  [2, ['one', 'two']],
] as const)(
  'every lost delivery has a run or is given up with one record, whatever is answered and killed (seed %i, %j)',
  async (seed, names) => {
    const { below, pick } = chanceOf(`bad answers, ${names.join(' and ')}, ${seed}`);
    const { github, replicas, write } = await prepare(names);
    const other = await fakeGithub({ secret: SECRET, target: undefined });
    onTestFinished(() => other.close());
    const startAll = () => Promise.all(replicas.map((replica) => replica.start()));
    const killAll = () => Promise.all(replicas.map((replica) => replica.kill()));
    const killSome = async (log: FakeGithub, kills: number, most: number) => {
      for (let kill = 0; kill < kills; kill += 1) {
        await startAll();
        await asked(log, 1 + below(most));
        await pick(replicas).kill();
      }
    };
    await startAll();
    await asked(github, 1);
    await killAll();
    for (let n = 0; n < SPOILT; n += 1) {
      const { id } = await github.deliver({ n });
      const times = n < NEVER ? 1 : below(4);
      const bad = Array.from({ length: times }, () => pick(BAD));
      if (times > 0) github.spoilt.set(id, n < NEVER ? bad : [...bad, {}]);
    }
    await killSome(github, 4, 30);
    const [service] = (await startAll()) as [Service, ...Service[]];
    await eventually(
      () => runsOf(service),
      ({ length }) => length >= SPOILT - NEVER,
    );
    await asked(github, 3);
    expect(await getJson(`${service.url}/flows/api/books`)).toMatchObject({ runs: SPOILT - NEVER, givenUp: 0 });
    await killAll();
    await write(other.baseUrl);
    await killSome(other, 3, 2);
    const [last] = (await startAll()) as [Service, ...Service[]];
    const books = () => getJson<{ givenUp: number }>(`${last.url}/flows/api/books`);
    await eventually(books, ({ givenUp }) => givenUp >= NEVER);
    await asked(other, 3);
    const runs = SPOILT - NEVER;
    expect(await books()).toMatchObject({ accepted: runs, runs, reconciled: runs, givenUp: NEVER, unaccounted: 0 });
    const records = await getJson<Kept[]>(`${last.url}/flows/api/webhooks/recent?take=500`);
    const givenUp = records.filter(({ outcome }) => outcome === 'givenUp');
    expect(records).toHaveLength(SPOILT);
    const guids = github.sent.slice(0, NEVER).map(({ guid }) => guid);
    expect(guids.map((guid) => givenUp.filter(({ detail }) => detail?.includes(guid)).length)).toEqual(
      guids.map(() => 1),
    );
  },
);
