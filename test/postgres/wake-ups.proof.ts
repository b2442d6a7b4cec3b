import { randomUUID } from 'node:crypto';
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest';
import { z } from 'zod';
import { defineHandler } from '../../src/flows/handlers/handler.ts';
import { openPostgresStore } from '../../src/store/postgres/client.ts';
import { migrate } from '../../src/store/postgres/migrate.ts';
import { workerSchemaOf } from '../../src/store/postgres/sql.ts';
import { WakeUps, withoutConsole } from '../../src/store/postgres/wake-ups.ts';
import type { Store, Wakeable } from '../../src/store/store.ts';
import { eventually, until } from '../eventually.ts';
import { openFlowService, START, stepOf } from '../flows/fixture.ts';
import { graphOf, startRun, T0 } from '../store/samples.ts';
import { newSchema, openReplicas, openStore, runSql, storeOptions } from './schemas.ts';

const beat = {
  version: '1.0',
  startedAt: T0,
  clockOffsetMs: 0,
  fingerprint: null,
  judgesOthers: true,
  ledgerAt: T0,
  now: T0,
};

/** Two stores on one schema, a function that makes a step due at the first, and questions about their jobs. */
async function twoStores() {
  const { schema, stores } = await openReplicas(['one', 'two']);
  const [one, two] = stores as [Store, Store];
  const jobs = `"${workerSchemaOf(schema)}"._private_jobs`;
  return {
    schema,
    one,
    two,
    jobs,
    makeDue: () => startRun(one, graphOf({ a: [] }), { id: randomUUID() }),
    listJobs: () =>
      runSql(`SELECT key, locked_by AS "lockedBy", is_available AS "isAvailable" FROM ${jobs} ORDER BY id`),
  };
}

/** Answers each wake-up with `answer`; `woken` resolves at the first. */
function wakeableOf(answer: () => boolean | Promise<boolean> = () => true) {
  let tell = () => {};
  let count = 0;
  const woken = new Promise<void>((resolve) => {
    tell = resolve;
  });
  const wakeable: Wakeable = {
    hasSlot: () => Promise.resolve(),
    async wake() {
      count += 1;
      tell();
      return answer();
    },
    everyMinute: () => {},
  };
  return { ...wakeable, woken, count: () => count };
}

const noneLeft = ({ length }: readonly unknown[]) => length === 0;

describe('a step that falls due', () => {
  test('on a replica without a free slot is run by one with, before the next beat', async () => {
    const { schema, stores } = await openReplicas(['one', 'two']);
    const [first, second] = stores as [Store, Store];
    const alone = async () => ({ at: START, ledgerAt: START, replicas: 1, died: [] });
    const hanging: (() => void)[] = [];
    const handler = (hangs: boolean) =>
      defineHandler({
        type: 'Count',
        inputs: z.unknown(),
        run: async () => {
          if (hangs) await new Promise<void>((resolve) => hanging.push(resolve));
          return { kind: 'succeeded', output: null };
        },
      });
    const one = await openFlowService({ store: { ...first, beat: alone }, own: [handler(true)], concurrency: 1 });
    const two = await openFlowService({ store: { ...second, beat: alone }, own: [handler(false)], concurrency: 1 });
    for (const each of [one, two]) await each.deploy({ a: stepOf('Count') });
    await one.runtime.start();
    await one.trigger();
    await until(() => hanging.length === 1);
    await two.runtime.start();
    const runIds = await Promise.all(Array.from({ length: 5 }, () => one.trigger()));
    for (const runId of runIds) expect((await two.ended(runId)).status).toBe('Succeeded');
    const owners = await runSql(
      `SELECT DISTINCT lease_owner AS owner FROM "${schema}".steps WHERE status = 'Succeeded'`,
    );
    expect(owners).toEqual([{ owner: 'two' }]);
    for (const release of hanging) release();
  });

  test('wakes a replica with a free slot, and never one without', async () => {
    const { one, two, makeDue, listJobs } = await twoStores();
    const other = wakeableOf();
    const full = { ...wakeableOf(() => false), hasSlot: () => new Promise<void>(() => {}) };
    one.onDue(full);
    two.onDue(other);
    for (let count = 1; count <= 8; count += 1) {
      await makeDue();
      await until(() => other.count() >= count);
      await eventually(listJobs, noneLeft);
    }
    expect(full.count()).toBe(0);
  });

  test('later wakes one when it is time, and not before', async () => {
    const { schema, two, makeDue } = await twoStores();
    await makeDue();
    const other = wakeableOf();
    two.onDue(other);
    await other.woken;
    const later = wakeableOf();
    const third = await openStore({ schema, replica: 'three' });
    onTestFinished(() => third.close());
    await two.close();
    third.onDue(later);
    // The engine uses the database's clock, which tests cannot set.
    const dueAt = Date.now() + 700;
    await runSql(`UPDATE "${schema}".steps SET due_at = $1`, [dueAt]);
    await later.woken;
    expect(Date.now()).toBeGreaterThanOrEqual(dueAt);
  });

  test('makes few jobs, however many there are', async () => {
    const { makeDue, listJobs } = await twoStores();
    for (let n = 0; n < 20; n += 1) await makeDue();
    // One for each connection that accepts.
    expect((await listJobs()).length).toBeLessThanOrEqual(2);
  });

  test('and is leased at birth makes none; nor does any where one process has the database', async () => {
    const { one, two, makeDue, listJobs } = await twoStores();
    const lease = { holder: 'one/x', leasedUntil: T0 + 60_000, limit: 9 };
    await startRun({ ...one, accept: (acceptance) => one.accept(acceptance, lease) }, graphOf({ a: [] }), {
      id: randomUUID(),
    });
    await two.close();
    await makeDue();
    expect(await listJobs()).toEqual([]);
  });

  test('wakes a second one where the first could not take all', async () => {
    const { one, two, makeDue } = await twoStores();
    let isFull = false;
    const first = wakeableOf(() => {
      isFull = true;
      return false;
    });
    one.onDue({ ...first, hasSlot: () => (isFull ? new Promise(() => {}) : Promise.resolve()) });
    await makeDue();
    await first.woken;
    const second = wakeableOf();
    two.onDue(second);
    await second.woken;
  });
});

