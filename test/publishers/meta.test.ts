import { beforeAll, describe, expect, it } from 'vitest';
import { storedText } from '../database.ts';
import { type Gateway, startGateway } from './gateway.ts';

const MODES = ['Off', 'Audit', 'Enforce'] as const;
const TOKEN = 'verify-token-5c1d9e';
const CHALLENGE = '1158201444';

let gateway: Gateway;
beforeAll(async () => {
  const modes = MODES.flatMap((mode) => {
    const inputs = { webhookSignatureScheme: 'meta', webhookHmacKey: 'app secret', webhookEnforcementMode: mode };
    return [
      [`meta-${mode.toLowerCase()}`, { ...inputs, webhookVerifyToken: TOKEN }],
      [`bare-${mode.toLowerCase()}`, inputs],
    ] as const;
  });
  gateway = await startGateway({
    triggers: {
      ...Object.fromEntries(modes),
      walled: {
        webhookSignatureScheme: 'Meta',
        webhookHmacKey: 'app secret',
        webhookVerifyToken: TOKEN,
        webhookIpDenyList: ['127.0.0.1'],
      },
    },
    settings: { databaseUrl: 'sqlite:sluice.db' },
  });
});

const subscribe = (slug: string, changed: Record<string, string> = {}) => {
  const query = { 'hub.mode': 'subscribe', 'hub.verify_token': TOKEN, 'hub.challenge': CHALLENGE, ...changed };
  return gateway.deliver(slug, { method: 'GET', query: `?${new URLSearchParams(query)}` });
};

describe.each(MODES.map((mode) => mode.toLowerCase()))('under %s the handshake of Meta', (mode) => {
  it('is answered only with the right token', async () => {
    expect(await subscribe(`meta-${mode}`)).toMatchObject({ status: 200, text: CHALLENGE });
    for (const token of ['', 'verify-token-5c1d9f', `${TOKEN}x`]) {
      const answer = await subscribe(`meta-${mode}`, { 'hub.verify_token': token });
      expect(answer.status).toBe(403);
      expect(JSON.parse(answer.text)).toMatchObject({ statusCode: 403, reason: 'signature_mismatch' });
      expect(await gateway.latestDelivery()).toMatchObject({
        reason: 'signature_mismatch',
        violations: ['signature_mismatch'],
        detail: 'handshake hub.challenge: hub.verify_token is not webhookVerifyToken',
        runId: null,
      });
    }
  });

  it('is refused where the trigger has no token, even to who sends none', async () => {
    for (const token of [TOKEN, '', 'undefined']) {
      const answer = await subscribe(`bare-${mode}`, { 'hub.verify_token': token });
      expect([answer.status, JSON.parse(answer.text).reason]).toEqual([403, 'key_not_configured']);
    }
  });

  it.each(['<script>alert(1)</script>', '', 'a b', 'é', '1'.repeat(257)])('echoes no %j', async (challenge) => {
    const answer = await subscribe(`meta-${mode}`, { 'hub.challenge': challenge });
    expect(answer.status).toBe(401);
    expect(answer.headers['content-type']).toMatch(/^application\/json/);
  });

  it('accepts no mode but subscribe', async () => {
    expect((await subscribe(`meta-${mode}`, { 'hub.mode': 'unsubscribe' })).status).toBe(403);
  });
});

it('is not answered where the gates before the signature refuse', async () => {
  expect((await subscribe('walled')).status).toBe(403);
});

it('says at load which trigger cannot be registered', () => {
  const missing = gateway.warnings.filter((line) => line.includes('webhookVerifyToken: is missing'));
  expect(missing).toHaveLength(MODES.length);
});

it('never tells the token: in no answer, log line or row', async () => {
  await subscribe('nobody');
  const recent = await gateway.get('/flows/api/webhooks/recent?take=500');
  const flows: { id: string }[] = JSON.parse(await gateway.get('/flows/api/flows'));
  const details = await Promise.all(
    (JSON.parse(recent) as { id: string }[]).map(({ id }) => gateway.get(`/flows/api/webhooks/${id}`)),
  );
  const flow = await gateway.get(`/flows/api/flows/${flows[0]?.id}`);
  await gateway.close();
  const rows = await storedText(gateway.folder, 'sqlite:sluice.db');
  const seen = [recent, ...details, flow, ...gateway.logged, rows, ...gateway.warnings, ...gateway.summary];
  expect(seen.filter((text) => text.includes(TOKEN))).toEqual([]);
  expect(flow).toContain('"webhookVerifyToken":"***"');
  expect(rows).toContain('hub.challenge');
});
