import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { openPostgresStore } from '../../src/store/postgres/client.ts';
import { eventually } from '../e2e/service.ts';
import { id } from '../store/samples.ts';
import { createCluster, type Replica } from './cluster.ts';
import { dropSchema } from './schemas.ts';
import { type OwnPostgres, startPostgres } from './server.ts';
import { torture } from './torture.ts';

let server: OwnPostgres;
beforeAll(async () => {
  server = await startPostgres();
}, 60_000);
afterAll(() => server.stop(), 60_000);

async function status(replica: Replica, path: string): Promise<number> {
  const response = await fetch(`${replica.service?.url}${path}`);
  await response.arrayBuffer();
  return response.status;
}

const FINDS_OUT = { seconds: 30, because: 'a database that says nothing is away after several seconds' };

const READY = '/health/ready';

/** The messages of the log (warnings and worse) in order. */
function logOf(replica: Replica): string[] {
  const lines = (replica.service?.output() ?? '').split('\n');
  return lines.filter((line) => line.startsWith('{')).map((line) => (JSON.parse(line) as { msg: string }).msg);
}

describe.each([
  ['gone', () => server.kill(), () => server.start()],
  ['silent', async () => server.pause(), async () => server.resume()],
] as const)('while PostgreSQL is %s', (_how, hurt, heal) => {
  test('a replica lives, is not ready, and goes on by itself', { timeout: 60_000 }, async () => {
    const cluster = await createCluster(server.url, { size: 1 });
    onTestFinished(heal);
    const [replica] = cluster.replicas as [Replica];
    await replica.start();
    const publishers = cluster.publish();
    const takes = async (more: number) => {
      const { length } = publishers.taken;
      await eventually(
        async () => publishers.taken.length,
        (now) => now >= length + more,
        FINDS_OUT,
      );
    };
    await takes(20);
    await hurt();
    await eventually(
      () => status(replica, READY),
      (code) => code === 503,
      FINDS_OUT,
    );
    // From here on answers come at once: no request waits for the database again.
    const answers = Array.from({ length: 50 }, () => status(replica, '/flows/api/runs'));
    expect(new Set(await Promise.all(answers))).toEqual(new Set([503]));
    expect(await status(replica, '/health/live')).toBe(200);
    await heal();
    await eventually(
      () => status(replica, READY),
      (code) => code === 200,
      FINDS_OUT,
    );
    await takes(20);
    await publishers.stop();
    const tellsOfIt = (line: string) => /database|trying again/.test(line);
    expect(logOf(replica).filter(tellsOfIt)).toEqual([
      'the database is unavailable; deliveries get 503 until it is back',
      'the database is back',
    ]);
  });
});

test('a database that is killed or hangs loses nothing and doubles nothing', { timeout: 90_000 }, async () => {
  let turn = 0;
  await torture({
    url: server.url,
    seconds: 2,
    async hurt() {
      turn += 1;
      if (turn % 2 === 1) await server.kill();
      else server.pause();
      await new Promise((healed) => setTimeout(healed, 500));
      if (turn % 2 === 1) await server.start();
      else server.resume();
    },
  });
});

test('a store closes and a start gives up while the database hangs', async () => {
  const schema = `hanging_${randomUUID().replaceAll('-', '')}`;
  const open = (replica: string) =>
    openPostgresStore({ url: server.url, schema, isPrepared: true, applicationName: 'sluice/test', replica });
  const stores = await Promise.all(['one', 'two'].map(open));
  for (const store of stores) {
    void store.changes[Symbol.asyncIterator]().next();
    store.onDue({ hasSlot: async () => {}, wake: async () => true, everyMinute: () => {} });
    await store.ping();
  }
  onTestFinished(async () => {
    server.resume();
    await dropSchema(schema, server.url);
  });
  server.pause();
  await expect(open('three')).rejects.toThrow('timeout expired');
  await Promise.all(stores.map((store) => store.close()));
});

test('a read that hangs alone is refused as writes are, long before its statement may end', async () => {
  const schema = `reading_${randomUUID().replaceAll('-', '')}`;
  const store = await openPostgresStore({ url: server.url, schema, isPrepared: true, applicationName: 'sluice/test' });
  onTestFinished(async () => {
    server.resume();
    await store.close();
    await dropSchema(schema, server.url);
  });
  expect(await store.findRun(id(1))).toBeUndefined();
  server.pause();
  // The probe's error; the statement itself would fail with another one, after 31 s.
  await expect(store.findRun(id(1))).rejects.toThrow('timeout expired');
});
