import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, it, onTestFinished } from 'vitest';
import { serviceUrl } from '../../src/commands/context.ts';
import { freePort } from '../free-port.ts';
import { runCli } from './cli.ts';
import { createWorkspace, eventually, getJson, githubManifest, startService, type Workspace } from './service.ts';

const MAIN = resolve(import.meta.dirname, '../../dist/main.js');
const CLI = resolve(import.meta.dirname, '../../dist/cli.js');

async function workspaceWithWebhook(): Promise<Workspace> {
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest({ inputs: { webhookEnforcementMode: 'Audit' } }));
  return workspace;
}

it.each([
  ['127.0.0.1', 'http://127.0.0.1:4000'],
  ['0.0.0.0', 'http://127.0.0.1:4000'],
  ['::', 'http://127.0.0.1:4000'],
  ['hooks.local', 'http://hooks.local:4000'],
])('a command finds a service that listens on %s at %s', (host, url) => {
  expect(serviceUrl({ host, port: 4000 })).toBe(url);
});

/** Runs `sluice serve` until it prints its address; returns its output when it is stopped. */
async function serve(workspace: Workspace, args: readonly string[], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, [CLI, 'serve', ...args], {
    cwd: workspace.folder,
    env: { PATH: process.env.PATH ?? '', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  const lines: string[] = [];
  const url = await new Promise<string>((found, failed) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      lines.push(line);
      const [, at] = /^Sluice listens on (\S+)$/.exec(line) ?? [];
      if (at !== undefined) found(at);
    });
    void exited.then(() => failed(new Error(lines.join('\n'))));
  });
  const stop = async () => {
    child.kill('SIGTERM');
    await exited;
    return lines;
  };
  onTestFinished(async () => void (await stop()));
  return { url, stop };
}

it.each([
  ['--help', 0, 'stdout', /^Usage: node dist\/main\.js\n[\s\S]*npx sluice serve --help/],
  ['-h', 0, 'stdout', /^Usage: /],
  ['--prot=3001', 2, 'stderr', /^Unknown argument: --prot=3001\n[\s\S]*npx sluice serve --help/],
  ['check', 2, 'stderr', /^Unknown argument: check\n/],
] as const)('main.js %s ends with %i and starts nothing', async (argument, status, stream, text) => {
  const { folder } = await workspaceWithWebhook();
  // If it starts the service by mistake, this setting ends it.
  const env = { PATH: process.env.PATH ?? '', SLUICE_PORT: 'none' };
  const ended = spawnSync(process.execPath, [MAIN, argument], { cwd: folder, env, encoding: 'utf8' });
  expect(ended[stream]).toMatch(text);
  expect(ended.status).toBe(status);
});

describe('a start', () => {
  it('prints the URL, scheme and mode of each webhook', async () => {
    const workspace = await workspaceWithWebhook();
    const service = await startService(workspace);
    await service.stop('SIGTERM');
    expect(service.output()).toContain(`  push: ${service.url}/flows/api/webhook/push (GitHub, Audit, coverage D)`);
  });

  it('prints the URL that publishers call where it is known', async () => {
    const workspace = await workspaceWithWebhook();
    const service = await startService(workspace, { SLUICE_PUBLIC_URL: 'https://hooks.example.com' });
    await service.stop('SIGTERM');
    expect(service.output()).toContain(
      '  push: https://hooks.example.com/flows/api/webhook/push (GitHub, Audit, coverage D)',
    );
  });

  it('warns once of a name that was a setting once', async () => {
    const workspace = await workspaceWithWebhook();
    const service = await startService(workspace, { SLUICE_MAX_BACKLOG: 'any' });
    await service.stop('SIGTERM');
    const told = service
      .output()
      .split('\n')
      .filter((line) => line.includes('SLUICE_MAX_BACKLOG'));
    expect(told.map((line) => JSON.parse(line))).toMatchObject([
      { level: 40, msg: expect.stringContaining('is no longer a setting and is ignored') },
    ]);
  });
});

