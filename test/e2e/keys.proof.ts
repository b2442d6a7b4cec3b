import { createHmac } from 'node:crypto';
import { expect, it, onTestFinished } from 'vitest';
import { databaseEnvironment } from '../database.ts';
import { runCli } from './cli.ts';
import { createWorkspace, FLOW_ID, githubManifest, startService } from './service.ts';

const env = { NEW_KEY: 'the key that is used from now on', OLD_KEY: 'the key that was used before' };
const inputs = {
  webhookHmacKey: 'env:NEW_KEY',
  webhookHmacKeyPrevious: 'env:OLD_KEY',
  webhookNonceHeader: undefined,
  webhookEnforcementMode: 'Enforce',
};

it('lists what each key verified, from the service and, after it died, from the database: no 200 is missing', async () => {
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest({ inputs }));
  const service = await startService(workspace, env);
  onTestFinished(async () => void (await service.stop('SIGKILL')));
  const send = async (key: string, n: number) => {
    const body = JSON.stringify({ n });
    const signature = `sha256=${createHmac('sha256', key).update(body).digest('hex')}`;
    const headers = {
      'content-type': 'application/json',
      'user-agent': 'a sender',
      'x-hub-signature-256': signature,
    };
    return (await fetch(`${service.url}/flows/api/webhook/push`, { method: 'POST', headers, body })).status;
  };
  const statuses = await Promise.all(
    [...Array(40).keys()].map((n) => send(n % 4 === 0 ? env.NEW_KEY : env.OLD_KEY, n)),
  );
  expect(new Set([...statuses, await send('of someone else', 99)])).toEqual(new Set([200, 401]));

  const listed = await runCli(workspace, ['keys', '--flow', 'push', '--to', service.url, '--json'], { env });
  const key = { flowId: FLOW_ID, flowName: 'push', triggerKey: 'github' };
  expect(JSON.parse(listed.stdout)).toMatchObject([
    { ...key, role: 'current', reference: 'env:NEW_KEY', count: 10, last24Hours: 10 },
    { ...key, role: 'previous', reference: 'env:OLD_KEY', count: 30, users: [{ userAgent: 'a sender' }] },
  ]);
  for (const secret of Object.values(env)) expect(listed.stdout).not.toContain(secret);

  await service.stop('SIGKILL');
  // No service listens on port 1.
  const own = { ...env, ...(await databaseEnvironment(workspace.folder)), SLUICE_PORT: '1' };
  const read = await runCli(workspace, ['keys'], { env: own });
  // With this port, a service listens on any free one.
  expect(await runCli(workspace, ['keys'], { env: { ...own, SLUICE_PORT: '0' } })).toEqual(read);
  expect(read).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('no service answers; read from the database'),
  });
  expect(read.stdout).toMatch(/^push\/github +current +env:NEW_KEY +[0-9a-f]{8} +\S+Z +10 +10$/m);
  expect(read.stdout).toMatch(/^push\/github +previous +env:OLD_KEY +[0-9a-f]{8} +\S+Z +30 +30$/m);
  expect(read.stdout).toContain('The previous key of push/github (env:OLD_KEY) is still used by');
  expect(await runCli(workspace, ['keys', '--to', 'http://127.0.0.1:1'], { env: own })).toMatchObject({
    code: 2,
    stdout: '',
  });
  expect(await runCli(workspace, ['keys', '--flow', 'nobody'], { env: own })).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('There is no webhook "nobody"'),
  });
});
