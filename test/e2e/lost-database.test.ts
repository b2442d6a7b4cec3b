import { createHmac, randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import {
  createWorkspace,
  eventually,
  GITHUB_SECRET,
  githubManifest,
  type Service,
  startService,
  type Workspace,
} from './service.ts';

const BODY = '{"ref":"refs/heads/main"}';
const SIGNATURE = `sha256=${createHmac('sha256', GITHUB_SECRET).update(BODY).digest('hex')}`;

/** Processes are started here, on machines that have other things to do. */
const TIME_LIMIT_MS = 60_000;

async function start(): Promise<{ workspace: Workspace; service: Service }> {
  const workspace = await createWorkspace();
  onTestFinished(() => workspace.remove());
  await workspace.writeManifest('push.json', githubManifest());
  const service = await startService(workspace, { SLUICE_ENFORCEMENT_MODE: 'Enforce' });
  onTestFinished(async () => void (await service.stop('SIGTERM')));
  return { workspace, service };
}

async function deliver(service: Service) {
  const headers = {
    'content-type': 'application/json',
    'x-hub-signature-256': SIGNATURE,
    'x-github-delivery': randomUUID(),
  };
  const response = await fetch(`${service.url}/flows/api/webhook/push`, { method: 'POST', headers, body: BODY });
  return { statusCode: response.status, ...((await response.json()) as { reason?: string }) };
}

it('acknowledges no delivery once its database file is removed, says so once, and stays for whoever saves the file', {
  timeout: TIME_LIMIT_MS,
}, async () => {
  const { workspace, service } = await start();
  expect(await deliver(service)).toMatchObject({ statusCode: 200 });
  rmSync(join(workspace.folder, 'data/sluice.db'));
  for (let n = 0; n < 3; n += 1) {
    expect(await deliver(service)).toMatchObject({ statusCode: 503, reason: 'store_unavailable' });
  }
  expect((await fetch(`${service.url}/health/ready`)).status).toBe(503);
  expect((await fetch(`${service.url}/health/live`)).status).toBe(200);
  const fatalLines = async () =>
    service
      .output()
      .split('\n')
      .filter((line) => line.includes('"level":60'));
  const fatal = await eventually(fatalLines, (lines) => lines.length > 0);
  expect(fatal).toHaveLength(1);
  expect(fatal[0]).toContain('sluice.db was removed while it was in use');
});

it('refuses a second process before it listens, also where the lock file was removed', {
  timeout: TIME_LIMIT_MS,
}, async () => {
  const { workspace, service } = await start();
  rmSync(join(workspace.folder, 'data/sluice.db.lock'));
  for (let tries = 0; tries < 2; tries += 1) {
    const second = startService(workspace);
    await expect(second).rejects.toThrow('it is in use by another process');
    await expect(second).rejects.not.toThrow('Sluice listens');
  }
  expect(await deliver(service)).toMatchObject({ statusCode: 200 });
});
