import { createHmac } from 'node:crypto';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import type { SettingsInput } from '../../../src/config/settings-schema.ts';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import { openSqliteStore } from '../../../src/store/sqlite/client.ts';
import { BUILT_IN_SCHEMES } from '../../../src/webhooks/schemes/publishers/index.ts';
import { signDelivery } from '../../../src/webhooks/schemes/sign.ts';
import { isOnPostgres } from '../../database.ts';
import {
  type Gateway,
  type GatewayOptions,
  type Hook,
  NOW,
  type Sent,
  sharedGateways,
  startGateway,
} from '../../publishers/gateway.ts';
import { temporaryFolder } from '../../temporary.ts';
import { KEYS } from '../../webhooks/schemes/fixtures.ts';

const withKey = (inputs: WebhookInputs): WebhookInputs => {
  const key = KEYS[inputs.webhookSignatureScheme ?? ''];
  return inputs.webhookSecret === undefined && key !== undefined ? { webhookHmacKey: key, ...inputs } : inputs;
};

const share = sharedGateways();
const open = (inputs: WebhookInputs, settings?: SettingsInput): Promise<Hook> => share(withKey(inputs), settings);

/** A service for one test, stopped when it ends. */
async function start(
  inputs: WebhookInputs,
  options: Omit<GatewayOptions, 'triggers'> = {},
): Promise<Gateway & { send(sent: Sent): ReturnType<Gateway['deliver']> }> {
  const gateway = await startGateway({ triggers: { hook: withKey(inputs) }, ...options });
  return { ...gateway, send: (sent) => gateway.deliver('hook', sent) };
}

const ORIGIN = 'https://hooks.example.com';

/** As the publisher sends it to a URL. */
function signed(
  scheme: string,
  given: { body?: string | Buffer; contentType?: string; id?: string; at?: number; url?: string } = {},
) {
  const spec = BUILT_IN_SCHEMES.find(({ name }) => name === scheme);
  if (spec === undefined) throw new Error(`no scheme ${scheme}`);
  const { body = '{"a":1}', contentType = 'application/json', id = 'id-1', at = NOW, url = ORIGIN } = given;
  const key = KEYS[scheme] ?? '';
  const request = { spec, key, contentType, url, deliveryId: id, timestampMs: at };
  const { headers, body: sent } = signDelivery({ ...request, body: Buffer.from(body) });
  return { headers, body: sent };
}

const reasonOf = (text: string): unknown => JSON.parse(text).reason;

