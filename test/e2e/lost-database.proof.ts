import { createHmac, randomUUID } from 'node:crypto';
import { rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
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

/** The tests start processes, on machines that are busy with other work. */
const TIME_LIMIT_MS = 60_000;

async function start(): Promise<{ workspace: Workspace; service: Service }> {
  const workspace = await createWorkspace();
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

it.each<[string, (file: string) => void, string]>([
  ['removed', (file) => rmSync(file), 'sluice.db was removed while it was in use'],
  ['emptied', (file) => truncateSync(file), 'sluice.db was cut short while it was in use'],
])(
  'acknowledges no delivery once its database file is %s, says so once, and stays for whoever saves the file',
  {
    timeout: TIME_LIMIT_MS,
  },
  async (_how, harm, told) => {
    const { workspace, service } = await start();
    expect(await deliver(service)).toMatchObject({ statusCode: 200 });
    harm(join(workspace.folder, 'data/sluice.db'));
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
    expect(fatal[0]).toContain(told);
  },
);

it('acknowledges no delivery once a read has found its file malformed, and does not start on it again', {
  timeout: TIME_LIMIT_MS,
}, async () => {
  const { workspace, service } = await start();
  expect(await deliver(service)).toMatchObject({ statusCode: 200 });
  // After a stop, everything is in the file.
  await service.stop('SIGTERM');
  const again = await startService(workspace, { SLUICE_ENFORCEMENT_MODE: 'Enforce' });
  onTestFinished(async () => void (await again.stop('SIGKILL')));
  const file = join(workspace.folder, 'data/sluice.db');
  writeFileSync(file, Buffer.alloc(statSync(file).size, 'x'), { flag: 'r+' });
  await eventually(
    async () => (await fetch(`${again.url}/flows/api/runs`)).status,
    (status) => status === 503,
  );
  expect(await deliver(again)).toMatchObject({ statusCode: 503, reason: 'store_unavailable' });
  expect((await fetch(`${again.url}/health/ready`)).status).toBe(503);
  const fatal = await eventually(
    async () => again.output().match(/^.*"level":60.*$/gm) ?? [],
    (lines) => lines.length > 0,
  );
  expect(fatal).toHaveLength(1);
  // A read or the check of the file's header finds it, whichever comes first.
  expect(fatal[0]).toMatch(/sluice\.db (is damaged|was overwritten)/);
  await again.stop('SIGKILL');
  await expect(startService(workspace)).rejects.toThrow(
    /ended with 1:\n.*sluice\.db cannot be opened.*restore a backup/s,
  );
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
