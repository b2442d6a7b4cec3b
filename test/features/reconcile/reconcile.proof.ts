import { randomUUID } from 'node:crypto';
import { expect, inject, onTestFinished, test } from 'vitest';
import { chanceOf } from '../../chance.ts';
import { createWorkspace, eventually, getJson, type Service, startService, type Workspace } from '../../e2e/service.ts';
import { dropSchema } from '../../postgres/schemas.ts';
import { type FakeGithub, fakeGithub, type SpoiltAnswer } from './github.ts';
import { manifestOf, SECRET } from './reconciling.ts';

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

async function prepare(names: readonly string[]) {
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
  await workspace.writeManifest('shop.json', manifestOf(github.baseUrl));
  const write = (baseUrl: string) => workspace.writeManifest('shop.json', manifestOf(baseUrl));
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

const runsOf = ({ url }: Service) => getJson<object[]>(`${url}/flows/api/runs?take=500`);

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