describe('authentication', () => {
  it('reads Authorization before it is redacted, and keeps no copy of it', async () => {
    const { send, latestDelivery } = await open({ webhookSignatureScheme: 'MicrosoftTeams' });
    expect((await send(signed('MicrosoftTeams'))).status).toBe(200);
    expect((await latestDelivery()).headers.authorization).toBe('[redacted]');
  });

  it('judges the signature before it parses the body: a forged body that is not JSON is 401 and not 400', async () => {
    const { send } = await open({ webhookSignatureScheme: 'GitHub' });
    const broken = signed('GitHub', { body: '{"a":' });
    expect(reasonOf((await send(broken)).text)).toBe('invalid_json');
    expect(reasonOf((await send({ ...broken, body: '{"b":' })).text)).toBe('signature_mismatch');
  });

  it('opens nothing with the SHA-1 switch but the schemes that a trigger names', async () => {
    const { send } = await open({ webhookSignatureScheme: 'GitHub' }, { allowLegacySha1: true });
    const digest = createHmac('sha1', KEYS.GitHub ?? '')
      .update('{}')
      .digest('hex');
    for (const name of ['x-hub-signature', 'x-hub-signature-256']) {
      expect((await send({ headers: { [name]: `sha1=${digest}` }, body: '{}' })).status).toBe(401);
    }
  });

  it.each([
    ['Square', 'application/json', '{"a":1}'],
    ['Twilio', 'application/x-www-form-urlencoded', 'a=1&b=2'],
  ])('verifies the https URL that the publisher of %s called behind a TLS proxy', async (scheme, contentType, body) => {
    const forwarded = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'hooks.example.com' };
    const statusOf = async (settings: SettingsInput, added: Record<string, string> = {}) => {
      const { path, send } = await open({ webhookSignatureScheme: scheme }, settings);
      const sent = signed(scheme, { contentType, body, url: `${ORIGIN}${path}` });
      return (await send({ ...sent, headers: { ...sent.headers, ...added } })).status;
    };
    expect(await statusOf({ trustedProxies: ['127.0.0.0/8'] }, forwarded)).toBe(200);
    expect(await statusOf({ publicUrl: ORIGIN })).toBe(200);
    expect(await statusOf({})).toBe(401);
    expect(await statusOf({}, forwarded), 'nobody is trusted to say so').toBe(401);
  });

  it.each([
    ['host', 'http://hooks.example.com', { 'x-forwarded-host': 'hooks.example.com' }],
    ['protocol', ORIGIN, { host: 'hooks.example.com', 'x-forwarded-proto': 'https' }],
  ])('believes the forwarded %s of the URL only of a trusted proxy', async (_name, origin, forwarded) => {
    const judged = async (settings: SettingsInput) => {
      const { path, send } = await open({ webhookSignatureScheme: 'Square' }, settings);
      const sent = signed('Square', { url: `${origin}${path}` });
      return (await send({ ...sent, headers: { ...sent.headers, ...forwarded } })).status;
    };
    expect(await judged({ trustedProxies: ['127.0.0.0/8'] })).toBe(200);
    expect(await judged({ trustedProxies: ['192.0.2.1'] })).toBe(401);
    expect(await judged({})).toBe(401);
  });

  it('demands no key header where the legacy name of the key is used', async () => {
    const { send } = await open({ webhookSignatureScheme: 'GitHub', webhookSecret: KEYS.GitHub });
    expect((await send(signed('GitHub'))).status).toBe(200);
  });

  it('opens no allow list to an X-Forwarded-For that the client wrote itself', async () => {
    const inputs = { webhookIpAllowList: ['203.0.113.7'] };
    const direct = await open(inputs);
    const behindOne = await open(inputs, { forwardedHeaderDepth: 1 });
    const headers = { 'x-forwarded-for': '203.0.113.7' };
    for (const { send } of [direct, behindOne]) {
      expect(reasonOf((await send({ headers, body: '{}' })).text)).toBe('ip_not_allowed');
    }
  });

  it('says at the start which triggers have a scheme and a key but are not enforced', async () => {
    const inputs = { webhookSignatureScheme: 'GitHub' };
    const { summary } = await start(inputs, { settings: { enforcementMode: 'Off' } });
    expect(summary).toEqual(['Webhook triggers that are not enforced (1 of 1): publishers/hook: mode Off']);
    const unset = await start(inputs, { settings: { enforcementMode: undefined } });
    expect(unset.summary).toEqual(summary);
  });
});

