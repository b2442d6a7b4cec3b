import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import pino from 'pino';
import { expect, inject, onTestFinished, test } from 'vitest';
import { buildApp } from '../../src/app.ts';
import { createServiceClock } from '../../src/model/clock.ts';
import { temporaryFolder } from '../temporary.ts';
import { borrowSchema, runSql } from './schemas.ts';

const HOUR = 3_600_000;
const FLOW_ID = '0b7c9d10-0000-4000-8000-000000000001';
const manifest = {
  id: FLOW_ID,
  name: 'orders',
  version: '1',
  triggers: {
    byHand: { type: 'manual' },
    hook: { type: 'webhook', inputs: { webhookSlug: 'orders', webhookNonceHeader: 'X-Id' } },
  },
  steps: {},
};

/** Replicas of one service, each on a machine whose clock is this far ahead of the database's. */
async function replicas(...aheadMs: number[]) {
  const databaseSchema = borrowSchema();
  const folder = temporaryFolder('clock');
  await writeFile(join(folder, 'orders.json'), JSON.stringify(manifest));
  const shared = { databaseUrl: inject('postgresUrl'), databaseSchema, manifests: folder };
  const started = aheadMs.map(async (ms, index) => {
    const machine = { aheadMs: ms };
    // They follow the database's clock, which tests cannot set.
    const own = { now: () => Date.now() + machine.aheadMs, monotonic: () => performance.now() };
    const clock = createServiceClock(own);
    const app = await buildApp({
      settings: {
        ...shared,
        enforcementMode: 'Enforce',
        replicaName: `replica-${index}`,
        host: '127.0.0.1',
        port: 0,
        drainSeconds: 0,
      },
      clock,
      logger: pino({ level: 'silent' }),
    });
    onTestFinished(() => app.close());
    await app.listen();
    const ask = async (method: 'GET' | 'POST', url: string) => {
      const { statusCode, body } = await app.fastify.inject({ method, url });
      return { statusCode, reason: JSON.parse(body).reason };
    };
    const deliver = async (id: string) => {
      const sent = { method: 'POST', url: '/flows/api/webhook/orders', headers: { 'x-id': id }, body: {} } as const;
      return (await app.fastify.inject(sent)).statusCode;
    };
    return { machine, own, clock, ask, deliver };
  });
  // One after the other, so that each deploys what the first did.
  const running: Awaited<(typeof started)[number]>[] = [];
  for (const one of started) running.push(await one);
  const times = async () => {
    const rows = await runSql(`SELECT started_at AS "at" FROM "${databaseSchema}".runs`);
    return rows.map(({ at }) => Number(at));
  };
  return { running, times };
}

test('a replica whose clock is 25 h ahead takes nothing, is not ready, and says why', async () => {
  const { running, times } = await replicas(0, 25 * HOUR);
  const [right, ahead] = running;
  expect(await right?.deliver('1')).toBe(200);
  expect(await ahead?.deliver('1')).toBe(503);
  expect(await ahead?.deliver('2')).toBe(503);
  expect(await ahead?.ask('GET', '/health/ready')).toEqual({ statusCode: 503, reason: 'clock_offset' });
  expect(await ahead?.ask('POST', `/flows/api/flows/${FLOW_ID}/trigger`)).toEqual({
    statusCode: 503,
    reason: 'clock_offset',
  });
  expect(await times()).toHaveLength(1);
  if (ahead !== undefined) ahead.machine.aheadMs = 0;
  expect(await ahead?.deliver('1')).toBe(409);
  expect(await ahead?.deliver('2')).toBe(200);
  expect(await right?.deliver('2')).toBe(409);
});

test('replicas whose clocks differ by a few seconds store the time of the database', async () => {
  const { running, times } = await replicas(-4000, 4000);
  const known: number[] = [];
  for (const { machine, own, clock, deliver } of running) {
    const [from, offset] = [own.now(), clock.clockOffsetMs()];
    expect(await deliver(`${machine.aheadMs}`)).toBe(200);
    const [until, refined] = [own.now(), clock.clockOffsetMs()];
    // service-clock.test.ts tests the precision: half the duration of a question.
    expect(Math.sign(offset)).toBe(Math.sign(machine.aheadMs));
    const at = (await times()).find((each) => !known.includes(each)) ?? 0;
    known.push(at);
    expect(at).toBeGreaterThanOrEqual(Math.floor(from - Math.max(offset, refined)));
    expect(at).toBeLessThanOrEqual(until - Math.min(offset, refined));
  }
});

test('however the clocks of replicas are set, no delivery is accepted twice', async () => {
  const { running } = await replicas(0, 0);
  const step = fc.record({
    to: fc.nat({ max: 1 }),
    aheadMs: fc.oneof(fc.constantFrom(0, 25 * HOUR, -25 * HOUR), fc.integer({ min: -9000, max: 9000 })),
  });
  let stories = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 8 }), async (story) => {
      stories += 1;
      let accepted = 0;
      for (const { to, aheadMs } of [...story, { to: 0, aheadMs: 0 }, { to: 1, aheadMs: 0 }]) {
        const replica = running[to];
        if (replica !== undefined) replica.machine.aheadMs = aheadMs;
        const statusCode = await replica?.deliver(`${stories}`);
        expect([200, 409, 503]).toContain(statusCode);
        if (statusCode === 200) accepted += 1;
      }
      expect(accepted).toBe(1);
    }),
    { numRuns: 20 },
  );
});