describe('wake-ups', () => {
  test('that a closing store has taken go to the others', async () => {
    const { one, two, makeDue } = await twoStores();
    let answer = (_isAll: boolean) => {};
    const first = wakeableOf(
      () =>
        new Promise((resolve) => {
          answer = resolve;
        }),
    );
    one.onDue(first);
    await makeDue();
    await first.woken;
    const closing = one.close();
    answer(false);
    await closing;
    const second = wakeableOf();
    two.onDue(second);
    await second.woken;
  });

  // `false` asks to wake another replica, which fails by then, so the job must be tried again.
  test.each([true, false])('go on after what they are answered with was away, and end nothing: %s', async (answer) => {
    const { schema, makeDue, listJobs } = await twoStores();
    const name = workerSchemaOf(schema);
    const lines: string[] = [];
    const three = await openStore({ schema, replica: 'three', onEngineLine: (line) => lines.push(line) });
    onTestFinished(() => three.close());
    let isLost = true;
    const other = wakeableOf(async () => {
      if (!isLost) return true;
      await runSql(`ALTER SCHEMA "${name}" RENAME TO "${name}_away"`);
      isLost = false;
      return answer;
    });
    three.onDue(other);
    await makeDue();
    // The answer failed; without a listener, the error would end the process.
    await eventually(
      () => lines,
      (told) => told.some((line) => line.startsWith('the engine ended')),
    );
    await runSql(`ALTER SCHEMA "${name}_away" RENAME TO "${name}"`);
    await eventually(listJobs, noneLeft);
    await makeDue();
    await until(() => other.count() > 1);
  });

  test('go on after every connection was cut', async () => {
    const { schema } = await twoStores();
    const applicationName = `cut-${schema}`.slice(0, 50);
    const three = await openStore({ schema, replica: 'three', applicationName });
    onTestFinished(() => three.close());
    const other = wakeableOf();
    three.onDue(other);
    await startRun(three, graphOf({ a: [] }), { id: randomUUID() });
    await other.woken;
    await runSql('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1', [
      `${applicationName}/jobs`,
    ]);
    const before = other.count();
    await startRun(three, graphOf({ a: [] }), { id: randomUUID() });
    await until(() => other.count() > before);
  });

  test('come over other connections after they were made again', async () => {
    const { schema, makeDue } = await twoStores();
    const applicationName = `moved-${schema}`.slice(0, 50);
    const wakeUps = new WakeUps({ url: inject('postgresUrl'), schema, applicationName });
    const other = wakeableOf();
    wakeUps.start(other);
    onTestFinished(() => wakeUps.close());
    await makeDue();
    await other.woken;
    const query = 'SELECT pid FROM pg_stat_activity WHERE application_name = $1';
    const connections = async () => (await runSql(query, [`${applicationName}/jobs`])).map(({ pid }) => pid);
    const former = await connections();
    wakeUps.reconnect();
    await eventually(connections, (pids) => pids.length > 0 && !pids.some((pid) => former.includes(pid)));
    const before = other.count();
    await makeDue();
    await until(() => other.count() > before);
  });

  test('begin as soon as the database is there', async () => {
    const { schema, makeDue } = await twoStores();
    const target = new URL(inject('postgresUrl'));
    const sockets = new Set<Socket>();
    const proxy = createServer((socket) => {
      const onward = connect(Number(target.port), target.hostname);
      for (const each of [socket, onward]) sockets.add(each.on('error', () => {}));
      socket.pipe(onward).pipe(socket);
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    const { port } = proxy.address() as { port: number };
    await new Promise((resolve) => proxy.close(resolve));
    const url = new URL(target);
    url.port = String(port);
    const lines: string[] = [];
    const onLine = (line: string) => lines.push(line);
    const wakeUps = new WakeUps({ url: url.href, schema, applicationName: 'sluice/test', onLine });
    const other = wakeableOf();
    wakeUps.start(other);
    await makeDue();
    await eventually(
      () => lines,
      (told) => told.some((line) => line.includes('ECONNREFUSED')),
    );
    await new Promise<void>((resolve) => proxy.listen(port, '127.0.0.1', resolve));
    await other.woken;
    await wakeUps.close();
    for (const socket of sockets) socket.destroy();
    proxy.close();
  });

  test('that a dead replica had taken are free when it is buried', async () => {
    const { schema, two, jobs, makeDue, listJobs } = await twoStores();
    await makeDue();
    await runSql(`UPDATE ${jobs} SET locked_at = now() - interval '11 s', locked_by = 'dead'`);
    // A job that was replaced while locked would never be taken.
    await runSql(
      `INSERT INTO ${jobs} (task_id, attempts, locked_at, locked_by)
      SELECT task_id, max_attempts, locked_at, locked_by FROM ${jobs}`,
    );
    await runSql(`UPDATE "${schema}".replicas SET seen_at = seen_at - 16000 WHERE name = 'one'`);
    await two.beat(beat);
    expect(await listJobs()).toEqual([{ key: expect.stringMatching(/^now:/), lockedBy: null, isAvailable: true }]);
  });

  test('are made by housekeeping for steps that are overdue by 30 s, unless they are so far behind themselves', async () => {
    const { one, jobs, makeDue, listJobs } = await twoStores();
    await makeDue();
    const tidy = (now: number) => one.beginHousekeeping({ everyMs: 0, now });
    await tidy(T0 + 60_000);
    const first = await listJobs();
    expect(first).toMatchObject([{ key: expect.stringMatching(/^now:/) }, { key: 'overdue' }]);
    await runSql(`UPDATE ${jobs} SET run_at = now() - interval '31 s', key = 'old'  WHERE key LIKE 'now:%'`);
    await runSql(`DELETE FROM ${jobs} WHERE key = 'overdue'`);
    await tidy(T0 + 60_000);
    expect(await listJobs()).toMatchObject([{ key: 'old' }]);
    await runSql(`DELETE FROM ${jobs}`);
    await tidy(T0 + 29_000);
    expect(await listJobs()).toEqual([]);
  });

  test('that cannot be made cost no acceptance', async () => {
    const { schema, one, makeDue } = await twoStores();
    await makeDue();
    await runSql(`DROP SCHEMA "${workerSchemaOf(schema)}" CASCADE`);
    const runId = await makeDue();
    expect((await one.findRun(runId))?.status).toBe('Running');
  });

  test('cost no housekeeping where they are gone', async () => {
    const { schema, one, makeDue } = await twoStores();
    await makeDue();
    await runSql(`DROP SCHEMA "${workerSchemaOf(schema)}" CASCADE`);
    expect(await one.beginHousekeeping({ everyMs: 0, now: T0 + 60_000 })).toBe(true);
  });

  test('never run out of numbers', async () => {
    const { schema, makeDue } = await twoStores();
    const sequence = `pg_get_serial_sequence('"${workerSchemaOf(schema)}"._private_tasks', 'id')`;
    await runSql(`SELECT setval(${sequence}, 2147483647)`);
    for (let n = 0; n < 3; n += 1) await makeDue();
  });

  test('leave the signals of the process alone', async () => {
    const { two, makeDue } = await twoStores();
    const before = process.listenerCount('SIGTERM');
    const other = wakeableOf();
    two.onDue(other);
    await makeDue();
    await other.woken;
    expect(process.listenerCount('SIGTERM')).toBe(before);
  });

  test('reach a role that may only change rows', async () => {
    const schema = newSchema();
    const role = `wake_${schema.slice(-12)}`;
    await runSql(`CREATE ROLE "${role}" LOGIN PASSWORD 'service'`);
    onTestFinished(async () => {
      await runSql(`DROP OWNED BY "${role}"; DROP ROLE "${role}"`);
    });
    await migrate({ url: inject('postgresUrl'), schema, grantTo: role });
    const url = new URL(inject('postgresUrl'));
    [url.username, url.password] = [role, 'service'];
    const open = (replica: string) => openPostgresStore({ ...storeOptions(schema), url: url.href, replica });
    const [one, two] = [await open('one'), await open('two')];
    const other = wakeableOf();
    two.onDue(other);
    await startRun(one as unknown as Store, graphOf({ a: [] }), { id: randomUUID() });
    await other.woken;
    await Promise.all([one.close(), two.close()]);
  });
});

describe('a minute that is over', () => {
  test('is counted once for all processes, and told to one', async () => {
    const { schema, one, two } = await twoStores();
    let told = 0;
    for (const store of [one, two]) {
      store.onDue({
        ...wakeableOf(),
        everyMinute: () => {
          told += 1;
        },
      });
    }
    const worker = workerSchemaOf(schema);
    const known = () => runSql(`SELECT identifier FROM "${worker}"._private_known_crontabs`);
    expect(await eventually(known, ({ length }) => length > 0)).toEqual([{ identifier: 'minute' }]);
    // As the engine's cron adds it.
    await runSql(`SELECT "${worker}".add_job('minute', job_key => 'minute')`);
    await until(() => told > 0);
    await eventually(() => runSql(`SELECT * FROM "${worker}".jobs`), noneLeft);
  });

  test('has one process begin its housekeeping, and again only when its time is over', async () => {
    const { schema, stores } = await openReplicas(['one', 'two', 'three']);
    const begin = async (everyMs: number) =>
      (await Promise.all(stores.map((store) => store.beginHousekeeping({ everyMs, now: T0 })))).filter(Boolean).length;
    expect(await begin(30_000)).toBe(1);
    expect(await begin(30_000)).toBe(0);
    await runSql(`UPDATE "${schema}".housekeeping SET began_at = began_at - interval '31 s'`);
    expect(await begin(300_000)).toBe(0);
    expect(await begin(30_000)).toBe(1);
  });
});

test('what the engine prints past its logger is taken, also later, and what others print is not', async () => {
  const printed = vi.spyOn(console, 'error').mockImplementation(() => {});
  onTestFinished(() => printed.mockRestore());
  const lines: string[] = [];
  await withoutConsole(
    (line) => lines.push(line),
    async () => {
      console.error('attempt %d failed', 1);
      await wait(0);
      console.error('attempt 2 failed');
    },
  );
  console.error('of another');
  expect(lines).toEqual(['attempt 1 failed', 'attempt 2 failed']);
  expect(printed.mock.calls).toEqual([['of another']]);
});

test('what is printed while the engine runs, as it prints itself, is a line of the store', async () => {
  const printed = vi.spyOn(console, 'error').mockImplementation(() => {});
  onTestFinished(() => printed.mockRestore());
  const lines: string[] = [];
  const store = await openStore({ schema: newSchema(), onEngineLine: (line) => lines.push(line) });
  onTestFinished(() => store.close());
  // The engine asks for a slot before it takes a job.
  const hasSlot = async () => console.error('as the engine prints');
  store.onDue({ ...wakeableOf(), hasSlot });
  await eventually(
    () => lines,
    (told) => told.includes('as the engine prints'),
  );
  expect(printed).not.toHaveBeenCalled();
});

test('each schema has jobs of its own, however long its name', () => {
  expect(workerSchemaOf('sluice')).toBe('graphile_worker');
  expect(workerSchemaOf('other')).toBe('other_worker');
  const long = 'x'.repeat(63);
  expect(workerSchemaOf(long)).toHaveLength(40);
  expect(workerSchemaOf(long)).not.toBe(workerSchemaOf(`${long.slice(1)}y`));
});
