import { createHash, createHmac, generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pino from 'pino';
import { beforeEach, describe, expect, it } from 'vitest';
import type { SluiceApp } from '../../../src/app.ts';
import type { Extensions } from '../../../src/config/api.ts';
import { createKeyKeeper } from '../../../src/features/keys/key-keeper.ts';
import { reportKeys } from '../../../src/features/keys/key-report.ts';
import { keysStore } from '../../../src/features/keys/store.ts';
import { newKey } from '../../../src/store/sealed-body.ts';
import { BUILT_IN_SCHEMES } from '../../../src/webhooks/schemes/publishers/index.ts';
import { signDelivery } from '../../../src/webhooks/schemes/sign.ts';
import { buildApp } from '../../database.ts';
import { temporaryFolder } from '../../temporary.ts';
import { FakeClock } from '../../webhooks/samples.ts';

const DAY = 86_400_000;
const ID = '0b7e2f44-6c1d-4f0e-9a51-3f0f8d1c2a10';
const KEYS = { A: 'the first key, of 24 bytes', B: 'the second key, of 24 bytes', C: 'the third key, of 24 bytes' };
const logger = pino({ level: 'silent' });
const env = {
  A: KEYS.A,
  B: KEYS.B,
  C: KEYS.C,
  SHORT: 'short',
  TOKEN: 'a token of some length',
  OLD_TOKEN: 'an older token',
};

let folder: string;
let clock: FakeClock;
let app: SluiceApp;
let nth = 0;

const hook = (inputs: Record<string, unknown>) => ({
  type: 'webhook',
  inputs: { webhookSlug: 'shop', webhookSignatureScheme: 'GitHub', webhookEnforcementMode: 'Enforce', ...inputs },
});

function write(triggers: Record<string, unknown>, version = '1'): void {
  const manifest = { id: ID, name: 'orders', version, triggers, steps: {} };
  writeFileSync(join(folder, 'orders.json'), JSON.stringify(manifest));
}

async function start(triggers: Record<string, unknown>, given: { storeKey?: string; extensions?: Extensions } = {}) {
  const { storeKey, extensions } = given;
  write(triggers);
  app = await buildApp({
    settings: { manifests: folder, databaseUrl: 'sqlite::memory:', ...(storeKey === undefined ? {} : { storeKey }) },
    ...(extensions === undefined ? {} : { extensions }),
    environment: env,
    clock,
    logger,
    // A rotation names another key, which widens access.
    allow: ['access'],
  });
  await note();
}

/** The service does this once a minute. */
async function note(): Promise<void> {
  const keeper = createKeyKeeper({ store: app.store, triggers: app.triggers, clock, logger });
  keeper.sweep();
  await keeper.stop();
}

/** Lets whole days pass while the service runs. */
async function pass(days: number): Promise<void> {
  for (let half = 0; half < 2 * days; half += 1) {
    clock.advance(DAY / 2);
    await note();
  }
}

async function deploy(triggers: Record<string, unknown>, version: string): Promise<void> {
  write(triggers, version);
  await app.reload();
  await note();
}

interface Sent {
  readonly slug?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

async function send(key: string, { slug = 'shop', headers = {}, body }: Sent = {}): Promise<number> {
  nth += 1;
  const bytes = body ?? JSON.stringify({ nth });
  const signature = `sha256=${createHmac('sha256', key).update(bytes).digest('hex')}`;
  const answer = await app.fastify.inject({
    method: 'POST',
    url: `/flows/api/webhook/${slug}`,
    headers: {
      'content-type': 'application/json',
      'user-agent': 'Publisher/1',
      'x-hub-signature-256': signature,
      ...headers,
    },
    body: bytes,
  });
  return answer.statusCode;
}

const report = () => reportKeys({ store: app.store, triggers: app.triggers(), clock });
const previousKey = async () => (await report()).find(({ role }) => role === 'previous');
const counts = async () => (await report()).map(({ role, reference, count }) => [role, reference, count]);

beforeEach(() => {
  folder = temporaryFolder('keys');
  clock = new FakeClock();
});

const rotated = { shop: hook({ webhookHmacKey: 'env:B', webhookHmacKeyPrevious: 'env:A' }) };

it('leads through a rotation from the first delivery with the old key to the day when it may go', async () => {
  await start({ shop: hook({ webhookHmacKey: 'env:A' }) });
  await send(KEYS.A);
  clock.advance(2 * DAY);
  await deploy(rotated, '2');
  expect(await previousKey()).toMatchObject({
    reference: 'env:A',
    fingerprint: expect.stringMatching(/^[0-9a-f]{8}$/),
    advice: 'wait',
  });

  clock.advance(1000);
  await send(KEYS.A);
  expect(await previousKey()).toMatchObject({
    ...{ advice: 'not_switched', count: 2, recent: 1 },
    users: [{ clientIp: '127.0.0.1', userAgent: 'Publisher/1', lastAt: clock.now() }],
    message:
      'No delivery to orders/shop was signed with its current key (env:B) yet. The publisher still signs with the previous one (env:A): 1 delivery in 24 hours, the last one at 2026-11-23T12:00:01Z, from 127.0.0.1 ("Publisher/1"). Enter the current key there',
  });
  await send(KEYS.B);
  expect(await previousKey()).toMatchObject({
    advice: 'in_use',
    message:
      'The previous key of orders/shop (env:A) is still used by 127.0.0.1 ("Publisher/1"): 1 delivery in 24 hours, the last one at 2026-11-23T12:00:01Z',
  });

  await pass(1);
  for (const n of [1, 2, 3]) await send(KEYS.B, { body: JSON.stringify({ late: n }) });
  await pass(6);
  expect(await previousKey()).toMatchObject({
    advice: 'may_go',
    message:
      'The previous key of orders/shop may go: not used for 7 days, 3 deliveries with the current one since. Remove webhookHmacKeyPrevious (env:A) from the manifest',
  });
  await deploy({ shop: hook({ webhookHmacKey: 'env:B' }) }, '3');
  expect(await counts()).toEqual([
    ['current', 'env:B', 4],
    ['former', null, 2],
  ]);
});

it('starts the week again with each rotation, whatever the key did before', async () => {
  await start(rotated);
  await send(KEYS.B);
  await pass(8);
  await send(KEYS.B);
  expect(await previousKey()).toMatchObject({ reference: 'env:A', advice: 'may_go' });
  // Setting the clock ahead by a week also proves nothing, before and after the keys are noted again.
  clock.advance(8 * DAY);
  await send(KEYS.B);
  expect(await previousKey()).toMatchObject({ reference: 'env:A', advice: 'wait', message: null });
  await note();
  expect(await previousKey()).toMatchObject({ reference: 'env:A', advice: 'wait' });
  await deploy({ shop: hook({ webhookHmacKey: 'env:C', webhookHmacKeyPrevious: 'env:B' }) }, '2');
  await send(KEYS.C);
  expect(await previousKey()).toMatchObject({ reference: 'env:B', advice: 'wait', count: 3 });
  // Back to the first pair: being unused while it was not configured proves nothing.
  await pass(1);
  await deploy(rotated, '3');
  await send(KEYS.B);
  expect(await previousKey()).toMatchObject({ reference: 'env:A', advice: 'wait', count: 0 });
});

it('counts nothing of what is refused, replayed, delivered again, or only tried', async () => {
  const limited = { ...rotated.shop.inputs, webhookReplayToleranceSeconds: 300 };
  await start({ shop: { type: 'webhook', inputs: limited } });
  const body = '{"once":true}';
  expect(await send(KEYS.A, { body })).toBe(200);
  expect(await send(KEYS.A, { body })).toBe(409);
  expect(await send('a key of someone else')).toBe(401);
  expect(await send(KEYS.A, { body: '{not JSON' })).toBe(400);
  expect(await counts()).toEqual([
    ['current', 'env:B', 0],
    ['previous', 'env:A', 1],
  ]);
  const { items } = await app.store.listDeliveries({ skip: 0, take: 9, refusedOnly: true });
  for (const { id } of items) {
    await app.fastify.inject({ method: 'POST', url: `/flows/api/webhooks/${id}/redeliver`, body: {} });
    await app.fastify.inject({ method: 'GET', url: `/flows/api/webhooks/${id}` });
  }
  await app.fastify.inject({ method: 'POST', url: '/flows/api/webhooks/dry-run/shop', body: {} });
  expect(await counts()).toContainEqual(['previous', 'env:A', 1]);
});

describe.each(['Off', 'Audit'])('under %s', (mode) => {
  it('counts what a key verified, not what was let in without', async () => {
    await start({
      shop: hook({ ...rotated.shop.inputs, webhookReplayToleranceSeconds: 300, webhookEnforcementMode: mode }),
    });
    const body = '{"once":true}';
    expect([await send(KEYS.A, { body }), await send(KEYS.A, { body }), await send('another key')]).toEqual([
      200, 200, 200,
    ]);
    expect(await counts()).toEqual([
      ['current', 'env:B', 0],
      ['previous', 'env:A', 1],
    ]);
  });
});

it('says of a key that is both that it may go, and counts it as the current one', async () => {
  await start({ shop: hook({ webhookHmacKey: 'env:A', webhookHmacKeyPrevious: 'env:A' }) });
  await send(KEYS.A);
  expect(await counts()).toEqual([
    ['current', 'env:A', 1],
    ['previous', 'env:A', 0],
  ]);
  expect(await previousKey()).toMatchObject({
    advice: 'same_key',
    message: expect.stringContaining('Remove webhookHmacKeyPrevious'),
  });
});

it('keeps the keys of each trigger apart, also where one moves to another', async () => {
  const other = hook({ webhookSlug: 'other', webhookHmacKey: 'env:C' });
  await start({ ...rotated, other });
  await send(KEYS.A);
  await send(KEYS.C, { slug: 'other' });
  await deploy(
    { shop: hook({ webhookHmacKey: 'env:B' }), other: hook({ webhookSlug: 'other', webhookHmacKey: 'env:A' }) },
    '2',
  );
  await send(KEYS.A, { slug: 'other' });
  const rows = (await report()).map(({ triggerKey, role, count }) => [triggerKey, role, count]);
  expect(rows).toEqual([
    ['shop', 'current', 0],
    ['shop', 'former', 1],
    ['other', 'current', 1],
    ['other', 'former', 1],
  ]);
});

it('takes the word of a delivery that both keys signed for the current key', async () => {
  const webhookSignatureScheme = 'Stripe';
  await start({ shop: hook({ ...rotated.shop.inputs, webhookSignatureScheme }) });
  const t = Math.floor(clock.now() / 1000);
  const body = '{"nth":1}';
  const v1 = (key: string) => `v1=${createHmac('sha256', key).update(`${t}.${body}`).digest('hex')}`;
  expect(await send('', { body, headers: { 'stripe-signature': `t=${t},${v1(KEYS.A)},${v1(KEYS.B)}` } })).toBe(200);
  expect(await counts()).toEqual([
    ['current', 'env:B', 1],
    ['previous', 'env:A', 0],
  ]);
});

it('counts keys of every kind: tokens, public keys, and what an operator’s code verified', async () => {
  const verifier = {
    name: 'ours',
    verify: ({ delivery }: { delivery: { headers: Readonly<Record<string, string>> } }) => ({
      outcome: delivery.headers['x-old'] === undefined ? ('verified' as const) : ('verifiedWithPreviousKey' as const),
    }),
  };
  const pairs = [
    generateKeyPairSync('ec', { namedCurve: 'P-256' }),
    generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  ];
  const [now, before] = pairs.map(({ publicKey, privateKey }) => ({
    public: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    private: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  }));
  const both = { webhookHmacKey: 'env:B', webhookHmacKeyPrevious: 'env:A' };
  const token = { webhookHmacKey: 'env:TOKEN', webhookHmacKeyPrevious: 'env:OLD_TOKEN' };
  const ecdsa = { webhookHmacKey: now?.public, webhookHmacKeyPrevious: before?.public };
  await start(
    {
      code: hook({ webhookSlug: 'code', webhookSignatureScheme: 'ours', ...both }),
      token: hook({ webhookSlug: 'token', webhookSignatureScheme: 'Telegram', ...token }),
      ecdsa: hook({ webhookSlug: 'ecdsa', webhookSignatureScheme: 'SendGrid', ...ecdsa }),
    },
    { extensions: { verifiers: [verifier] } },
  );
  expect(await send('', { slug: 'code', headers: { 'x-old': '1' } })).toBe(200);
  const body = '{"update_id":1}';
  expect(await send('', { slug: 'token', body, headers: { 'x-telegram-bot-api-secret-token': env.OLD_TOKEN } })).toBe(
    200,
  );
  const spec = BUILT_IN_SCHEMES.find(({ name }) => name === 'SendGrid');
  if (spec === undefined) throw new Error('the scheme has another name');
  for (const key of [now, before]) {
    const signed = signDelivery({
      ...{ spec, key: key?.private ?? '', body: Buffer.from('[]'), url: 'http://localhost/x' },
      ...{ deliveryId: 'x', contentType: 'application/json', timestampMs: clock.now() },
    });
    const headers = Object.fromEntries(
      Object.entries(signed.headers).map(([name, value]) => [name.toLowerCase(), value]),
    );
    expect(await send('', { slug: 'ecdsa', body: signed.body.toString(), headers })).toBe(200);
  }
  const rows = (await report()).map(({ triggerKey, role, count, fingerprint }) => [
    triggerKey,
    role,
    count,
    fingerprint !== null,
  ]);
  expect(rows).toEqual([
    ['code', 'current', 0, false],
    ['code', 'previous', 1, false],
    ['token', 'current', 0, false],
    ['token', 'previous', 1, false],
    ['ecdsa', 'current', 1, true],
    ['ecdsa', 'previous', 1, true],
  ]);
});

describe('what is stored of a key', () => {
  const names = async () =>
    (await app.store.of(keysStore).listKeyFigures({ recentSince: 0 })).map(({ keyName }) => keyName);

  it('tells a reader of the database nothing that a guess could be checked with', async () => {
    const storeKey = newKey();
    const rotating = { shop: hook({ webhookHmacKey: 'env:SHORT', webhookHmacKeyPrevious: 'env:A' }) };
    await start(rotating, { storeKey });
    const stored = await names();
    expect(stored).toHaveLength(2);
    for (const key of [env.SHORT, KEYS.A]) {
      const guess = createHash('sha256').update(key).digest('hex');
      for (const name of stored) expect(guess.includes(name) || name.includes(guess.slice(0, 8))).toBe(false);
    }
    // The same with the same store key, so that a restart continues the counts.
    const before = new Set(stored);
    await app.close();
    await start(rotating, { storeKey });
    expect(new Set(await names())).toEqual(before);
  });

  it('is its fingerprint without a store key, and a word by chance where it may have none', async () => {
    await start({ shop: hook({ webhookHmacKey: 'env:SHORT', webhookHmacKeyPrevious: 'env:A' }) });
    const [first] = await names();
    const [current, previous] = await report();
    expect(await names()).toContain(previous?.fingerprint);
    expect(current?.fingerprint).toBeNull();
    await app.close();
    await start({ shop: hook({ webhookHmacKey: 'env:SHORT', webhookHmacKeyPrevious: 'env:A' }) });
    expect(await names()).not.toEqual([first, previous?.fingerprint].toSorted());
  });
});

it('gives no advice to remove a key while another process verifies with one that this process does not have', async () => {
  await start(rotated);
  await pass(1);
  await send(KEYS.B);
  await pass(6);
  expect(await previousKey()).toMatchObject({ advice: 'may_go' });
  const { items } = await app.store.listDeliveries({ skip: 0, take: 1 });
  const run = (await app.store.listRuns({ skip: 0, take: 1 })).items[0];
  expect(items).toHaveLength(1);
  // As a replica would that still has the earlier key.
  const delivery = {
    ...(items[0] as NonNullable<(typeof items)[0]>),
    id: '01939a5e-7c1f-7000-8000-000000000009',
    receivedAt: clock.now(),
  };
  const newRun = {
    ...run,
    id: '01939a5e-7c1f-7000-8000-00000000000a',
    deliveryId: delivery.id,
    startedAt: clock.now(),
    steps: [],
  };
  const trigger = { key: 'shop', body: Buffer.from('{}'), contentType: null, headers: {} };
  await app.store.accept({
    delivery,
    verifiedBy: 'feedface',
    run: { ...newRun, trigger, timeoutAt: null, traceparent: null } as never,
  });
  expect(await previousKey()).toMatchObject({
    advice: 'keys_differ',
    message: expect.stringContaining('Give all replicas the same secrets'),
  });
});

describe('a key that took the place of one that worked', () => {
  const ask = async (path: string) => (await app.fastify.inject(`/flows/api/${path}`)).json();
  const told = async () =>
    (await ask('attention')).filter(({ kind }: { kind: string }) => kind === 'key_refuses_all' || /refus/.test(kind));
  const newest = async () => ask(`webhooks/${(await ask('webhooks/recent?take=1'))[0].id}`);
  const cause =
    'The key behind env:B changed at 2026-11-23T12:00Z and has verified nothing since; the former one verified 2';

  it('is told with its cause once deliveries are refused, until one is verified', async () => {
    await start({ shop: hook({ webhookHmacKey: 'env:A' }) });
    await send(KEYS.A);
    await send(KEYS.A);
    await send('a stranger');
    const before = (await newest()).id;
    clock.advance(2 * DAY);
    await deploy({ shop: hook({ webhookHmacKey: 'env:B' }) }, '2');
    expect(await told()).toEqual([]);
    clock.advance(2000);
    for (const _ of [1, 2, 3]) expect(await send(KEYS.A)).toBe(401);
    expect(await told()).toEqual([
      {
        kind: 'key_refuses_all',
        severity: 'error',
        flowId: ID,
        triggerKey: 'shop',
        link: `/flows/deliveries?flowId=${ID}&reason=signature_mismatch&since=2026-11-23T12:00Z`,
        message: `orders/shop refuses what its publisher sends: 3 deliveries had a signature that does not match since 2026-11-23T12:00:02Z. ${cause}. Enter the new key at the publisher, or put the former one back, and deliver them again`,
      },
    ]);
    expect((await newest()).hints[0]).toBe(cause);
    expect((await ask(`webhooks/${before}`)).hints).toEqual([]);
    expect(await send(KEYS.B)).toBe(200);
    expect(await told()).toEqual([]);
  });

  it('is not told while a previous key still verifies', async () => {
    await start({ shop: hook({ webhookHmacKey: 'env:A' }) });
    await send(KEYS.A);
    clock.advance(2 * DAY);
    await deploy(rotated, '2');
    await send(KEYS.A);
    for (const _ of [1, 2, 3]) expect(await send('a stranger')).toBe(401);
    expect(await told()).toEqual([]);
    expect((await newest()).hints).toEqual([]);
  });

  it('is told where a previous key was kept and verifies nothing either, and under Audit as a cause alone', async () => {
    await start({ shop: hook({ webhookHmacKey: 'env:A' }) });
    await send(KEYS.A);
    clock.advance(2 * DAY);
    await deploy({ shop: hook({ webhookHmacKey: 'env:B', webhookHmacKeyPrevious: 'env:C' }) }, '2');
    clock.advance(1000);
    for (let each = 0; each < 20; each += 1) await send(KEYS.A);
    expect(await told()).toMatchObject([{ kind: 'key_refuses_all' }]);
    await deploy(
      { shop: hook({ webhookHmacKey: 'env:B', webhookHmacKeyPrevious: 'env:C', webhookEnforcementMode: 'Audit' }) },
      '3',
    );
    expect(await told()).toMatchObject([
      {
        kind: 'refusals_rising',
        message: expect.stringMatching(/has verified nothing since; the former one verified 1/),
      },
    ]);
  });
});
