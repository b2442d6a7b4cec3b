import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, inject, test } from 'vitest';
import { newPaths } from '../store/files.ts';
import { filled } from './everything.ts';
import { newSchema, runSql } from './schemas.ts';

const newPath = newPaths();

describe('sluice copy', { timeout: 60_000 }, () => {
  const runWith = async (env: Record<string, string>, args: string[]) => {
    const cli = join(import.meta.dirname, '../../dist/cli.js');
    // Without the tests' settings: a command refuses unknown ones.
    const options = { env: { PATH: process.env.PATH, ...env } };
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [cli, 'copy', ...args], options).catch(
      (error) => error,
    );
    return { stdout: String(stdout), stderr: String(stderr) };
  };
  const run = (...args: string[]) => runWith({}, args);

  test('copies to the schema that the service would open', async () => {
    const { path } = await filled(newPath());
    const schema = newSchema();
    const args = ['--from', `sqlite:${path}`, '--to', inject('postgresUrl')];
    const { stdout } = await runWith({ SLUICE_DATABASE_SCHEMA: schema }, args);
    expect(stdout).toMatch(/ has all \d+ rows of sqlite:/);
    expect(await runSql(`SELECT count(*)::integer AS flows FROM "${schema}".flows`)).toEqual([{ flows: 5 }]);
  });

  test('copies there and back, and says how far it is and what it did', async () => {
    const { path } = await filled(newPath());
    const schema = newSchema();
    const url = inject('postgresUrl');
    const there = await run('--from', `sqlite:${path}`, '--to', url, '--schema', schema);
    expect(there.stderr).toMatch(
      /^copied flows: 5 rows\n(.*\n)*copied runs: (\d+) rows\n(.*\n)*compared runs: \2 rows\n/,
    );
    expect(there.stdout).toMatch(/ has all \d+ rows of sqlite:.*, compared one by one, in [\d.]+ s\n$/);
    expect(there.stdout + there.stderr).not.toContain(`:${new URL(url).password}@`);
    const back = newPath();
    const { stdout } = await run('--from', url, '--to', `sqlite:${back}`, '--schema', schema);
    expect(stdout).toMatch(/^sqlite:.* has all \d+ rows of postgres:/);
  });

  test.each([
    ['to the same database', ['--from', 'sqlite:a.db', '--to', 'sqlite:./a.db'], 'name the same database'],
    ['from memory', ['--from', 'sqlite::memory:', '--to', 'sqlite:a.db'], 'no database in memory'],
    ['in the open', ['--from', 'postgres://u:secret@db.example/x', '--to', 'sqlite:a.db'], 'without TLS'],
    [
      'to a host that the query names',
      ['--from', 'postgres://localhost/x?host=db.example', '--to', 'sqlite:a.db'],
      'without TLS',
    ],
    [
      'with TLS that proves nothing',
      ['--from', 'postgres://db.example/x?sslmode=prefer', '--to', 'sqlite:a.db'],
      'sslmode=prefer',
    ],
    ['from nothing', ['--from', 'sqlite:no-such.db', '--to', 'sqlite:a.db'], 'there is no such file'],
  ])('does not copy %s', async (_name, args, message) => {
    const { stdout, stderr } = await run(...args);
    expect(stdout).toBe('');
    expect(stderr).toContain(message);
    expect(stderr).not.toContain('secret');
  });
});
