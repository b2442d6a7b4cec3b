import { existsSync, mkdirSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { runCli } from '../e2e/cli.ts';
import { createWorkspace, type Workspace } from '../e2e/service.ts';

const ID = '01900000-0000-7000-8000-000000000000';

let workspace: Workspace;
beforeAll(async () => {
  workspace = await createWorkspace();
  mkdirSync(join(workspace.folder, 'manifests'), { recursive: true });
});

/** A service that gives every request the same answer. */
async function answering(body: string): Promise<string> {
  const server = createServer((_, response) => response.end(body));
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

it.each(['no/such/folder/x', 'manifests'])(
  'a command that cannot write its file %s says so and ends with 2',
  async (file) => {
    const stderr = expect.stringMatching(new RegExp(`^${file} cannot be written: [^\n]+\n$`));
    expect(await runCli(workspace, ['schema', '-o', file])).toMatchObject({ code: 2, stderr });
    const to = await answering(JSON.stringify({ statement: '{}', signature: null }));
    expect(await runCli(workspace, ['evidence', ID, '-o', file, '--to', to])).toMatchObject({ code: 2, stderr });
    expect(await runCli(workspace, ['check', '--summary', file])).toMatchObject({ code: 2, stderr });
  },
);

it.each(['null', '{"items":[]}', '<html>'])('evidence writes no file if the answer is %s', async (body) => {
  const result = await runCli(workspace, ['evidence', ID, '-o', 'other.json', '--to', await answering(body)]);
  expect(result).toMatchObject({ code: 2, stderr: 'The answer is not evidence; is it a Sluice service?\n' });
  expect(existsSync(join(workspace.folder, 'other.json'))).toBe(false);
});

it('why reports in one line that another program answers', async () => {
  const to = await answering('{"items":[]}');
  const stderr = 'The answer is not that of a Sluice service\n';
  expect(await runCli(workspace, ['why', ID, '--to', to])).toMatchObject({ code: 2, stderr });
});
