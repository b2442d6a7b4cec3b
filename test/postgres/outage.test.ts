import { randomUUID } from 'node:crypto';
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import { openPostgresStore } from '../../src/store/postgres/client.ts';
import { createConnections } from '../../src/store/postgres/connections.ts';
import { losesConnection, Outage } from '../../src/store/postgres/outage.ts';
import type { Sql } from '../../src/store/postgres/sql.ts';
import { eventually } from '../e2e/service.ts';
import { acceptanceOf } from '../store/samples.ts';
import { runSql, storeOptions } from './schemas.ts';

/** A separate database for a test that changes its settings. */
async function newDatabase(): Promise<{ name: string; url: string }> {
  const name = `unwritable_${randomUUID().replaceAll('-', '')}`;
  await runSql(`CREATE DATABASE ${name}`);
  onTestFinished(async () => void (await runSql(`DROP DATABASE ${name} WITH (FORCE)`)));
  const url = new URL(inject('postgresUrl'));
  url.pathname = name;
  return { name, url: url.href };
}

const endSessions = (name: string) =>
  runSql('SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1', [name]);

test('a store writes again, and wakes others again, after an episode in which every session was read-only', async () => {
  const { name, url } = await newDatabase();
  const [onAway, onBack, wake] = [vi.fn(), vi.fn(), vi.fn(async () => true)];
  const store = await openPostgresStore({ ...storeOptions('sluice'), url, onAway, onBack });
  onTestFinished(() => store.close());
  store.onDue({ hasSlot: async () => {}, wake, everyMinute: () => {} });
  // Adds the job that the trigger of a due step adds while other replicas live.
  const addJob = () => runSql("SELECT graphile_worker.add_job('step', '{\"v\": 1}')", [], url);
  await addJob();
  await eventually(
    async () => wake.mock.calls.length,
    (count) => count > 0,
  );
  // As a fail-over or an operator that stops writes: new sessions cannot write.
  await runSql(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
  await endSessions(name);
  await eventually(
    () =>
      store.ping().then(
        () => 'written',
        (error: Error) => error.message,
      ),
    (answer) => /read-only/.test(answer),
  );
  await expect(store.accept(acceptanceOf(2))).rejects.toMatchObject({ isAway: true });
  // The refused calls may be faster than the probe that notices the outage.
  await eventually(
    async () => onAway.mock.calls.length,
    (count) => count > 0,
  );
  await runSql(`ALTER DATABASE ${name} RESET default_transaction_read_only`);
  await eventually(
    async () => onBack.mock.calls.length,
    (count) => count > 0,
  );
  await store.ping();
  const wakes = wake.mock.calls.length;
  expect(await store.accept(acceptanceOf(2))).toMatchObject({ kind: 'accepted' });
  await addJob();
  await eventually(
    async () => wake.mock.calls.length,
    (count) => count > wakes,
  );
  expect(onAway.mock.calls.at(-1)?.[0]).toMatchObject({ message: expect.stringContaining('read-only') });
});

test('a session that became read-only by itself is replaced by the next', async () => {
  const { url } = await newDatabase();
  const store = await openPostgresStore({ ...storeOptions('sluice'), url });
  onTestFinished(() => store.close());
  await store.ping();
  const own = createConnections({ ...storeOptions('sluice'), url, replica: 'test' });
  onTestFinished(() => own.close());
  const write = () => own.transact('write', (sql) => sql.run('UPDATE sluice.pings SET count = count + 1'));
  await own.transact('write', (sql) => sql.run('SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY'));
  await expect(write()).rejects.toThrow(/read-only transaction/);
  await expect(write()).resolves.toBeGreaterThan(0);
});

test.each(['25006', '57P01', '57P02', '57P03', '57P04', '53100', '53200', '53300', '53400'])(
  'an error with SQLSTATE %s gives its connection up, and has the database asked on another',
  async (code) => {
    const probe = vi.fn(async () => {});
    const outage = new Outage({ probe, forget: () => {} });
    onTestFinished(() => outage.close());
    const error = Object.assign(new Error('the server said so'), { code });
    expect(outage.noticed(error)).toBeInstanceOf(StoreUnavailableError);
    expect(losesConnection(error)).toBe(true);
    expect(probe).toHaveBeenCalledTimes(1);
  },
);

describe('a transaction with statements that do not wait for each other fails with the error of the first', () => {
  const raise = (code: string) => `DO $$ BEGIN RAISE EXCEPTION 'the first one' USING ERRCODE = '${code}'; END $$`;
  /** Its caller hears of it after the callers of the next statements. */
  const heardLate = async (answer: Promise<unknown>) => {
    for (let turns = 0; turns < 9; turns += 1) await Promise.resolve();
    return answer.then((value) => value).then((value) => value);
  };

  function write(work: (sql: Sql) => Promise<unknown>) {
    const own = createConnections({ ...storeOptions('public'), replica: 'test' });
    onTestFinished(() => own.close());
    return own.transact('write', work);
  }

  test('whose caller hears of it last', async () => {
    const failing = write((sql) => Promise.all([heardLate(sql.run('SELECT 1 / 0')), sql.run('SELECT 1')]));
    await expect(failing).rejects.toMatchObject({ message: 'division by zero', cause: { code: '22012' } });
  });

  test('that was awaited, before one that was not', async () => {
    const failing = write((sql) => {
      const first = heardLate(sql.run('SELECT 1 / 0'));
      sql.later('SELECT 2');
      return Promise.all([first, sql.run('SELECT 1')]);
    });
    await expect(failing).rejects.toMatchObject({ message: 'division by zero' });
  });

  test('that its work went on without', async () => {
    const failing = write((sql) => sql.run('SELECT 1 / 0').catch(() => 0));
    await expect(failing).rejects.toMatchObject({ message: 'division by zero' });
  });

  test.each([
    ['again if that is a conflict', '40001', 5],
    ['once if that was cancelled', '57014', 1],
  ])('and runs %s', async (_, code, expected) => {
    let tries = 0;
    const failing = write((sql) => {
      tries += 1;
      return Promise.all([heardLate(sql.run(raise(code))), sql.run('SELECT 1')]);
    });
    await expect(failing).rejects.toMatchObject({ message: 'the first one', cause: { code } });
    expect(tries).toBe(expected);
  });
});
