import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { LEASE_MS } from '../../src/flows/leases.ts';
import { workerSchemaOf } from '../../src/store/postgres/sql.ts';
import { eventually, type Service } from '../e2e/service.ts';
import { createCluster, type Replica } from './cluster.ts';
import { runSql } from './schemas.ts';
import { type OwnPostgres, startPostgres } from './server.ts';
import { killInTurn, TORTURE_SECONDS, torture } from './torture.ts';

let server: OwnPostgres;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

/** With one slot, most steps are leased while another step holds it, and wait in line. */
const SLOTS = [64, 1];

test.each(SLOTS)(
  'a replica of %i slots that is paused for longer than a lease loses and doubles nothing',
  async (slots) => {
    let turn = 0;
    await torture({
      url: server.url,
      seconds: TORTURE_SECONDS,
      cluster: { env: { SLUICE_STEP_CONCURRENCY: String(slots) } },
      async hurt({ replicas }) {
        turn += 1;
        const { child } = (replicas[turn % replicas.length] as Replica).service ?? {};
        onTestFinished(() => void child?.kill('SIGCONT'));
        child?.kill('SIGSTOP');
        await wait(LEASE_MS + 5000);
        child?.kill('SIGCONT');
        await wait(5000);
      },
    });
  },
);

test.each(SLOTS)(
  'a replica of %i slots that is killed again and again loses nothing and doubles nothing',
  async (slots) => {
    await torture({
      url: server.url,
      seconds: TORTURE_SECONDS,
      cluster: { env: { SLUICE_STEP_CONCURRENCY: String(slots) } },
      hurt: killInTurn(),
    });
  },
);

test('a database that is killed again and again loses nothing and doubles nothing', async () => {
  await torture({
    url: server.url,
    seconds: TORTURE_SECONDS,
    async hurt() {
      await server.kill();
      await wait(1000);
      await server.start();
      await wait(2000);
    },
  });
});

test('a database that hangs, for moments and for longer than a replica may be silent, doubles nothing', async () => {
  let turn = 0;
  await torture({
    url: server.url,
    seconds: TORTURE_SECONDS,
    async hurt({ replicas }) {
      turn += 1;
      server.pause();
      await wait(turn % 2 === 1 ? 3000 : 20_000);
      server.resume();
      await wait(7000);
      for (const { service } of replicas) expect(service?.output()).not.toContain('a replica died');
    },
  });
});

test('wake-ups that are all deleted again and again lose nothing and double nothing', async () => {
  await torture({
    url: server.url,
    seconds: TORTURE_SECONDS,
    async hurt({ schema }) {
      await runSql(`DELETE FROM "${workerSchemaOf(schema)}"._private_jobs`, [], server.url);
    },
  });
});

test('a replica that stops is not ready first, and accepts until a balancer has had the time to see it', async () => {
  const cluster = await createCluster(server.url, { size: 2, env: { SLUICE_DRAIN_SECONDS: '60' } });
  await Promise.all(cluster.replicas.map((replica) => replica.start()));
  const publishers = cluster.publish();
  const [stopping] = cluster.replicas as [Replica];
  const { child, url } = stopping.service as Service;
  child.kill('SIGTERM');
  const ready = await eventually(
    () => fetch(`${url}/health/ready`),
    ({ status }) => status === 503,
  );
  expect(await ready.json()).toMatchObject({ reason: 'stopping' });
  const { length } = publishers.taken;
  await eventually(
    async () => publishers.taken.length,
    (taken) => taken > length + 40,
  );
  // Publishers send to both in turn.
  expect(publishers.refused).toBe(0);
  await publishers.stop();
});

test('a replica that hung, and whose name another one has by now, ends when it wakes; two that live do not share one', async () => {
  const cluster = await createCluster(server.url, { size: 3, names: ['one', 'two', 'two'] });
  const [one, hung, successor] = cluster.replicas as [Replica, Replica, Replica];
  await Promise.all([one.start(), hung.start()]);
  await expect(successor.start()).rejects.toThrow('give each replica its own SLUICE_REPLICA_NAME');
  const { child, output } = hung.service as Service;
  const ended = once(child, 'close');
  child.kill('SIGSTOP');
  onTestFinished(() => void child.kill('SIGCONT'));
  await successor.start();
  child.kill('SIGCONT');
  expect(await ended).toEqual([1, null]);
  expect(output()).toContain('NameTakenError');
  // After a crash the name is free at once.
  await successor.stop('SIGKILL');
  await successor.start();
  const publishers = cluster.publish();
  await eventually(
    async () => publishers.taken.length,
    (taken) => taken > 20,
  );
  await publishers.stop();
});
