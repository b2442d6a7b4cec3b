import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { databaseTarget } from '../../src/config/database.ts';
import { readSettings } from '../../src/config/settings.ts';
import { temporaryFolder } from '../temporary.ts';
import { linesOf as linesOfReading } from './lines.ts';

function targetOf(environment: Record<string, string>) {
  return databaseTarget(readSettings(environment), '/srv');
}

const linesOf = (environment: Record<string, string>) => linesOfReading(() => readSettings(environment));

const local = 'postgres://sluice:hunter2@127.0.0.1:5432/sluice';

describe('the database', () => {
  test('is a file unless the settings name another', () => {
    expect(targetOf({})).toEqual({ kind: 'sqlite', path: '/srv/data/sluice.db' });
    expect(targetOf({ SLUICE_DATABASE_URL: 'sqlite::memory:' })).toEqual({ kind: 'sqlite', path: ':memory:' });
  });

  test('is a PostgreSQL with the schema, and without a pooler unless the settings name a direct address, where names of statements are lost', () => {
    const settings = {
      SLUICE_DATABASE_URL: local,
      SLUICE_DATABASE_SCHEMA: 'hooks',
      SLUICE_REPLICA_NAME: 'left',
    };
    const target = { kind: 'postgres', url: local, schema: 'hooks', replica: 'left' };
    expect(targetOf(settings)).toEqual({ ...target, directUrl: local, isPrepared: true });
    const direct = 'postgresql://localhost/sluice';
    expect(targetOf({ ...settings, SLUICE_DATABASE_DIRECT_URL: direct })).toEqual({
      ...target,
      directUrl: direct,
      isPrepared: false,
    });
  });

  test('may be named in a file, because the address has a password in it', () => {
    const folder = temporaryFolder('settings');
    writeFileSync(join(folder, 'url'), `${local}\n`);
    expect(targetOf({ SLUICE_DATABASE_URL: `file:${join(folder, 'url')}` })).toMatchObject({ url: local });
  });

  test('a schema is a plain name', () => {
    for (const schema of ['', 'Sluice', 'a-b', 'a.b', '"a"', 'x'.repeat(64)]) {
      expect(linesOf({ SLUICE_DATABASE_SCHEMA: schema })).toHaveLength(1);
    }
  });
});

describe('a PostgreSQL on another machine', () => {
  const remote = (query = '') => `postgres://sluice:hunter2@db.example:5432/sluice${query}`;

  test('is not used without TLS, unless that is on purpose', () => {
    const [line, ...others] = linesOf({ SLUICE_DATABASE_URL: remote() });
    expect(line).toMatch(/^SLUICE_DATABASE_URL: leads to another machine without TLS.+sslmode=verify-full/);
    expect(others).toEqual([]);
    expect(linesOf({ SLUICE_DATABASE_URL: remote('?sslmode=disable') })).toEqual([]);
    expect(linesOf({ SLUICE_DATABASE_URL: remote('?sslmode=verify-full&sslrootcert=ca.pem') })).toEqual([]);
  });

  test.each(['prefer', 'allow', 'no-verify', 'verify_full', ''])('is not used with sslmode=%s', (mode) => {
    expect(linesOf({ SLUICE_DATABASE_URL: remote(`?sslmode=${mode}`) })).toEqual([
      `SLUICE_DATABASE_URL: sslmode=${mode === 'verify_full' || mode === '' ? '…' : mode} does not verify the server; expected verify-full with sslrootcert=FILE, or disable on purpose`,
    ]);
  });

  test('is judged by the host that the driver connects to', () => {
    expect(linesOf({ SLUICE_DATABASE_URL: 'postgres://localhost/sluice?host=db.example' })).toHaveLength(1);
    expect(linesOf({ SLUICE_DATABASE_URL: 'postgres:///sluice?host=/run/postgresql' })).toEqual([]);
    expect(linesOf({ SLUICE_DATABASE_URL: 'postgres://[::1]/sluice' })).toEqual([]);
    expect(linesOf({ SLUICE_DATABASE_URL: 'postgres://[2001:db8::1]/sluice' })).toHaveLength(1);
    // If a parameter is given twice, the last one counts.
    expect(linesOf({ SLUICE_DATABASE_URL: 'postgres:///sluice?host=/run/postgresql&host=db.example' })).toHaveLength(1);
    expect(linesOf({ SLUICE_DATABASE_URL: remote('?sslmode=verify-full&sslmode=no-verify') })).toHaveLength(1);
  });

  test('is judged by the host of the environment where the address has none', () => {
    const judged = (SLUICE_DATABASE_URL: string, PGHOST: string) => linesOf({ SLUICE_DATABASE_URL, PGHOST });
    expect(judged('postgres:///sluice', 'db.example')).toEqual([expect.stringContaining('without TLS')]);
    expect(judged('postgres://localhost/sluice', 'db.example')).toEqual([]);
    expect(judged('postgres:///sluice', '/run/postgresql')).toEqual([]);
  });

  test('is not used with a mode that the query makes prove nothing', () => {
    const compatible = (mode: string) =>
      linesOf({ SLUICE_DATABASE_URL: remote(`?uselibpqcompat=true&sslmode=${mode}`) });
    expect(compatible('require')).toEqual([expect.stringContaining('sslmode=require does not verify the server')]);
    expect(compatible('verify-ca')).toHaveLength(1);
    expect(compatible('verify-full')).toEqual([]);
    expect(compatible('disable')).toEqual([]);
  });

  test('is judged on the way around the pooler too', () => {
    const settings = { SLUICE_DATABASE_URL: local, SLUICE_DATABASE_DIRECT_URL: remote() };
    expect(linesOf(settings)).toEqual([expect.stringMatching(/^SLUICE_DATABASE_DIRECT_URL: leads to another machine/)]);
  });

  test('no error shows the password', () => {
    const urls = [remote(), remote('?sslmode=hunter2'), 'postgres://sluice:hunter2@:x/y', 'postgres://u:hunter2@[x/y'];
    const lines = urls.flatMap((url) => linesOf({ SLUICE_DATABASE_URL: url }));
    expect(lines.length).toBeGreaterThanOrEqual(urls.length);
    expect(lines.join('\n').replace('sslmode=hunter2', 'sslmode=')).not.toContain('hunter2');
  });
});

describe('settings that a PostgreSQL contradicts', () => {
  test('a delivery log in memory, which only one replica would see', () => {
    const lines = linesOf({ SLUICE_DATABASE_URL: local, SLUICE_DELIVERY_STORE: 'memory' });
    expect(lines).toEqual([
      expect.stringMatching(/^SLUICE_DELIVERY_STORE: memory keeps the delivery log in one process/),
    ]);
  });

  test('a way around a pooler of a file', () => {
    const lines = linesOf({ SLUICE_DATABASE_DIRECT_URL: local });
    expect(lines).toEqual([expect.stringMatching(/^SLUICE_DATABASE_DIRECT_URL: bypasses a pooler/)]);
  });
});
