import { spawnSync } from 'node:child_process';
import { chmodSync, closeSync, copyFileSync, openSync, writeSync } from 'node:fs';
import { join, resolve } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { expect, test } from 'vitest';
import { openSqliteStore } from '../../../src/store/sqlite/client.ts';
import { runCli } from '../../e2e/cli.ts';
import { createWorkspace } from '../../e2e/service.ts';
import { acceptanceOf, aNonce } from '../../store/samples.ts';

interface Check {
  readonly check: string;
  readonly status: string;
  readonly message: string;
}

test('doctor looks at the database of a running service, and names damage, what waits and dangerous settings', async () => {
  const workspace = await createWorkspace();
  const path = join(workspace.folder, 'data/sluice.db');
  const run = async (args: readonly string[], env = {}) => {
    const result = await runCli(workspace, ['doctor', ...args, '--json'], {
      env: { SLUICE_DATABASE_URL: `sqlite:${path}`, ...env },
    });
    const checks: Check[] = result.stdout === '' ? [] : JSON.parse(result.stdout);
    return { ...result, of: (name: string) => checks.filter(({ check }) => check === name) };
  };
  expect(await run([])).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('no such file') });

  const store = await openSqliteStore({ path });
  // The command is a process with the machine's clock.
  for (let n = 1; n <= 200; n += 1) {
    await store.accept(acceptanceOf(n, { nonce: aNonce({ value: `nonce ${n}`, expiresAt: Date.now() + 3_600_000 }) }));
  }
  const well = await run([]);
  expect(well.of('database')).toMatchObject([{ status: 'ok', message: expect.stringContaining('is whole') }]);
  expect(well.of('tables')[0]?.message).toMatch(/runs \d/);
  expect(well.of('oldest run')[0]?.message).toMatch(/ has been in flight for \d+ /);
  expect(well.of('retention')).toMatchObject([{ status: 'ok', message: expect.stringContaining('0 nonces') }]);
  // The service continues.
  await store.accept(acceptanceOf(201));
  await store.close();

  const changed = new SqliteDatabase(path);
  changed.exec('CREATE VIEW other AS SELECT 1 AS one; DROP TRIGGER held_added');
  const sql = "SELECT pageno, pgsize FROM dbstat WHERE name = 'deliveries' AND pagetype = 'leaf' LIMIT 1";
  const { pageno, pgsize } = changed.prepare<[], { pageno: number; pgsize: number }>(sql).get() ?? expect.unreachable();
  changed.close();
  expect((await run(['--quick'])).of('schema')).toEqual([
    {
      check: 'schema',
      status: 'error',
      message: expect.stringContaining('the trigger held_added on held_deliveries is missing'),
    },
    { check: 'schema', status: 'warning', message: expect.stringContaining('the view other is not of Sluice') },
  ]);

  const half = join(workspace.folder, 'half.db');
  copyFileSync(path, half);
  const without = new SqliteDatabase(half);
  without.exec('DROP TABLE nonces; DROP TABLE consumers');
  without.close();
  for (const args of [[], ['--quick']]) {
    const found = await run(args, { SLUICE_DATABASE_URL: `sqlite:${half}` });
    expect(found.code).toBe(1);
    expect(found.of('schema').map(({ message }) => message)).toEqual([
      expect.stringContaining('the table consumers is missing'),
      expect.stringContaining('the table nonces is missing'),
      expect.stringContaining('the trigger held_added'),
      expect.stringContaining('the view other'),
    ]);
    expect(found.of('contents')).toMatchObject([{ status: 'error' }]);
  }

  const file = openSync(path, 'r+');
  writeSync(file, Buffer.alloc(pgsize, 0x5a), 0, pgsize, (pageno - 1) * pgsize);
  closeSync(file);
  const damaged = await run([], { SLUICE_HOST: '0.0.0.0', SLUICE_DASHBOARD_TOKEN: 'a token of the test' });
  expect(damaged.code).toBe(1);
  expect(damaged.of('database')[0]).toMatchObject({ status: 'error', message: expect.stringContaining('is damaged') });
  expect(damaged.of('settings').map(({ message }) => message)).toContainEqual(
    expect.stringMatching(/^SLUICE_ENFORCEMENT_MODE: Off/),
  );
  expect((await run(['--quick'])).of('database')).toMatchObject([
    { status: 'ok', message: expect.stringContaining('not looked for') },
  ]);
}, 60_000);

test('doctor and backup name the folder that their account may not write to', async () => {
  const { folder } = await createWorkspace();
  const data = join(folder, 'data');
  await (await openSqliteStore({ path: join(data, 'sluice.db') })).close();
  chmodSync(join(data, 'sluice.db'), 0o644);
  chmodSync(data, 0o555);
  chmodSync(folder, 0o755);
  // Root may write everywhere.
  const account = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
  const cli = resolve(import.meta.dirname, '../../../dist/cli.js');
  for (const args of [['doctor'], ['backup', 'copy.db']]) {
    const { status, stderr } = spawnSync(process.execPath, [cli, ...args], { cwd: folder, ...account });
    expect(stderr.toString()).toMatch(
      /sluice\.db cannot be read: the file or its folder is not accessible: \S+data belongs to /,
    );
    expect(status).toBe(2);
  }
  chmodSync(data, 0o755);
});
