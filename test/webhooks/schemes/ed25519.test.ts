import { createHmac, generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { type SignedDelivery, signDelivery } from '../../../src/webhooks/schemes/sign.ts';
import { builtIn, ed25519Pair, judge, KEYS, NOW, received, SIGNING_KEYS } from './fixtures.ts';

const request = {
  body: Buffer.from('{"name":"Zoë","list":[1,2,3]}'),
  url: 'https://hooks.example.com/in',
  timestampMs: NOW,
  deliveryId: 'msg_1',
  contentType: 'application/json',
};

function judgeSigned(scheme: string, signed: SignedDelivery, key: string) {
  return judge({ inputs: { webhookSignatureScheme: scheme }, key }, received(signed));
}

describe('StandardWebhooks with Ed25519', () => {
  const spec = builtIn('StandardWebhooks');
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const raw = (jwkField: string | undefined) => Buffer.from(jwkField ?? '', 'base64url');
  const seed = raw(privateKey.export({ format: 'jwk' }).d);
  const point = raw(publicKey.export({ format: 'jwk' }).x);
  const publicText = `whpk_${point.toString('base64')}`;

  it.each([
    ['seed', seed],
    ['seed and public key', Buffer.concat([seed, point])],
  ])('verifies with the public key what the %s signed', async (_, bytes) => {
    const key = `whsk_${bytes.toString('base64')}`;
    const signed = signDelivery({ ...request, spec, key });
    expect(signed.headers['webhook-signature']).toMatch(/^v1a,/);
    expect(await judgeSigned('StandardWebhooks', signed, publicText)).toMatchObject({ passed: true });
    const tampered = { ...signed, body: Buffer.from('{}') };
    expect(await judgeSigned('StandardWebhooks', tampered, publicText)).toMatchObject({ reason: 'signature_mismatch' });
  });

  it('never takes the public key for a secret: everybody could sign', async () => {
    const forged = signDelivery({ ...request, spec, key: `whsec_${point.toString('base64')}` });
    expect(await judgeSigned('StandardWebhooks', forged, publicText)).toMatchObject({ reason: 'signature_mismatch' });
    expect(() => signDelivery({ ...request, spec, key: publicText })).toThrow('public key');
  });
});

describe('Discord', () => {
  const spec = builtIn('Discord');
  const key = KEYS.Discord ?? '';
  const signed = signDelivery({ ...request, spec, key: SIGNING_KEYS.Discord ?? '' });

  it('verifies with a public key in hex of either case', async () => {
    expect(await judgeSigned('Discord', signed, key.toUpperCase())).toMatchObject({ passed: true });
  });

  it('never takes the public key for a secret: everybody could sign', async () => {
    const signedText = `${signed.headers['X-Signature-Timestamp']}${request.body}`;
    for (const bytes of [Buffer.from(key), Buffer.from(key, 'hex')]) {
      const digest = createHmac('sha512', bytes).update(signedText).digest('hex');
      const forged = { ...signed, headers: { ...signed.headers, 'X-Signature-Ed25519': digest } };
      expect(await judgeSigned('Discord', forged, key)).toMatchObject({ reason: 'signature_mismatch' });
    }
  });

  it('takes no digit for the timestamp’s that could be the body’s, verified as it is', async () => {
    const moved = {
      ...signed,
      headers: { ...signed.headers, 'X-Signature-Timestamp': '170000000' },
      body: Buffer.concat([Buffer.from('0'), signed.body]),
    };
    expect(await judgeSigned('Discord', moved, key)).toMatchObject({ passed: false, reason: 'timestamp_malformed' });
  });

  it.each([ed25519Pair(1).privateKey.slice(2), 'not hex', ''])('signs with no key such as %j', (privateKey) => {
    expect(() => signDelivery({ ...request, spec, key: privateKey })).toThrow('is no private key of Discord');
  });
});
