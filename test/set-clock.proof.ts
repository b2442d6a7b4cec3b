import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import pino from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { buildApp, type SluiceApp } from '../src/app.ts';
import { fakeClock, START } from './flows/fixture.ts';
import { temporaryFolder } from './temporary.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
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

/** A service on a SQLite file, on a machine with its own clocks; it may be started again. */
async function service(databaseUrl = 'sqlite:sluice.db') {
  const folder = temporaryFolder('set-clock');
  await mkdir(join(folder, 'manifests'));
  await writeFile(join(folder, 'manifests', 'orders.json'), JSON.stringify(manifest));
  const clock = fakeClock();
  const start = () =>
    buildApp({
      settings: { enforcementMode: 'Enforce', databaseUrl, host: '127.0.0.1', port: 0 },
      folder,
      clock,
      logger: pino({ level: 'silent' }),
    });
  let app: SluiceApp = await start();
  onTestFinished(() => app.close());
  const ask = async (method: 'GET' | 'POST', url: string) => {
    const { statusCode, body } = await app.fastify.inject({ method, url });
    return { statusCode, answer: JSON.parse(body) };
  };
  return {
    clock,
    ask,
    restart: async () => {
      await app.close();
      app = await start();
    },
    /** The status of the answer to a delivery with this nonce. */
    deliver: async (id: string) => {
      const sent = { method: 'POST', url: '/flows/api/webhook/orders', headers: { 'x-id': id }, body: {} } as const;
      return (await app.fastify.inject(sent)).statusCode;
    },
    received: async (): Promise<string[]> =>
      (await ask('GET', '/flows/api/webhooks/recent')).answer.map(
        ({ receivedAt }: { receivedAt: string }) => receivedAt,
      ),
  };
}

test.each([
  ['ahead by a day and an hour', 25 * HOUR],
  ['back by a day and an hour', -25 * HOUR],
  ['ahead by a year', 365 * DAY],
])('a clock that is set %s makes no known nonce new', async (_how, ms) => {
  const { clock, deliver, restart } = await service();
  expect(await deliver('1')).toBe(200);
  clock.set(ms);
  expect(await deliver('1')).toBe(503);
  clock.pass(10_000);
  expect(await deliver('1')).toBe(409);
  expect(await deliver('2')).toBe(200);
  await restart();
  expect(await deliver('1')).toBe(409);
  clock.set(-ms);
  await restart();
  expect(await deliver('2')).toBe(409);
});

test('a nonce ends once it was kept for its time, whatever was set meanwhile', async () => {
  const { clock, deliver } = await service('sqlite::memory:');
  expect(await deliver('1')).toBe(200);
  clock.set(30 * DAY);
  expect(await deliver('1')).toBe(503);
  clock.pass(DAY);
  expect(await deliver('1')).toBe(409);
  clock.pass(6000);
  expect(await deliver('1')).toBe(200);
});

test('until a clock that was set has stayed for 10 s nothing is taken, stored or ready', async () => {
  const { clock, deliver, ask, received } = await service('sqlite::memory:');
  expect(await deliver('1')).toBe(200);
  clock.set(HOUR);
  expect(await deliver('2')).toBe(503);
  clock.pass(9999);
  expect(await deliver('2')).toBe(503);
  expect(await ask('GET', '/health/ready')).toMatchObject({ statusCode: 503, answer: { reason: 'clock_offset' } });
  const byHand = await ask('POST', `/flows/api/flows/${FLOW_ID}/trigger`);
  expect(byHand).toMatchObject({ statusCode: 503, answer: { reason: 'clock_offset' } });
  // The clock is set again.
  clock.set(-HOUR / 2);
  clock.pass(1);
  expect(await deliver('2')).toBe(503);
  expect(await received()).toEqual([new Date(START).toISOString()]);
  clock.pass(10_000);
  expect(await ask('GET', '/health/ready')).toMatchObject({ statusCode: 200 });
  expect(await deliver('2')).toBe(200);
  expect(await received()).toEqual([new Date(START + HOUR / 2 + 20_000).toISOString(), new Date(START).toISOString()]);
});

test('a clock that is corrected by a few seconds is followed at once', async () => {
  const { clock, deliver, received } = await service('sqlite::memory:');
  clock.set(-4900);
  expect(await deliver('1')).toBe(200);
  expect(await received()).toEqual([new Date(START - 4900).toISOString()]);
});

test('no story of clocks that are set, sleeps and restarts has a delivery accepted twice within a day', async () => {
  const { clock, deliver, restart } = await service();
  const jump = fc.oneof(fc.integer({ min: -3 * DAY, max: 3 * DAY }), fc.constantFrom(-DAY, DAY, 25 * HOUR, -4000));
  const event = fc.oneof(
    { weight: 4, arbitrary: fc.record({ set: jump }) },
    { weight: 2, arbitrary: fc.record({ pass: fc.oneof(fc.nat({ max: HOUR / 2 }), fc.constant(10_000)) }) },
    { weight: 1, arbitrary: fc.constant({ restart: true }) },
  );
  let stories = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(event, { minLength: 4, maxLength: 12 }), async (story) => {
      stories += 1;
      clock.pass(10_000);
      await deliver('wakes it');
      clock.pass(10_000);
      expect(await deliver(`${stories}`)).toBe(200);
      for (const told of story) {
        if ('set' in told) clock.set(told.set);
        if ('pass' in told) clock.pass(told.pass);
        if ('restart' in told) await restart();
        expect([409, 503]).toContain(await deliver(`${stories}`));
      }
    }),
    { numRuns: 15 },
  );
}, 60_000);
