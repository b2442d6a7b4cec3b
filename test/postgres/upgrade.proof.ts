import { afterAll, beforeAll, expect, test } from 'vitest';
import { NEXT_VERSION, nextRelease, PRESENT, twoReleases } from '../e2e/releases.ts';
import { eventually, getJson } from '../e2e/service.ts';
import { createCluster, type Replica } from './cluster.ts';
import { runSql } from './schemas.ts';
import { type OwnPostgres, startPostgres } from './server.ts';
import { TORTURE_SECONDS, torture } from './torture.ts';

const { earlier, later } = twoReleases();
const outgrowing = nextRelease('contract');

let server: OwnPostgres;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

const versionsOf = async ({ service }: Replica) =>
  (await getJson<{ version: string }[]>(`${service?.url}/flows/api/replicas`)).map(({ version }) => version);

test('replicas that are replaced one by one, by a later release and back, refuse, lose and double nothing', async () => {
  const { refused } = await torture({
    url: server.url,
    seconds: TORTURE_SECONDS,
    // Deliveries sent before a stop are still taken.
    cluster: { build: earlier, env: { SLUICE_DRAIN_SECONDS: '1' } },
    async hurt({ replicas }) {
      const [first] = replicas as [Replica];
      const [before] = await versionsOf(first);
      for (const build of [later, earlier]) {
        for (const replica of replicas) {
          await replica.stop('SIGTERM');
          await replica.start(build);
        }
        const isWhole = (versions: string[]) => versions.length === 2 && new Set(versions).size === 1;
        const [version] = await eventually(() => versionsOf(first), isWhole);
        if (process.env.TEST_UPGRADE_FROM === undefined) expect(version === before).toBe(build === earlier);
      }
    },
  });
  expect(refused).toBe(0);
});

test('a release that the database has outgrown is not ready and says why, takes no steps, and starts no more', async () => {
  const cluster = await createCluster(server.url, { size: 3, env: { SLUICE_LOG_LEVEL: 'debug' } });
  const { schema, replicas } = cluster;
  const [one, two, next] = replicas as [Replica, Replica, Replica];
  await Promise.all([one.start(PRESENT), two.start(PRESENT)]);
  await next.start(outgrowing);
  const needs = /has schema version (\d+), which needs a release that knows version \1; this one knows \d+/;
  for (const { service } of [one, two]) {
    const ask = () => fetch(`${service?.url}/health/ready`);
    const answer = await eventually(ask, ({ status }) => status === 503);
    expect(await answer.json()).toMatchObject({ reason: 'schema_outgrown', message: expect.stringMatching(needs) });
    expect((await fetch(`${service?.url}/health/live`)).status).toBe(200);
    await eventually(
      () => service?.output() ?? '',
      (text) => needs.test(text),
    );
  }
  expect((await fetch(`${next.service?.url}/health/ready`)).status).toBe(200);
  expect(await versionsOf(next)).toContain(NEXT_VERSION);
  const publishers = cluster.publish();
  await eventually(
    async () => publishers.taken.length,
    (taken) => taken > 30,
  );
  await publishers.stop();
  const running = () =>
    runSql(`SELECT count(*)::integer AS count FROM "${schema}".runs WHERE status = 'Running'`, [], server.url);
  await eventually(running, ([row]) => row?.count === 0);
  const steps = replicas.map(({ service }) => service?.output().includes('StepStarted'));
  expect(steps).toEqual([false, false, true]);
  await one.stop('SIGTERM');
  await expect(one.start(PRESENT)).rejects.toThrow(needs);
});

const STARTS = 20;

test(`two replicas start at once on an empty database and on one of an earlier release, ${STARTS} times`, async () => {
  for (let round = 1; round <= STARTS; round += 1) {
    const { schema, replicas } = await createCluster(server.url, { size: 2 });
    const rows = async (columns: string, table: string) =>
      (await runSql(`SELECT ${columns} AS value FROM "${schema}".${table} ORDER BY 1`, [], server.url)).map(
        ({ value }) => value,
      );
    const versions: unknown[][] = [];
    for (const build of [earlier, later]) {
      await Promise.all(replicas.map((replica) => replica.start(build)));
      versions.push(await rows('version', 'schema_migrations'));
      expect(await rows('revision', 'revisions')).toEqual([1]);
      await Promise.all(replicas.map((replica) => replica.stop('SIGKILL')));
    }
    const [before = [], after = []] = versions;
    expect(after.slice(0, before.length)).toEqual(before);
    if (process.env.TEST_UPGRADE_FROM === undefined) expect(after).toHaveLength(before.length + 1);
  }
});
