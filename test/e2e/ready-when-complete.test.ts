import { expect, test } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import { holdStore } from '../../src/features/hold/store.ts';
import { buildApp } from '../database.ts';
import { openKind } from '../store/stores.ts';
import { createWorkspace, eventually, githubManifest } from './service.ts';

test('a start that the store fails while it takes up old work tries again, and is ready only when it has', async () => {
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest());
  const store = await openKind('log in the database', ':memory:');
  let tries = 0;
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const listHeld = async () => {
    tries += 1;
    if (tries === 1) throw new StoreUnavailableError('the server closed the connection', { isAway: true });
    await released;
    return store.of(holdStore).listHeld();
  };
  const app = await buildApp({
    settings: { port: 0, databaseUrl: 'sqlite::memory:' },
    folder: workspace.folder,
    store: {
      ...store,
      of: (part) => ({ ...store.of(part), ...(part.name === holdStore.name && { listHeld }) }),
    },
  });
  const readiness = async () => {
    const response = await app.fastify.inject('/health/ready');
    return response.json();
  };
  const listening = app.listen();
  await eventually(
    async () => tries,
    (count) => count >= 2,
  );
  expect(await readiness()).toMatchObject({
    statusCode: 503,
    reason: 'store_unavailable',
    message: 'The service is starting',
  });
  release();
  await listening;
  expect(await readiness()).toEqual({ status: 'ready' });
});