describe('replay', () => {
  it('is known by the signed bytes: neither another delivery id nor another unsigned timestamp makes it new', async () => {
    const inputs = { webhookSignatureScheme: 'GitHub', webhookReplayToleranceSeconds: 300 };
    const { send } = await open({ ...inputs, webhookTimestampHeader: 'X-Webhook-Timestamp' });
    const seconds = NOW / 1000;
    for (const [id, timestamp, expected] of [
      ['id-1', seconds, 200],
      ['id-2', seconds, 409],
      ['id-1', seconds + 1, 409],
      ['id-3', seconds - 1, 409],
    ] as const) {
      const { headers, body } = signed('GitHub', { id });
      const sent = { headers: { ...headers, 'x-webhook-timestamp': String(timestamp) }, body };
      expect((await send(sent)).status, `${id} ${timestamp}`).toBe(expected);
    }
  });

  it('is not made fresh by an unsigned timestamp in addition to the signed one', async () => {
    const inputs = { webhookSignatureScheme: 'Stripe', webhookReplayToleranceSeconds: 300 };
    const { send } = await open({ ...inputs, webhookTimestampHeader: 'X-Webhook-Timestamp' });
    const { headers, body } = signed('Stripe', { at: NOW - 301_000 });
    const answer = await send({ headers: { ...headers, 'x-webhook-timestamp': String(NOW / 1000) }, body });
    expect([answer.status, reasonOf(answer.text)]).toEqual([401, 'timestamp_skew']);
  });

  // Skipped on PostgreSQL: the database trigger that simulates a full disk is SQLite's.
  it.skipIf(isOnPostgres())(
    'burns no nonce when the delivery could not be stored: the publisher’s retry is accepted',
    async () => {
      const folder = temporaryFolder('known-mistakes');
      const path = join(folder, 'sluice.db');
      await (await openSqliteStore({ path })).close();
      const database = new Database(path);
      // Runs that start at this instant cannot be stored, as on a full disk; those a millisecond later can.
      const isNow = `NEW.started_at = ${NOW}`;
      database.exec(`CREATE TRIGGER full BEFORE INSERT ON runs WHEN ${isNow} BEGIN SELECT RAISE(ABORT, 'full'); END`);
      database.close();
      const inputs = { webhookSignatureScheme: 'GitHub', webhookNonceHeader: 'X-GitHub-Delivery' };
      const gateway = await start(inputs, { folder, settings: { databaseUrl: `sqlite:${path}` } });
      const lost = await gateway.send(signed('GitHub'));
      expect([lost.status, reasonOf(lost.text)]).toEqual([503, 'store_unavailable']);
      expect([await gateway.countRuns(), await gateway.get('/flows/api/webhooks/recent')]).toEqual([0, '[]']);
      gateway.setNow(NOW + 1);
      expect((await gateway.send(signed('GitHub'))).status).toBe(200);
      expect((await gateway.send(signed('GitHub'))).status).toBe(409);
      expect(await gateway.countRuns()).toBe(1);
    },
  );

  it('of two racing deliveries accepts one and refuses the other with 409, never 500', async () => {
    const inputs = { webhookSignatureScheme: 'GitHub', webhookNonceHeader: 'X-GitHub-Delivery' };
    const { send, countRuns } = await open(inputs);
    const answers = await Promise.all(Array.from({ length: 8 }, () => send(signed('GitHub'))));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(7).fill(409)]);
    expect(await countRuns()).toBe(1);
  });
});

describe('the body and the answer', () => {
  it('takes a push of 25 MB where the cap says so', async () => {
    const body = Buffer.from(`{"blob":"${'x'.repeat(25 * 1024 * 1024 - 11)}"}`);
    const sent = signed('GitHub', { body });
    const inputs = { webhookSignatureScheme: 'GitHub' };
    const wide = await open(inputs, { maxBodyBytes: body.byteLength });
    expect((await wide.send(sent)).status).toBe(200);
    expect(await wide.countRuns()).toBe(1);
  });

  it.each(['Off', 'Audit', 'Enforce'] as const)(
    'refuses a body over the cap under %s',
    async (webhookEnforcementMode) => {
      const { send } = await open({ webhookEnforcementMode }, { maxBodyBytes: 10 });
      expect((await send({ body: 'x'.repeat(10) })).status).toBe(200);
      const refused = await send({ body: 'x'.repeat(11) });
      expect([refused.status, reasonOf(refused.text)]).toEqual([413, 'body_too_large']);
    },
  );

  it.each([
    ['Twilio', 'text/xml', '<Response/>'],
    ['MicrosoftTeams', 'application/json', '{"type":"message","text":"Received."}'],
  ])('answers %s as it reads answers', async (scheme, contentType, text) => {
    const { path, send } = await open({ webhookSignatureScheme: scheme }, { publicUrl: ORIGIN });
    const url = `${ORIGIN}${path}`;
    const form = { contentType: 'application/x-www-form-urlencoded', body: 'a=1' };
    const answer = await send(signed(scheme, scheme === 'Twilio' ? { ...form, url } : { url }));
    expect(answer).toMatchObject({ status: 200, text });
    expect(answer.headers['content-type']).toMatch(new RegExp(`^${contentType}(;|$)`));
  });
});
