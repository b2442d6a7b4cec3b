import { beforeAll, expect, it } from 'vitest';
import { runCli } from '../e2e/cli.ts';
import { createWorkspace, type Workspace } from '../e2e/service.ts';

let workspace: Workspace;
beforeAll(async () => {
  workspace = await createWorkspace();
});

const FOLDER = 'the folder of manifests is an empty text; give its path, or leave it out\n';
const DATABASE = 'expected sqlite:PATH or postgres://…, and no database in memory\n';

it.each<[string[], string]>([
  [['check', ''], FOLDER],
  [['deploy', ' '], FOLDER],
  [['new', '--publisher', 'GitHub', '--manifests', ''], FOLDER],
  [['backup', ''], '<file>: is empty; expected the path of the copy\n'],
  [['schema', '-o', ''], '"" cannot be written: '],
  [['copy', '--from', '', '--to', 'sqlite:a.db'], `--from "": ${DATABASE}`],
  [['copy', '--from', 'sqlite:a.db', '--to', 'sqlite:'], `--to "sqlite:": ${DATABASE}`],
  [['copy', '--from', 'sqlite:a.db', '--to', 'sqlite:./a.db'], '--from and --to name the same database\n'],
  [
    ['copy', '--from', 'postgres://db.example/a', '--to', 'sqlite:a.db'],
    '--from: leads to another machine without TLS',
  ],
  [['runs', '--since', '2h', '--until', '3h'], 'error: --since must not be after --until\n'],
  [['retry', '--since', '2026-03-02', '--until', '2026-03-01'], 'error: --since must not be after --until\n'],
])('%j is refused by the name of what is wrong', async (args, message) => {
  const { code, stdout, stderr } = await runCli(workspace, args);
  expect(stderr.startsWith(message) ? message : stderr).toBe(message);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
});

it.each<[string[], string, string]>([
  [[], '', 'SLUICE_ALERTS is not set: failures are not reported\n'],
  [[], '{"targets":{}}', 'SLUICE_ALERTS names no target: failures are not reported\n'],
  [
    [''],
    '{"targets":{"ops":{"type":"slack","url":"https://a.example/b"}}}',
    'SLUICE_ALERTS has no target ""; it has ops\n',
  ],
])('alert test %j with %s says what is missing', async (args, alerts, message) => {
  await workspace.writeManifest('alerts.json', alerts === '' ? {} : JSON.parse(alerts));
  const env: Record<string, string> =
    alerts === '' ? {} : { SLUICE_ALERTS: 'manifests/alerts.json', SLUICE_MANIFESTS: 'none' };
  expect(await runCli(workspace, ['alert', 'test', ...args], { env })).toMatchObject({ code: 2, stderr: message });
});
