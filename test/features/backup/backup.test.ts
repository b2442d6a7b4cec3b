import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { backupStore, inspectStore } from '../../../src/store/offline.ts';
import { openStore } from '../../../src/store/open-store.ts';
import { runCli } from '../../e2e/cli.ts';
import { createWorkspace } from '../../e2e/service.ts';
import { temporaryFolder } from '../../temporary.ts';

it('a copy of a database that is open for writing opens, and has what was committed', async () => {
  const folder = temporaryFolder('backup');
  mkdirSync(join(folder, 'data'));
  const path = join(folder, 'data', 'sluice.db');
  const store = await openStore({ kind: 'sqlite', path });
  onTestFinished(() => store.close());
  const copy = join(folder, 'copy.db');
  expect(await backupStore(path, copy)).toBeGreaterThan(0);
  const inspection = await inspectStore({ kind: 'sqlite', path: copy });
  await inspection.close();
  expect(statSync(copy).size).toBeGreaterThan(0);
  expect(readdirSync(folder).filter((name) => name.endsWith('-journal'))).toEqual([]);
});

describe('backup', () => {
  const withDatabase = async () => {
    const workspace = await createWorkspace();
    const path = join(workspace.folder, 'data', 'sluice.db');
    mkdirSync(join(workspace.folder, 'data'), { recursive: true });
    await (await openStore({ kind: 'sqlite', path })).close();
    const copies = () => readdirSync(workspace.folder).filter((name) => name.startsWith('copy.db'));
    return { workspace, copies, write: (name: string) => writeFileSync(join(workspace.folder, name), 'half a copy') };
  };

  it('replaces the unfinished copy of a process that was killed, and leaves that of a running one', async () => {
    const { workspace, copies, write } = await withDatabase();
    const { pid: killed } = spawnSync(process.execPath, ['-e', '']);
    const running = `copy.db.${process.pid}-0123abcd.part`;
    for (const end of ['', '-journal']) write(`copy.db.${killed}-0123abcd.part${end}`);
    for (const name of [running, 'copy.db.part', 'copy.db.1-mine.part']) write(name);
    expect(await runCli(workspace, ['backup', 'copy.db'])).toMatchObject({ code: 0, stderr: '' });
    expect(copies().sort()).toEqual(['copy.db', running, 'copy.db.1-mine.part', 'copy.db.part'].sort());
  });

  it.each([
    ['lost a table', 'DROP TABLE nonces', 'No backup was made: its schema was changed: the table nonces is missing.'],
    ['is of a later release', "INSERT INTO schema_migrations VALUES (9999, 'later', 0)", 'its schema version is 9999'],
    ['is of another program', 'ALTER TABLE schema_migrations RENAME version TO v', 'is a database of another program'],
  ])('is refused if the database %s: no service could open the copy', async (_what, sql, message) => {
    const { workspace, copies } = await withDatabase();
    const database = new SqliteDatabase(join(workspace.folder, 'data', 'sluice.db'));
    database.exec(sql);
    database.close();
    const { code, stderr } = await runCli(workspace, ['backup', 'copy.db']);
    expect(stderr).toContain(message);
    expect(stderr).not.toContain('copy.db.');
    expect(code).toBe(2);
    expect(copies()).toEqual([]);
  });

  it('of which two run at once makes one copy: the other replaces nothing and leaves nothing', async () => {
    const { workspace, copies } = await withDatabase();
    const both = await Promise.all([1, 2].map(() => runCli(workspace, ['backup', 'copy.db'])));
    expect(both.map(({ code }) => code).sort()).toEqual([0, 2]);
    expect(both.map(({ stderr }) => stderr).join('')).toContain('copy.db exists; a backup replaces nothing');
    expect(copies()).toEqual(['copy.db']);
  });
});
