import { cpSync, readdirSync, renameSync, symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { serve } from '../flows/handlers/loopback-server.ts';
import { temporaryFolder } from '../temporary.ts';
import { createWorkspace, eventually, getJson, githubManifest, startService, written } from './service.ts';

const CHECKOUT = resolve(import.meta.dirname, '../..');

interface Step {
  stepKey: string;
  status: string;
  error: { code: string } | null;
  attempts: { status: string; error: { code: string } | null }[];
}

/** A copy of the build without its HTTP client, until `putBack`. */
function withoutClient() {
  const folder = temporaryFolder('part');
  cpSync(join(CHECKOUT, 'dist'), join(folder, 'dist'), {
    recursive: true,
    filter: (path) => !path.endsWith('.map') && !path.endsWith('compile-cache'),
  });
  cpSync(join(CHECKOUT, 'package.json'), join(folder, 'package.json'));
  symlinkSync(join(CHECKOUT, 'node_modules'), join(folder, 'node_modules'));
  const bundle = join(folder, 'dist/bundle');
  const parts = readdirSync(bundle).filter((name) => /^undici-.*\.js$/.test(name));
  expect(parts).not.toEqual([]);
  for (const name of parts) renameSync(join(bundle, name), join(folder, name));
  return { folder, putBack: () => parts.forEach((name) => void renameSync(join(folder, name), join(bundle, name))) };
}

it('a part of Sluice that cannot be loaded costs a step no attempt, is no fault of the host, and is loaded once it is there', async () => {
  const { origin: url } = await serve((_request, response) => response.end('{}'));
  const workspace = await createWorkspace();
  const call = { type: 'HttpRequest', inputs: { url }, retry: { maxAttempts: 1 } };
  await workspace.writeManifest('push.json', githubManifest({ steps: { call } }));
  const { folder, putBack } = withoutClient();
  const service = await startService(
    workspace,
    { SLUICE_EGRESS_ALLOW: '127.0.0.1', SLUICE_CIRCUIT_FAILURES: '1' },
    folder,
  );
  onTestFinished(() => void service.stop('SIGKILL'));

  const sent = await fetch(`${service.url}/flows/api/webhook/push`, { method: 'POST', body: '{}' });
  const { runId } = (await sent.json()) as { runId: string };
  const steps = () => getJson<Step[]>(`${service.url}/flows/api/runs/${runId}/steps`);
  await eventually(steps, ([step]) => step?.error?.code === 'internal_error');
  putBack();
  const isOver = ([each]: Step[]) => each?.status !== 'Pending' && each?.status !== 'Running';
  const [step] = await eventually(steps, isOver, {
    seconds: 60,
    because: 'each fault doubles the pause before the next try',
  });
  expect(step).toMatchObject({ status: 'Succeeded', error: null });
  const hosts = await getJson<{ origin: string; failures?: number }[]>(`${service.url}/flows/api/hosts`);
  expect(JSON.stringify(hosts)).not.toContain('"open"');
  await written(service, 'a fault of Sluice itself ended an attempt');
});
