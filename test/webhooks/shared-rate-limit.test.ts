import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { buildApp } from '../database.ts';
import { openKind } from '../store/stores.ts';
import { temporaryFolder } from '../temporary.ts';
import { FakeClock } from './samples.ts';

const manifest = {
  id: '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10',
  name: 'limited',
  version: '1',
  triggers: {
    push: {
      type: 'webhook',
      inputs: {
        webhookSlug: 'push',
        webhookEnforcementMode: 'Enforce',
        webhookRateLimitPermitsPerSecond: 1,
        webhookRateLimitBurstSize: 11,
      },
    },
  },
  steps: { only: { type: 'NoOp' } },
};

/** Starts this many services, whose heartbeats find this many replicas. */
async function services(count: number) {
  const clock = new FakeClock();
  const folder = temporaryFolder('shared-limit');
  await writeFile(join(folder, 'limited.json'), JSON.stringify(manifest));
  const apps = await Promise.all(
    Array.from({ length: count }, async () => {
      const store = await openKind('log in the database', ':memory:');
      const app = await buildApp({
        settings: { manifests: folder, databaseUrl: 'sqlite::memory:', host: '127.0.0.1', port: 0 },
        store: { ...store, beat: async ({ ledgerAt }) => ({ at: undefined, ledgerAt, replicas: count, died: [] }) },
        clock,
      });
      await app.listen();
      return app;
    }),
  );
  return {
    clock,
    /** Sends this many deliveries to each; returns how many pass. */
    async passed(each: number): Promise<number> {
      let passed = 0;
      for (const { fastify } of apps) {
        for (let n = 0; n < each; n += 1) {
          const delivery = { method: 'POST', url: '/flows/api/webhook/push', body: { n } } as const;
          const { statusCode } = await fastify.inject(delivery);
          if (statusCode !== 429) expect(statusCode).toBe(200);
          if (statusCode === 200) passed += 1;
        }
      }
      return passed;
    },
  };
}

it('two services admit together what one admits, within one permit', async () => {
  const [one, two] = [await services(1), await services(2)];
  expect([await one.passed(15), await two.passed(15)]).toEqual([11, 10]);
  for (const { clock } of [one, two]) clock.advance(6000);
  expect([await one.passed(15), await two.passed(15)]).toEqual([6, 6]);
});
