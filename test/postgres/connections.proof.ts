import { createServer, type Socket } from 'node:net';
import pg from 'pg';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import { openPostgresStore } from '../../src/store/postgres/client.ts';
import { createConnections } from '../../src/store/postgres/connections.ts';
import type { Sql } from '../../src/store/postgres/sql.ts';
import { newSchema, openEmpty, runSql, storeOptions } from './schemas.ts';

function connections() {
  const opened = createConnections({
    ...storeOptions('public'),
    applicationName: `test/${process.hrtime()}`,
    replica: 'test',
  });
  onTestFinished(() => opened.close());
  return opened;
}

describe('connections', () => {
  test('a store that is open can write, and refuses once it is closed', async () => {
    const store = await openEmpty();
    await store.ping();
    await store.close();
    await expect(store.ping()).rejects.toThrow(StoreUnavailableError);
  });

  test('a database that is not there stops the start with an error that says so', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    await new Promise((resolve) => server.close(resolve));
    const url = `postgres://nobody@127.0.0.1:${port}/none`;
    await expect(openPostgresStore({ ...storeOptions('x'), url })).rejects.toThrow(/ECONNREFUSED/);
  });

  test('a database that could not store every text stops the start, and nothing is made in it', async () => {
    const name = `latin_${newSchema()}`.slice(0, 60);
    await runSql(`CREATE DATABASE "${name}" ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0`);
    const url = new URL(inject('postgresUrl'));
    url.pathname = name;
    const ask = async (text: string) => {
      const client = new pg.Client({ connectionString: url.href });
      await client.connect();
      const { rows } = await client.query(text);
      await client.end();
      return rows;
    };
    onTestFinished(async () => {
      await runSql(`DROP DATABASE "${name}" WITH (FORCE)`);
    });
    await expect(openPostgresStore({ ...storeOptions('texts'), url: url.href })).rejects.toThrow(
      "the database stores text as LATIN1; make one with ENCODING 'UTF8'",
    );
    expect(await ask("SELECT FROM pg_namespace WHERE nspname IN ('texts', 'texts_worker')")).toEqual([]);
  });

  test('numbers, truth and bytes come back as they were given', async () => {
    const bytes = new Uint8Array([0, 1, 255]);
    const row = await connections().read((sql) =>
      sql.get('SELECT $1::bigint AS "at", $2::boolean AS "isIt", $3::bytea AS "body", sum($1::bigint) AS "sum"', [
        Number.MAX_SAFE_INTEGER,
        true,
        bytes,
      ]),
    );
    expect(row).toEqual({ at: Number.MAX_SAFE_INTEGER, isIt: true, body: bytes, sum: Number.MAX_SAFE_INTEGER });
  });

  test.each([
    ['on its own connections', false],
    ['through a pooler', true],
  ])('a commit is flushed, and sees what others committed, whatever the database sets, %s', async (_how, isPooled) => {
    const name = `lax_${newSchema()}`.slice(0, 60);
    await runSql(`CREATE DATABASE "${name}"`);
    onTestFinished(async () => {
      await runSql(`DROP DATABASE "${name}" WITH (FORCE)`);
    });
    await runSql(`
      ALTER DATABASE "${name}" SET synchronous_commit = off;
      ALTER DATABASE "${name}" SET default_transaction_isolation = 'repeatable read'`);
    const url = new URL(inject('postgresUrl'));
    url.pathname = name;
    const own = createConnections({ ...storeOptions('public'), url: url.href, isPooled, replica: 'test' });
    onTestFinished(() => own.close());
    for (const purpose of ['accept', 'write'] as const) {
      const said = await own.transact(purpose, (sql) =>
        sql.get(`SELECT current_setting('synchronous_commit') AS "flush",
          current_setting('transaction_isolation') AS "isolation"`),
      );
      expect(said).toEqual({ flush: 'local', isolation: 'read committed' });
    }
  });

  test('a transaction that fails leaves nothing, and its connection serves the next', async () => {
    const schema = newSchema();
    await runSql(`CREATE SCHEMA "${schema}"; CREATE TABLE "${schema}".t (n integer PRIMARY KEY)`);
    const own = createConnections({ ...storeOptions(schema), replica: 'test' });
    onTestFinished(() => own.close());
    const failing = own.transact('write', async (sql) => {
      await sql.run('INSERT INTO sluice.t VALUES (1)');
      await sql.run('INSERT INTO sluice.t VALUES (1)');
    });
    await expect(failing).rejects.toThrow(/duplicate key/);
    expect(await own.read((sql) => sql.all('SELECT n FROM sluice.t'))).toEqual([]);
  });

  test('of two transactions that block each other both are done', async () => {
    const schema = newSchema();
    await runSql(`
      CREATE SCHEMA "${schema}"; CREATE TABLE "${schema}".t (n integer PRIMARY KEY, by integer);
      INSERT INTO "${schema}".t VALUES (1, 0), (2, 0)`);
    const own = createConnections({ ...storeOptions(schema), replica: 'test' });
    onTestFinished(() => own.close());
    let arrived = 0;
    let release = () => {};
    const both = new Promise<void>((resolve) => {
      release = resolve;
    });
    const add = (first: number, second: number) =>
      own.transact('write', async (sql) => {
        await sql.run('UPDATE sluice.t SET by = by + 1 WHERE n = $1', [first]);
        arrived += 1;
        if (arrived === 2) release();
        await both;
        await sql.run('UPDATE sluice.t SET by = by + 1 WHERE n = $1', [second]);
      });
    await Promise.all([add(1, 2), add(2, 1)]);
    expect(await own.read((sql) => sql.all('SELECT n, by FROM sluice.t ORDER BY n'))).toEqual([
      { n: 1, by: 2 },
      { n: 2, by: 2 },
    ]);
  });

  test('a connection that PostgreSQL ends is replaced', async () => {
    const own = connections();
    const { pid } = (await own.read((sql) => sql.get<{ pid: number }>('SELECT pg_backend_pid() AS pid'))) ?? { pid: 0 };
    await runSql('SELECT pg_terminate_backend($1, 5000)', [pid]);
    const answer = async () => own.read((sql) => sql.get('SELECT 1 AS one'));
    // The pool may notice the end only at its next call.
    expect(await answer().catch(answer)).toEqual({ one: 1 });
  });

  test('a database that takes connections and says nothing is away, not waited for', { timeout: 15_000 }, async () => {
    const sockets: Socket[] = [];
    const silent = createServer((socket) => void sockets.push(socket));
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
      silent.close();
    });
    const { port } = silent.address() as { port: number };
    const own = createConnections({ ...storeOptions('x'), url: `postgres://a:b@127.0.0.1:${port}/c`, replica: 'test' });
    onTestFinished(() => own.close());
    // The error of connecting, after 5 s; waiting for a connection in use takes longer and has another error.
    await expect(own.read((sql) => sql.get('SELECT 1'))).rejects.toThrow(/^timeout expired$/);
  });

  test.each([
    ['with the connection', false, 'client'],
    ['with each transaction through a pooler, which refuses what it does not know', true, 'session'],
  ])('limits are set %s', async (_how, isPooled, source) => {
    const own = createConnections({ ...storeOptions('public'), isPooled, replica: 'test' });
    onTestFinished(() => own.close());
    const limits = (sql: Sql) =>
      sql.all(
        `SELECT setting, source FROM pg_settings
        WHERE name IN ('statement_timeout', 'idle_in_transaction_session_timeout') ORDER BY name`,
      );
    const limit = (setting: string) => ({ setting, source });
    // A hung process counts as dead after 15 s; by then nothing waits for its locks.
    expect(await own.transact('write', limits)).toEqual([limit('10000'), limit('4000')]);
    expect(await own.read(limits)).toEqual([limit('30000'), limit('30000')]);
  });

  test('statements that a pooler cannot carry by name have none', async () => {
    const own = createConnections({ ...storeOptions('public'), isPrepared: false, replica: 'test' });
    onTestFinished(() => own.close());
    const prepared = await own.read((sql) => sql.all('SELECT name FROM pg_prepared_statements'));
    expect(prepared).toEqual([]);
    expect(inject('postgresUrl')).toMatch(/^postgres:/);
  });
});
