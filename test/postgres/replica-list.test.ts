import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pino from 'pino';
import { expect, inject, onTestFinished, test } from 'vitest';
import { buildApp } from '../../src/app.ts';
import { githubManifest } from '../e2e/service.ts';
import { temporaryFolder } from '../temporary.ts';
import { borrowSchema } from './schemas.ts';

/** Services on one new schema, named one, two and so on, each with its secret; one without has no manifest either. */
async function services(secrets: readonly (string | undefined)[]) {
  const databaseUrl = inject('postgresUrl');
  const databaseSchema = borrowSchema();
  const folder = temporaryFolder('replica-list');
  const manifest = githubManifest({ inputs: { webhookHmacKey: 'env:PUSH_KEY' } });
  await mkdir(join(folder, 'none'));
  await writeFile(join(folder, 'push.json'), JSON.stringify(manifest));
  const apps = [];
  for (const [index, PUSH_KEY] of secrets.entries()) {
    const manifests = PUSH_KEY === undefined ? join(folder, 'none') : folder;
    const shared = { databaseUrl, databaseSchema, manifests, storeKey: `sluice-key-${'7'.repeat(64)}` };
    const app = await buildApp({
      settings: { ...shared, replicaName: `replica-${index + 1}`, host: '127.0.0.1', port: 0, drainSeconds: 0 },
      environment: PUSH_KEY === undefined ? {} : { PUSH_KEY },
      logger: pino({ level: 'silent' }),
    });
    onTestFinished(() => app.close());
    await app.listen();
    apps.push(app.fastify);
  }
  return apps;
}

test('replicas are listed by each of them, are ready, and name the secret that is not the same', async () => {
  const apps = await services(['canary-one', 'canary-two']);
  for (const [index, app] of apps.entries()) {
    expect((await app.inject('/flows/api/replicas')).json()).toMatchObject([
      { name: 'replica-1', stepsRunning: 0, self: index === 0 },
      { name: 'replica-2', stepsRunning: 0, self: index === 1 },
    ]);
    expect((await app.inject('/health/ready')).json()).toEqual({ status: 'ready' });
    const attention = await app.inject('/flows/api/attention');
    expect(attention.json()).toContainEqual({
      flowId: null,
      triggerKey: null,
      kind: 'replicas_differ',
      severity: 'warning',
      message: 'env:PUSH_KEY differs between replicas: replica-1 / replica-2',
      link: '/flows/api/replicas',
    });
    const metrics = await app.inject('/metrics');
    expect(metrics.body).toContain('sluice_cluster_differences 1\n');
    for (const { body } of [attention, metrics]) expect(body).not.toContain('canary');
  }
  expect((await apps[1]?.inject('/metrics'))?.body).toContain('sluice_cluster_replicas 2\n');
});

test('one that cannot read what another one deployed is not ready, and says why', async () => {
  const [one, two] = await services(['canary', undefined]);
  expect((await one?.inject('/health/ready'))?.statusCode).toBe(200);
  const answer = await two?.inject('/health/ready');
  expect(answer?.statusCode).toBe(503);
  expect(answer?.json()).toMatchObject({
    reason: 'secrets_unreadable',
    message: expect.stringContaining('cannot read env:PUSH_KEY'),
  });
});
