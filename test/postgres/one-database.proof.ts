import { expect, inject, test } from 'vitest';
import { runCli } from '../e2e/cli.ts';
import { createWorkspace, githubManifest, startService } from '../e2e/service.ts';
import { newSchema, runSql } from './schemas.ts';

test('every command finds the database where the service has it: in the schema of the settings', async () => {
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest());
  const [schema, other] = [newSchema(), newSchema()];
  const settings = (name: string) => ({
    SLUICE_DATABASE_URL: inject('postgresUrl'),
    SLUICE_DATABASE_SCHEMA: name,
    // No service listens on this port, so that commands read the database themselves.
    SLUICE_PORT: '1',
  });
  const run = (name: string, ...args: string[]) => runCli(workspace, args, { env: settings(name) });
  const schemas = async () => {
    const rows = await runSql('SELECT nspname FROM pg_namespace WHERE nspname = ANY($1)', [[schema, other, 'sluice']]);
    return rows.map(({ nspname }) => nspname);
  };
  const before = await schemas();

  expect(await run(schema, 'migrate')).toMatchObject({ code: 0, stdout: expect.stringContaining('up to date') });
  expect(await schemas()).toEqual([...before, schema]);

  const service = await startService(workspace, { ...settings(schema), SLUICE_PORT: '0' });
  await service.stop('SIGTERM');
  expect(await schemas()).toEqual([...before, schema]);

  const checked = await run(schema, 'check', '--json');
  expect(checked).toMatchObject({ code: 0, stderr: '' });
  expect(checked.stdout).toContain('"unchanged"');
  expect(await run(other, 'check')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('no service has written'),
  });
  expect(await run(schema, 'keys')).toMatchObject({ code: 0, stdout: expect.stringContaining('push') });
  expect((await run(other, 'keys')).code).toBe(2);

  const copied = await run(schema, 'copy', '--from', inject('postgresUrl'), '--to', 'sqlite:./copy.db');
  expect(copied.stdout).toContain('has all');
  const missing = await run(other, 'copy', '--from', inject('postgresUrl'), '--to', 'sqlite:./other.db');
  expect(missing.stderr).toContain(`no schema ${other}`);
  expect(await schemas()).toEqual([...before, schema]);
});
