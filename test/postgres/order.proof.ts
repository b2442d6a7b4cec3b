import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { chanceOf } from '../chance.ts';
import { eventually } from '../e2e/service.ts';
import { createCluster, isTaken } from './cluster.ts';
import { runSql } from './schemas.ts';
import { type OwnPostgres, startPostgres } from './server.ts';

let server: OwnPostgres;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

const KEYS = 50;
const EVENTS_OF_KEY = 20;

interface Call {
  readonly key: string;
  readonly n: number;
  readonly at: 'enter' | 'leave';
}

/** A service that the steps call; records the callers in the order of the calls. */
async function watchCalls() {
  const calls: Call[] = [];
  const watcher = createServer((request, response) => {
    void json(request).then((call) => {
      calls.push(call as Call);
      response.end('{}');
    });
  }).listen(0, '127.0.0.1');
  await once(watcher, 'listening');
  onTestFinished(() => {
    watcher.closeAllConnections();
    watcher.close();
  });
  return { calls, url: `http://127.0.0.1:${(watcher.address() as AddressInfo).port}/` };
}

test('1000 events of 50 keys run one at a time in order, through kills of three replicas', async () => {
  const kill = chanceOf('kills of replicas with keys in order');
  const choose = chanceOf('replicas that events are sent to');
  const { calls, url } = await watchCalls();
  const call = (at: Call['at'], after?: string) => ({
    type: 'HttpRequest',
    inputs: { url, method: 'POST', body: { key: `\${trigger.body.key}`, n: `\${trigger.body.n}`, at } },
    ...(after !== undefined && { runAfter: { [after]: ['Succeeded'] } }),
  });
  const steps = {
    enter: call('enter'),
    pause: { type: 'Delay', inputs: { seconds: 0.02 }, runAfter: { enter: ['Succeeded'] } },
    leave: call('leave', 'pause'),
  };
  const cluster = await createCluster(server.url, {
    size: 3,
    steps,
    flow: { serialize: 'trigger.body.key' },
    env: { SLUICE_EGRESS_ALLOW: '127.0.0.1' },
  });
  await Promise.all(cluster.replicas.map((replica) => replica.start()));
  const ask = (text: string) => runSql(text.replaceAll('sluice.', `"${cluster.schema}".`), [], server.url);

  let isDone = false;
  let kills = 0;
  const killing = (async () => {
    while (!isDone) {
      await wait(300 + kill.next() * 2000);
      const replica = kill.pick(cluster.replicas);
      await replica.stop('SIGKILL');
      kills += 1;
      await replica.start();
    }
  })();
  // Sends a key's next event after the previous one is committed, so that this is the order of arrival.
  await Promise.all(
    Array.from({ length: KEYS }, async (_, index) => {
      for (let n = 1; n <= EVENTS_OF_KEY; n += 1) {
        const key = `key ${index}`;
        await eventually(
          () => isTaken(choose.pick(cluster.replicas).service, `${key}/${n}`, { key, n }),
          (answer) => answer,
          { seconds: 120, because: 'one replica after the other is away' },
        );
      }
    }),
  );
  await eventually(
    () => ask("SELECT count(*)::integer AS count FROM sluice.runs WHERE status = 'Running'"),
    ([row]) => row?.count === 0,
    { seconds: 120, because: 'replicas are still killed, and runs of one key end one after the other' },
  );
  isDone = true;
  await killing;

  const runs = await ask('SELECT count(*)::integer AS count FROM sluice.runs');
  expect(runs).toEqual([{ count: KEYS * EVENTS_OF_KEY }]);
  expect(await ask('SELECT count(*)::integer AS count FROM sluice.ordered_runs WHERE state IS NOT NULL')).toEqual([
    { count: 0 },
  ]);
  const failed = (await ask(`
    SELECT r.id FROM sluice.runs r WHERE r.status <> 'Succeeded' AND NOT EXISTS (
      SELECT FROM sluice.steps s WHERE s.run_id = r.id AND s.error LIKE '%interrupted_too_often%')`)) as unknown[];
  expect(failed, 'runs that ended otherwise').toEqual([]);
  for (let index = 0; index < KEYS; index += 1) {
    const own = calls.filter(({ key }) => key === `key ${index}`).map(({ n }) => n);
    expect(new Set(own).size, `events of key ${index} that began`).toBe(EVENTS_OF_KEY);
    expect(own, `the calls of key ${index}`).toEqual([...own].sort((a, b) => a - b));
  }
  console.info(`${kills} kills, ${calls.length} calls`);
  expect(kills).toBeGreaterThan(0);
});
