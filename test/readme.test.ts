import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cp } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type Command, commandsOf, shapeOf } from './docs/console.ts';
import { createWorkspace, type Service, startService, type Workspace } from './e2e/service.ts';

const root = resolve(import.meta.dirname, '..');
const readme = readFileSync(join(root, 'README.md'), 'utf8');
const CLI = join(root, 'dist/cli.js');

/** The state of an unfinished run also differs each time. */
function outcomeOf(output: string): string {
  return (
    shapeOf(output)
      .replace(/"completedAt":(null|"TIME")/g, 'TIME')
      .replace(/"status":"(Running|Succeeded)"/g, 'STATUS')
      // The sample calls a host that may be unreachable.
      .replace(/"waitingFor":\[[^\]]*\],"failure":(null|\{[^}]*\})/g, 'STANDING')
  );
}

async function expectOutput({ command, output }: Command, service: Service, workspace: Workspace): Promise<void> {
  const here = command
    .replace('npx sluice send', `npx sluice send --to ${service.url}`)
    .replace('npx sluice', `"${process.execPath}" "${CLI}"`)
    .replaceAll('http://127.0.0.1:3000', service.url);
  const env = { PATH: process.env.PATH ?? '', ...ORDERS_SECRETS };
  // For a refused delivery, `sluice send` exits with 1; only its output counts here.
  const { stdout } = await promisify(execFile)('sh', ['-c', `${here} || true`], { cwd: workspace.folder, env });
  expect(outcomeOf(stdout), command).toBe(outcomeOf(output));
}

const EXECUTED = 'executed by test/readme.test.ts';
const ORDERS_SECRETS = { SHOPIFY_CLIENT_SECRET: 'the client secret of the app', ERP_TOKEN: 'token-of-the-erp' };

describe('the README and the pages', () => {
  let workspace: Workspace;
  let service: Service;
  beforeAll(async () => {
    workspace = await createWorkspace();
    await cp(join(root, 'manifests'), join(workspace.folder, 'manifests'), { recursive: true });
    service = await startService(workspace);
  });
  afterAll(() => service.stop('SIGTERM'));

  it('show the two commands that everything starts with', () => {
    expect(readme).toContain('npm ci && npm start');
    expect(readme).toContain('npm ci && npm test');
  });

  it('show what their commands really print', async () => {
    const commands = ['README.md', 'docs/changing-flows.md'].flatMap((page) => commandsOf(page, EXECUTED));
    expect(commands.length).toBeGreaterThan(5);
    for (const command of commands) await expectOutput(command, service, workspace);
  });
});

describe('the manifest of the first flow', () => {
  it('loads, and takes the delivery that the page sends it', async () => {
    const manifest = /```json\n([\s\S]*?)```/.exec(readFileSync(join(root, 'docs/first-flow.md'), 'utf8'))?.[1] ?? '';
    const workspace = await createWorkspace();
    await workspace.writeManifest('orders.json', JSON.parse(manifest));
    const service = await startService(workspace, ORDERS_SECRETS);
    onTestFinished(async () => {
      await service.stop('SIGTERM');
    });
    const env = { PATH: process.env.PATH ?? '', ...ORDERS_SECRETS };
    const { stdout } = await promisify(execFile)(process.execPath, [CLI, 'check'], { cwd: workspace.folder, env });
    expect(stdout).toContain('1 flows can be deployed, 0 errors');
    const commands = commandsOf('docs/first-flow.md', `${EXECUTED} with the manifest above`);
    expect(commands).toHaveLength(1);
    for (const command of commands) await expectOutput(command, service, workspace);
  });
});
