import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { NOW, startGateway } from './gateway.ts';

const URL = 'https://publisher.example/keys';
const BODY = '{"event":"order.paid"}';
const first = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const second = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const setOf = (...pairs: [string, typeof first][]) =>
  JSON.stringify({ keys: pairs.map(([kid, { publicKey }]) => ({ ...publicKey.export({ format: 'jwk' }), kid })) });

function tokenOf([kid, { privateKey }]: [string, typeof first], seconds: number, body = BODY): string {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const hash = createHash('sha256').update(body).digest('hex');
  const input = `${encode({ alg: 'ES256', kid })}.${encode({ iat: seconds, aud: 'hooks', hash })}`;
  return `${input}.${sign('sha256', Buffer.from(input), { key: privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
}

async function open(mode: 'Off' | 'Audit' | 'Enforce' = 'Enforce') {
  const at: { answer: string | undefined } = { answer: undefined };
  const inputs = {
    webhookSignatureScheme: 'Jwt',
    webhookJwksUrl: URL,
    webhookJwtAudience: 'hooks',
    webhookJwtBodyHashClaim: 'hash',
    webhookRequireTimestamp: true,
    webhookReplayToleranceSeconds: 300,
    webhookEnforcementMode: mode,
  };
  const gateway = await startGateway({
    triggers: { orders: inputs },
    extensions: {
      fetchFromPublisher: async (url) => {
        if (at.answer === undefined || url !== URL) throw new Error('down');
        return at.answer;
      },
    },
  });
  const send = (token: string, body = BODY) =>
    gateway.deliver('orders', {
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body,
    });
  return { at, gateway, send };
}

const SECONDS = NOW / 1000;

describe('the key set of a publisher', () => {
  it('that cannot be fetched refuses nothing for good: 503 under Enforce, and the same delivery passes later, once', async () => {
    const { at, gateway, send } = await open();
    const token = tokenOf(['k1', first], SECONDS);
    const refused = await send(token);
    expect(refused.status).toBe(503);
    expect(JSON.parse(refused.text)).toMatchObject({ reason: 'verification_unavailable' });
    expect(await gateway.countRuns()).toBe(0);
    at.answer = setOf(['k1', first]);
    gateway.setNow(NOW + 30_000);
    expect((await send(token)).status).toBe(200);
    expect(JSON.parse((await send(token)).text)).toMatchObject({ statusCode: 409, reason: 'nonce_replayed' });
    expect((await send(token, `${BODY} `)).status).toBe(401);
    expect((await send(tokenOf(['k1', second], SECONDS))).status).toBe(401);
    gateway.setNow(NOW + 301_000);
    expect(JSON.parse((await send(tokenOf(['k1', first], SECONDS, '1'), '1')).text)).toMatchObject({
      reason: 'timestamp_skew',
    });
    expect(await gateway.countRuns()).toBe(1);
  });

  it.each(['Off', 'Audit'] as const)('that cannot be fetched is told under %s, which accepts', async (mode) => {
    const { gateway, send } = await open(mode);
    expect((await send(tokenOf(['k1', first], SECONDS))).status).toBe(200);
    expect(await gateway.latestDelivery()).toMatchObject({ reason: 'verification_unavailable', rejected: true });
  });

  it('tells of a key that is new in it, and of none that was there at first', async () => {
    const { at, gateway, send } = await open();
    at.answer = setOf(['k1', first]);
    expect((await send(tokenOf(['k1', first], SECONDS))).status).toBe(200);
    const told = async () =>
      JSON.parse(await gateway.get('/flows/api/attention')) as { kind: string; message: string }[];
    expect((await told()).map(({ kind }) => kind)).not.toContain('key_set_changed');
    at.answer = setOf(['k1', first], ['k2', second]);
    gateway.setNow(NOW + 30_000);
    expect((await send(tokenOf(['k2', second], SECONDS + 30))).status).toBe(200);
    const items = (await told()).filter(({ kind }) => kind === 'key_set_changed');
    expect(items).toMatchObject([
      { severity: 'info', triggerKey: 'orders', message: expect.stringContaining('id k2, fingerprint ') },
    ]);
    const lines = gateway.logged.map((line) => JSON.parse(line)).filter(({ eventId }) => eventId === 4013);
    expect(lines).toMatchObject([{ eventName: 'WebhookKeySetChanged', url: URL, id: 'k2' }]);
    gateway.setNow(NOW + 30_000 + 86_400_000);
    expect((await told()).map(({ kind }) => kind)).not.toContain('key_set_changed');
  });

  it('keeps no token that an operator could send again, and shows the grade', async () => {
    const { at, gateway, send } = await open();
    at.answer = setOf(['k1', first]);
    await send(tokenOf(['k1', first], SECONDS));
    expect((await gateway.latestDelivery()).headers.authorization).toBe('[redacted]');
    expect(await gateway.get('/flows/api/flows')).toContain('"grade":"B"');
  });
});
