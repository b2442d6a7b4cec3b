import { createHmac, generateKeyPairSync } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GateConfigurationError } from '../../../src/webhooks/gate.ts';
import { signatureGate } from '../../../src/webhooks/gates/signature.ts';
import { readVerificationKey } from '../../../src/webhooks/schemes/scheme-keys.ts';
import { type SignedDelivery, signDelivery } from '../../../src/webhooks/schemes/sign.ts';
import { sampleTrigger } from '../samples.ts';
import { builtIn, ed25519Pair, judge, KEYS, NOW, received, SIGNING_KEYS, settingsOf } from './fixtures.ts';

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
    expect(() => signDelivery({ ...request, spec, key: privateKey })).toThrow('is not a private key of Discord');
  });
});

describe('a public key that anyone can sign for', () => {
  const P = 2n ** 255n - 19n;
  const D = mod(-121665n * inverse(121666n));
  const L = 2n ** 252n + 27742317777372353535851937790883648493n;
  type Point = readonly [x: bigint, y: bigint];
  type Projective = readonly [x: bigint, y: bigint, z: bigint];

  function mod(value: bigint): bigint {
    return ((value % P) + P) % P;
  }

  function power(base: bigint, exponent: bigint): bigint {
    let result = 1n;
    for (let [square, left] = [mod(base), exponent]; left > 0n; left >>= 1n, square = mod(square * square)) {
      if ((left & 1n) === 1n) result = mod(result * square);
    }
    return result;
  }

  function inverse(value: bigint): bigint {
    return power(value, P - 2n);
  }

  /** In projective coordinates: hundreds of additions need no division. RFC 8032, section 5.1.4, without shortcuts. */
  function add([x1, y1, z1]: Projective, [x2, y2, z2]: Projective): Projective {
    const [xs, ys, z] = [x1 * x2, y1 * y2, mod(z1 * z2)];
    const product = mod(D * mod(xs * ys));
    const [less, more] = [mod(z * z - product), mod(z * z + product)];
    return [mod(z * less * ((x1 + y1) * (x2 + y2) - xs - ys)), mod(z * more * (ys + xs)), mod(less * more)];
  }

  function multiply([px, py]: Point, factor: bigint): Point {
    let result: Projective = [0n, 1n, 1n];
    for (
      let [doubled, left]: [Projective, bigint] = [[px, py, 1n], factor];
      left > 0n;
      left >>= 1n, doubled = add(doubled, doubled)
    ) {
      if ((left & 1n) === 1n) result = add(result, doubled);
    }
    const [x, y, z] = result;
    return [mod(x * inverse(z)), mod(y * inverse(z))];
  }

  /** The point with this y, if there is one: x squared is (y^2 - 1) / (d y^2 + 1). */
  function pointAt(y: bigint): Point | undefined {
    const square = mod((y * y - 1n) * inverse(D * y * y + 1n));
    const root = power(square, (P + 3n) / 8n);
    const x = mod(root * root) === square ? root : mod(root * power(2n, (P - 1n) / 4n));
    return mod(x * x) === square ? [x, y] : undefined;
  }

  /** Multiplied by the order of the large subgroup, a point keeps its part in the small one: RFC 8032, section 5.1. */
  function smallOrderPoints(): Point[] {
    const found = new Map<string, Point>();
    for (let y = 2n; found.size < 8; y += 1n) {
      const point = pointAt(y);
      if (point === undefined) continue;
      for (const [x, at] of [point, [mod(-point[0]), point[1]] as const]) {
        const small = multiply([x, at], L);
        found.set(small.join(), small);
      }
    }
    return [...found.values()];
  }

  function encodingsOf([, y]: Point): Buffer[] {
    const spelled = y < 19n ? [y, y + P] : [y];
    return spelled.flatMap((value) =>
      [0n, 1n].map((sign) => Buffer.from((value | (sign << 255n)).toString(16).padStart(64, '0'), 'hex').reverse()),
    );
  }

  const encodings = [
    ...new Set(
      smallOrderPoints()
        .flatMap(encodingsOf)
        .map((bytes) => bytes.toString('hex')),
    ),
  ];
  const SCHEMES = { Discord: (hex: string) => hex, StandardWebhooks: (hex: string) => `whpk_${toBase64(hex)}` };

  function toBase64(hex: string): string {
    return Buffer.from(hex, 'hex').toString('base64');
  }

  it('is one of 14 texts', () => {
    expect(encodings).toHaveLength(14);
    expect(encodings).toContain('0'.repeat(64));
  });

  it.each(Object.entries(SCHEMES))('is refused by %s, however it is written', (scheme, write) => {
    for (const hex of encodings) {
      const read = () => readVerificationKey(builtIn(scheme), write(hex), 'webhookHmacKey');
      expect(read, hex).toThrow(GateConfigurationError);
      expect(read, hex).toThrow('small order');
    }
  });

  it('is refused as the previous key of an honest one, by the name of its field', () => {
    const keys = { current: KEYS.Discord ?? '', previous: '0'.repeat(64) };
    const trigger = sampleTrigger(
      { webhookSignatureScheme: 'Discord', webhookHmacKey: 'env:A', webhookHmacKeyPrevious: 'env:B' },
      { keys },
    );
    expect(() => signatureGate.prepare(trigger, settingsOf({}))).toThrow(
      expect.objectContaining({ field: 'webhookHmacKeyPrevious' }),
    );
  });

  it('is not any key that was made, nor another spelling of one', () => {
    const beyond = fc.bigInt({ min: P + 2n, max: 2n ** 255n - 1n });
    const hexOf = (y: bigint) => Buffer.from(y.toString(16).padStart(64, '0'), 'hex').reverse().toString('hex');
    for (let count = 0; count < 20; count += 1) {
      const { x = '' } = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' });
      const hex = Buffer.from(x, 'base64url').toString('hex');
      expect(readVerificationKey(builtIn('Discord'), hex, 'webhookHmacKey').kind).toBe('ed25519');
    }
    fc.assert(
      fc.property(beyond, (y) => {
        expect(() => readVerificationKey(builtIn('Discord'), hexOf(y), 'webhookHmacKey')).toThrow(
          GateConfigurationError,
        );
      }),
    );
  });
});