describe('sluice serve', () => {
  it('deploys a change in the folder by itself with --watch', async () => {
    const workspace = await workspaceWithWebhook();
    const { url } = await serve(workspace, ['--watch', '--port', '0']);
    await workspace.writeManifest('push.json', { ...githubManifest(), version: '2' });
    const flows = await eventually(
      () => getJson<{ version: string }[]>(`${url}/flows/api/flows`),
      ([flow]) => flow?.version === '2',
    );
    expect(flows).toHaveLength(1);
  });

  it('takes host, port, manifests and database as options, before the environment', async () => {
    const workspace = await workspaceWithWebhook();
    const port = await freePort();
    const options = ['--host', 'localhost', '--port', String(port), '--database', 'sqlite::memory:'];
    const { url } = await serve(workspace, [...options, '--manifests', 'manifests'], {
      SLUICE_PORT: '1',
      SLUICE_HOST: '192.0.2.1',
      SLUICE_MANIFESTS: 'nothing',
      SLUICE_DATABASE_URL: 'sqlite:/nothing/there',
    });
    expect(new URL(url).port).toBe(String(port));
    expect((await fetch(`${url}/health/ready`)).status).toBe(200);
  });

  it('refuses a wrong value as the variable would be', async () => {
    const workspace = await workspaceWithWebhook();
    const { code, stderr } = await runCli(workspace, ['serve', '--port', 'none']);
    expect(stderr).toContain('SLUICE_PORT: "none" is not accepted; expected an integer');
    expect(code).toBe(1);
  });
});

describe('variables in .env', () => {
  it('are read by every command, which finds the service by them, and give way to the environment', async () => {
    const workspace = await workspaceWithWebhook();
    const port = await freePort();
    await workspace.writeManifest('push.json', githubManifest({ inputs: { webhookHmacKey: 'env:PUSH_KEY' } }));
    await writeFile(
      join(workspace.folder, '.env'),
      `SLUICE_PORT=${port}\nPUSH_KEY="a key, of .env"\nSLUICE_LOG_LEVEL=loud\n`,
    );
    const { stop } = await serve(workspace, [], { SLUICE_LOG_LEVEL: 'warn' });
    const sent = await runCli(workspace, ['send', 'push'], { env: { SLUICE_LOG_LEVEL: 'warn' } });
    expect(sent).toMatchObject({ code: 0, stdout: expect.stringMatching(/^200 /) });
    const deployed = await runCli(workspace, ['deploy'], { env: { SLUICE_LOG_LEVEL: 'warn' } });
    expect(deployed).toMatchObject({ code: 0, stdout: expect.stringContaining('1 unchanged') });
    const drained = await runCli(workspace, ['drain', 'push', '--wait', '--resume'], {
      env: { SLUICE_LOG_LEVEL: 'warn' },
    });
    expect(drained).toMatchObject({ code: 0, stderr: expect.stringContaining('push starts runs again') });
    expect(await stop()).toContain('Read variables from .env');
  });

  it('are read by a start without the command line too', async () => {
    const workspace = await workspaceWithWebhook();
    await writeFile(join(workspace.folder, '.env'), 'SLUICE_ENFORCEMENT_MODE=Enforce\n');
    await workspace.writeManifest('push.json', githubManifest());
    const service = await startService(workspace);
    await service.stop('SIGTERM');
    expect(service.output()).toContain('/push (GitHub, Enforce, coverage D)');
  });

  it('with a mistake end a start as a wrong setting does, and every other command as a mistake of its own', async () => {
    const workspace = await workspaceWithWebhook();
    await writeFile(join(workspace.folder, '.env'), 'SLUICE_PORT 3000\n');
    const line = '.env: line 1 is not read: it is no NAME=value and no comment';
    const started = await runCli(workspace, ['serve']);
    expect(started).toMatchObject({ code: 1, stderr: `The settings are not valid:\n  ${line}\n` });
    expect(await runCli(workspace, ['status'])).toMatchObject({ code: 2, stderr: expect.stringContaining(line) });
  });

  it('may be in another file', async () => {
    const workspace = await workspaceWithWebhook();
    await writeFile(join(workspace.folder, 'own.env'), 'SLUICE_DASHBORD_TOKEN=x\n');
    const { code, stderr } = await runCli(workspace, ['serve', '--env-file', 'own.env']);
    expect(stderr).toContain('SLUICE_DASHBORD_TOKEN: no such setting; did you mean "SLUICE_DASHBOARD_TOKEN"?');
    expect(code).toBe(1);
  });
});
