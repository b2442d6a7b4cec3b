import { createHmac, randomUUID } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { nextRelease, PRESENT, twoReleases } from './releases.ts';
import {
  createWorkspace,
  eventually,
  GITHUB_SECRET,
  getJson,
  githubManifest,
  type Service,
  startService,
} from './service.ts';

const { earlier, later } = twoReleases();
const newer = nextRelease('expand');

async function prepare() {
  const workspace = await createWorkspace();
  onTestFinished(workspace.remove);
  await workspace.writeManifest('push.json', githubManifest());
  return workspace;
}

/** Sends a delivery and yields what the answer says. */
async function deliver({ url }: Service, delivery: string): Promise<number> {
  const signature = createHmac('sha256', GITHUB_SECRET).update('{}').digest('hex');
  const headers = {
    'content-type': 'application/json',
    'x-hub-signature-256': `sha256=${signature}`,
    'x-github-delivery': delivery,
  };
  return (await fetch(`${url}/flows/api/webhook/push`, { method: 'POST', headers, body: '{}' })).status;
}

const runsOf = ({ url }: Service) => getJson<{ id: string; status: string }[]>(`${url}/flows/api/runs`);
const ENFORCE = { SLUICE_ENFORCEMENT_MODE: 'Enforce' };

test('a later release goes on with the file of an earlier one that was killed: its runs, and its nonces', async () => {
  const workspace = await prepare();
  const before = await startService(workspace, ENFORCE, earlier);
  const delivery = randomUUID();
  expect(await deliver(before, delivery)).toBe(200);
  const [run] = await runsOf(before);
  await before.stop('SIGKILL');

  const after = await startService(workspace, ENFORCE, later);
  onTestFinished(() => void after.stop('SIGKILL'));
  expect(await deliver(after, delivery)).toBe(409);
  expect(await deliver(after, randomUUID())).toBe(200);
  const runs = await eventually(
    () => runsOf(after),
    (all) => all.length === 2 && all.every(({ status }) => status === 'Succeeded'),
  );
  expect(runs.map(({ id }) => id)).toContain(run?.id);
});

test('a release refuses the file of a later one, says so, and leaves it as it is', async () => {
  const workspace = await prepare();
  const after = await startService(workspace, ENFORCE, newer);
  expect(await deliver(after, randomUUID())).toBe(200);
  await after.stop('SIGTERM');
  await expect(startService(workspace, ENFORCE, PRESENT)).rejects.toThrow(
    /schema version is \d+ and the newest that this release knows is \d+; start a newer release/,
  );
  const again = await startService(workspace, ENFORCE, newer);
  onTestFinished(() => void again.stop('SIGKILL'));
  expect(await runsOf(again)).toHaveLength(1);
});
