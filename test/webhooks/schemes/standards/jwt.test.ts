import { createHash, createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { createGuardedGet } from '../../../../src/flows/handlers/guarded-get.ts';
import type { WebhookInputs } from '../../../../src/manifest/webhook-inputs.ts';
import type { Delivery } from '../../../../src/model/delivery.ts';
import type { JsonObject } from '../../../../src/model/json.ts';
import type { SignatureSettings } from '../../../../src/webhooks/gates/signature.ts';
import { createSchemeRegistry, resolveScheme } from '../../../../src/webhooks/schemes/resolve.ts';
import { createKeySets } from '../../../../src/webhooks/schemes/standards/key-sets.ts';
import { signByStandard } from '../../../../src/webhooks/schemes/standards/sign.ts';
import { chanceOf } from '../../../chance.ts';
import { deliveryOf, judge, NOW, settingsOf } from '../fixtures.ts';

const SECRET = 'a secret of more than thirty-two bytes';
const OLD_SECRET = 'the secret that was there before that one';
const BODY = '{"event":"order.paid"}';
const IAT = NOW / 1000;
const hashOf = (body: string, encoding: 'hex' | 'base64' | 'base64url' = 'hex', algorithm = 'sha256') =>
  createHash(algorithm).update(body).digest(encoding);

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const p256 = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' });
const p521 = generateKeyPairSync('ec', { namedCurve: 'P-521' });
const ed25519 = generateKeyPairSync('ed25519');
const pem = (key: KeyObject) => key.export({ type: 'spki', format: 'pem' }).toString();
const jwk = (key: KeyObject, others: JsonObject = {}): JsonObject => ({
  ...(key.export({ format: 'jwk' }) as JsonObject),
  ...others,
});

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

/** Signed as in RFC 7515, without a library. */
function token(header: JsonObject, claims: JsonObject, signed: (input: Buffer) => Buffer): string {
  const input = `${encode(header)}.${encode(claims)}`;
  return `${input}.${signed(Buffer.from(input)).toString('base64url')}`;
}

const withSecret =
  (secret: string | Buffer, hash = 'sha256') =>
  (input: Buffer) =>
    createHmac(hash, secret).update(input).digest();
const hs256 = (claims: JsonObject, secret: string | Buffer = SECRET) =>
  token({ alg: 'HS256', typ: 'JWT' }, claims, withSecret(secret));
const es256 = (claims: JsonObject, header: JsonObject = {}) =>
  token({ alg: 'ES256', ...header }, claims, (input) =>
    sign('sha256', input, { key: p256.privateKey, dsaEncoding: 'ieee-p1363' }),
  );

const jwt = (others: WebhookInputs = {}): WebhookInputs => ({
  webhookSignatureScheme: 'Jwt',
  webhookJwtBodyHashClaim: 'hash',
  ...others,
});
const CLAIMS = { iat: IAT, hash: hashOf(BODY) };
const sent = (text: string, others: Partial<Omit<Delivery, 'body'>> & { body?: string } = {}) =>
  deliveryOf({ body: BODY, headers: { authorization: `Bearer ${text}` }, ...others });

interface Asked {
  readonly inputs?: WebhookInputs;
  readonly key?: string | undefined;
  readonly previousKey?: string;
  readonly settings?: SignatureSettings;
  readonly delivery?: Delivery;
}

async function outcome(
  text: string,
  { inputs = jwt(), delivery = sent(text), ...others }: Asked = {},
): Promise<string> {
  const verdict = await judge({ inputs, key: SECRET, ...others }, delivery);
  if (!verdict.passed) return verdict.reason;
  return verdict.evidence?.usedPreviousKey === true ? 'previous' : 'current';
}

describe('a JSON Web Token', () => {
  const rsaSigned = (hash: string) => (input: Buffer) => sign(hash, input, rsa.privateKey);
  const ecSigned = (hash: string, key: KeyObject) => (input: Buffer) =>
    sign(hash, input, { key, dsaEncoding: 'ieee-p1363' });
  const pssSigned = (hash: string, saltLength: number) => (input: Buffer) =>
    sign(hash, input, { key: rsa.privateKey, padding: 6, saltLength });

  it.each<[string, (input: Buffer) => Buffer, string]>([
    ['HS256', withSecret(SECRET), SECRET],
    ['HS384', withSecret(SECRET, 'sha384'), SECRET],
    ['HS512', withSecret(SECRET, 'sha512'), SECRET],
    ['RS256', rsaSigned('sha256'), pem(rsa.publicKey)],
    ['RS384', rsaSigned('sha384'), pem(rsa.publicKey)],
    ['RS512', rsaSigned('sha512'), pem(rsa.publicKey)],
    ['PS256', pssSigned('sha256', 32), pem(rsa.publicKey)],
    ['PS384', pssSigned('sha384', 48), pem(rsa.publicKey)],
    ['PS512', pssSigned('sha512', 64), pem(rsa.publicKey)],
    ['ES256', ecSigned('sha256', p256.privateKey), pem(p256.publicKey)],
    ['ES384', ecSigned('sha384', p384.privateKey), pem(p384.publicKey)],
    ['ES512', ecSigned('sha512', p521.privateKey), pem(p521.publicKey)],
    ['EdDSA', (input) => sign(null, input, ed25519.privateKey), pem(ed25519.publicKey)],
    ['EdDSA', (input) => sign(null, input, ed25519.privateKey), JSON.stringify(jwk(ed25519.publicKey, { kid: 'a' }))],
  ])('signed with %s is verified, and not with one byte changed', async (alg, signed, key) => {
    const text = token({ alg }, CLAIMS, signed);
    expect(await outcome(text, { key })).toBe('current');
    const [header, claims, signature = ''] = text.split('.');
    const broken = Buffer.from(signature, 'base64url');
    broken[3] = (broken[3] ?? 0) ^ 1;
    expect(await outcome(`${header}.${claims}.${broken.toString('base64url')}`, { key })).toBe('signature_mismatch');
    const altered = encode({ ...CLAIMS, iat: IAT + 1 });
    expect(await outcome(`${header}.${altered}.${signature}`, { key })).toBe('signature_mismatch');
  });

  it.each(['hex', 'base64', 'whsec'] as const)('may be signed with bytes that stand in %s', async (encoding) => {
    const [secret, old] = [Buffer.alloc(32, 'ÿ0a'), Buffer.alloc(32, 'ÿ0b')];
    const written = (bytes: Buffer) => bytes.toString(encoding === 'hex' ? 'hex' : 'base64');
    const asked = { inputs: jwt({ webhookKeyEncoding: encoding }), key: written(secret), previousKey: written(old) };
    expect(await outcome(hs256(CLAIMS, secret), asked)).toBe('current');
    expect(await outcome(hs256(CLAIMS, old), asked)).toBe('previous');
    expect(await outcome(hs256(CLAIMS, written(secret)), asked)).toBe('signature_mismatch');
    const scheme = resolveScheme(createSchemeRegistry(), asked.inputs);
    if (scheme?.kind !== 'standard') throw new Error('it is no standard');
    const sending = { standard: scheme.standard, key: asked.key, body: Buffer.from(BODY), url: 'https://a.example/' };
    const { Authorization: line = '' } = await signByStandard({
      ...sending,
      timestampMs: NOW,
      deliveryId: '1',
      headers: {},
    });
    expect(await outcome(line.replace('Bearer ', ''), asked)).toBe('current');
    await expect(outcome(hs256(CLAIMS), { ...asked, key: 'no key!' })).rejects.toThrow('is not a key of Jwt, which is');
  });

  it('may be signed with the previous key', async () => {
    expect(await outcome(hs256(CLAIMS, OLD_SECRET), { previousKey: OLD_SECRET })).toBe('previous');
    expect(await outcome(hs256(CLAIMS, OLD_SECRET))).toBe('signature_mismatch');
  });

  it.each<[string, string]>([
    ['no algorithm', token({ alg: 'none' }, CLAIMS, () => Buffer.alloc(0))],
    ['no algorithm, and a signature', token({ alg: 'none' }, CLAIMS, withSecret(SECRET))],
    ['no algorithm, in other letters', token({ alg: 'NoNe' }, CLAIMS, withSecret(SECRET))],
    ['an algorithm that is a list', token({ alg: ['HS256'] }, CLAIMS, withSecret(SECRET))],
    ['an algorithm of objects', token({ alg: 'constructor' }, CLAIMS, withSecret(SECRET))],
    ['SHA-1', token({ alg: 'HS1' }, CLAIMS, withSecret(SECRET, 'sha1'))],
    ['no header', `.${encode(CLAIMS)}.AAAA`],
    ['an empty signature', `${encode({ alg: 'HS256' })}.${encode(CLAIMS)}.`],
    ['a header that is no JSON', `AAAA.${encode(CLAIMS)}.AAAA`],
    ['an extension that is not known', token({ alg: 'HS256', crit: ['x'], x: 1 }, CLAIMS, withSecret(SECRET))],
    ['a body of its own kind', token({ alg: 'HS256', crit: ['b64'], b64: false }, CLAIMS, withSecret(SECRET))],
    ['five parts', `${hs256(CLAIMS)}.AAAA.AAAA`],
    ['two lines', `${hs256(CLAIMS)}, Bearer ${hs256(CLAIMS)}`],
    ['padding', `${hs256(CLAIMS)}=`],
    ['more than 8192 bytes', hs256({ ...CLAIMS, more: 'x'.repeat(8192) })],
    ['no hash of the body', hs256({ iat: IAT })],
    ['a hash that is no text', hs256({ iat: IAT, hash: [hashOf(BODY)] })],
    ['claims that are a list', token({ alg: 'HS256' }, [] as unknown as JsonObject, withSecret(SECRET))],
  ])('is malformed with %s', async (_what, text) => {
    expect(await outcome(text)).toBe('signature_malformed');
  });

  it('is missing without its header, and malformed without the word in front of it', async () => {
    expect(await outcome('', { delivery: deliveryOf({ body: BODY }) })).toBe('signature_missing');
    const bare = deliveryOf({ body: BODY, headers: { authorization: hs256(CLAIMS) } });
    expect(await outcome('', { delivery: bare })).toBe('signature_malformed');
  });

  it.each(['hex', 'base64', 'base64url'] as const)('may hash the body in %s', async (encoding) => {
    for (const algorithm of ['sha256', 'sha384', 'sha512']) {
      const text = hs256({ hash: hashOf(BODY, encoding, algorithm) });
      expect(await outcome(text)).toBe('current');
      expect(await outcome(text, { delivery: sent(text, { body: `${BODY} ` }) })).toBe('signature_mismatch');
    }
    expect(await outcome(hs256({ hash: hashOf(BODY, encoding, 'sha1') }))).toBe('signature_mismatch');
  });

  it.each<[string, JsonObject, string]>([
    ['expired long ago', { exp: IAT - 301 }, 'timestamp_skew'],
    ['expired within the tolerance', { exp: IAT - 299 }, 'current'],
    ['begins later', { nbf: IAT + 301 }, 'timestamp_skew'],
    ['begins within the tolerance', { nbf: IAT + 299 }, 'current'],
    ['expires at no time', { exp: 'tomorrow' }, 'timestamp_malformed'],
    ['was made at no time', { iat: 'today' }, 'timestamp_malformed'],
    ['was made for another', { aud: 'other' }, 'signature_mismatch'],
    ['was made for several', { aud: ['other', 'hooks'] }, 'current'],
    ['was made for none of several', { aud: ['other'] }, 'signature_mismatch'],
    ['was made by another', { iss: 'other' }, 'signature_mismatch'],
    ['was made by one like it', { iss: 'Publisher' }, 'signature_mismatch'],
    ['was made by a list', { iss: ['publisher'] }, 'signature_mismatch'],
  ])('%s', async (_what, claims, expected) => {
    const inputs = jwt({
      webhookJwtIssuer: 'publisher',
      webhookJwtAudience: 'hooks',
      webhookReplayToleranceSeconds: 300,
    });
    const text = hs256({ ...CLAIMS, iss: 'publisher', aud: 'hooks', ...claims });
    expect(await outcome(text, { inputs })).toBe(expected);
  });

  it('has an issuer and an audience where they are asked for', async () => {
    expect(await outcome(hs256(CLAIMS), { inputs: jwt({ webhookJwtIssuer: 'a' }) })).toBe('signature_mismatch');
    expect(await outcome(hs256(CLAIMS), { inputs: jwt({ webhookJwtAudience: 'a' }) })).toBe('signature_mismatch');
  });

  it('expires a minute late where no tolerance is set', async () => {
    expect(await outcome(hs256({ ...CLAIMS, exp: IAT - 59 }))).toBe('current');
    expect(await outcome(hs256({ ...CLAIMS, exp: IAT - 61 }))).toBe('timestamp_skew');
  });

  it('needs its time where the trigger asks for one', async () => {
    const inputs = jwt({ webhookRequireTimestamp: true });
    expect(await outcome(hs256({ hash: hashOf(BODY) }), { inputs })).toBe('timestamp_missing');
    const verdict = await judge({ inputs, key: SECRET }, sent(hs256(CLAIMS)));
    expect(verdict.evidence?.signedTimestamp).toEqual({ text: String(IAT), ms: NOW });
  });

  it('is what the publisher sends', async () => {
    const plaid = jwt({ webhookSignatureHeader: 'Plaid-Verification', webhookJwtBodyHashClaim: 'request_body_sha256' });
    const key = JSON.stringify(jwk(p256.publicKey, { kid: 'k1', use: 'sig', alg: 'ES256' }));
    const text = es256({ iat: IAT, request_body_sha256: hashOf(BODY) }, { kid: 'k1', typ: 'JWT' });
    const delivery = deliveryOf({ body: BODY, headers: { 'plaid-verification': text } });
    expect(await outcome(text, { inputs: plaid, key, delivery })).toBe('current');
    const other = es256({ iat: IAT, request_body_sha256: hashOf(BODY) }, { kid: 'k2' });
    const named = deliveryOf({ body: BODY, headers: { 'plaid-verification': other } });
    expect(await outcome(other, { inputs: plaid, key, delivery: named })).toBe('signature_mismatch');
  });
});

const spki = (key: KeyObject) => key.export({ type: 'spki', format: 'der' });

it('is not refused as a public key: secrets of any length at random, and words', async () => {
  const random = chanceOf('secrets');
  const bytes = (length: number) => Buffer.from(Array.from({ length }, () => random.below(256)));
  const secrets = Array.from({ length: 400 }, (_, at) => bytes(32 + (at % 110))).flatMap((secret) => [
    secret.toString('hex'),
    secret.toString('base64'),
    secret.toString('base64url'),
  ]);
  for (const key of [...secrets, 'the weekend of a monkey and its key', '//a+b/c//d+e/f0123456789012345678901']) {
    expect(await outcome(hs256(CLAIMS, key), { key })).toBe('current');
  }
});

describe('a public key', () => {
  const forms: [string, string][] = [
    ['PEM', pem(rsa.publicKey)],
    ['PEM of one line', Buffer.from(pem(rsa.publicKey)).toString('base64')],
    ['SPKI in base64', rsa.publicKey.export({ type: 'spki', format: 'der' }).toString('base64')],
    ['SPKI in base64url', rsa.publicKey.export({ type: 'spki', format: 'der' }).toString('base64url')],
    ['SPKI in hex', rsa.publicKey.export({ type: 'spki', format: 'der' }).toString('hex')],
    ['SPKI in hex behind 0x', `0x${spki(rsa.publicKey).toString('hex')}`],
    [
      'SPKI in hex with colons',
      spki(rsa.publicKey)
        .toString('hex')
        .replace(/..(?!$)/g, '$&:'),
    ],
    ['PKCS #1 in base64', rsa.publicKey.export({ type: 'pkcs1', format: 'der' }).toString('base64')],
    ['PKCS #1 as PEM', rsa.publicKey.export({ type: 'pkcs1', format: 'pem' }).toString()],
    ['a JSON Web Key', JSON.stringify(jwk(rsa.publicKey))],
    ['a key set', JSON.stringify({ keys: [jwk(rsa.publicKey)] })],
    ['a list of JSON Web Keys', JSON.stringify([jwk(rsa.publicKey)])],
    ['a JSON Web Key in base64', Buffer.from(JSON.stringify(jwk(rsa.publicKey))).toString('base64')],
    ['a JSON Web Key as a JSON text', JSON.stringify(JSON.stringify(jwk(rsa.publicKey)))],
    ['PEM in hex', Buffer.from(pem(rsa.publicKey)).toString('hex')],
    ['PEM with its line ends written out', pem(rsa.publicKey).replaceAll('\n', '\\n')],
    ['PEM without its first and last line', pem(rsa.publicKey).split('\n').slice(1, -2).join('\\n')],
    [
      'SPKI in base64 twice',
      Buffer.from(rsa.publicKey.export({ type: 'spki', format: 'der' }).toString('base64')).toString('base64'),
    ],
  ];
  it.each(forms)('is never a secret: %s', async (_form, key) => {
    const right = token({ alg: 'RS256' }, CLAIMS, (input) => sign('sha256', input, rsa.privateKey));
    expect(await outcome(right, { key })).toBe('current');
    for (const secret of [key, pem(rsa.publicKey), rsa.publicKey.export({ type: 'spki', format: 'der' })]) {
      expect(await outcome(hs256(CLAIMS, secret), { key })).toBe('signature_mismatch');
    }
  });

  it.each<[string, string, string]>([
    ['a private key', rsa.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(), 'is a private key'],
    [
      'a private key in base64',
      p256.privateKey.export({ type: 'pkcs8', format: 'der' }).toString('base64'),
      'is a private key',
    ],
    ['a private JSON Web Key', JSON.stringify(p256.privateKey.export({ format: 'jwk' })), 'is a private key'],
    ['a secret JSON Web Key', JSON.stringify({ kty: 'oct', k: 'AAAA' }), 'is a secret as a JSON Web Key'],
    ['JSON that is no key', '{"a":1}', 'no JSON Web Key'],
    ['an empty set', '{"keys":[]}', 'without a public key'],
    ['a key of SSH', 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI a@b', 'is an SSH public key'],
    ['a key of SSH without its kind', 'AAAAC3NzaC1lZDI1NTE5AAAAI', 'is an SSH public key'],
    ['PEM with four hyphens', pem(rsa.publicKey).replaceAll('-----', '----'), 'looks like PEM'],
    ['the URL of a key set', 'https://issuer.example/jwks.json', 'is a URL, which anyone may know'],
    ['a point', spki(p256.publicKey).subarray(-65).toString('hex'), 'is a point of a curve'],
    ['a point in base64', spki(p256.publicKey).subarray(-65).toString('base64'), 'is a point of a curve'],
    ['its coordinates in base64url', spki(p256.publicKey).subarray(-64).toString('base64url'), 'is a point of a curve'],
    ['PEM without its first line', pem(rsa.publicKey).split('\n').slice(1).join('\n'), 'looks like PEM'],
    ['PEM with dashes', pem(rsa.publicKey).replaceAll('-----', '—'), 'looks like PEM'],
    ['PEM in small letters', pem(rsa.publicKey).toLowerCase(), 'looks like PEM'],
    ['a key of Standard Webhooks', `whpk_${Buffer.alloc(32, 7).toString('base64')}`, 'is a public key of Standard'],
    ['the host of a key set', '//issuer.example/jwks.json', 'is a URL'],
    ['a certificate', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----', 'is a certificate'],
    ['PEM that is cut', pem(rsa.publicKey).slice(0, 100), 'is PEM, but no public key'],
    ['a short RSA key', pem(generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey), 'RSA key of 1024 bits'],
    [
      'a key of another curve',
      pem(generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).publicKey),
      'of another kind',
    ],
    ['a key of another kind', pem(generateKeyPairSync('x25519').publicKey), 'of another kind'],
    [
      'a weak point',
      JSON.stringify({ kty: 'OKP', crv: 'Ed25519', x: Buffer.alloc(32).toString('base64url') }),
      'of small order',
    ],
  ])('is refused as %s', async (_what, key, message) => {
    await expect(outcome(hs256(CLAIMS), { key })).rejects.toThrow(message);
  });

  it('verifies no token of another algorithm than its own', async () => {
    const key = JSON.stringify(jwk(rsa.publicKey, { alg: 'RS512' }));
    const text = token({ alg: 'RS256' }, CLAIMS, (input) => sign('sha256', input, rsa.privateKey));
    expect(await outcome(text, { key })).toBe('signature_mismatch');
    expect(await outcome(es256(CLAIMS), { key })).toBe('signature_mismatch');
  });
});

describe('a key set', () => {
  const URL = 'https://publisher.example/keys';
  const set = (...keys: JsonObject[]) => JSON.stringify({ keys });
  const inputs = jwt({ webhookJwksUrl: URL });

  /** A publisher whose key set changes, and a clock that the test moves. */
  function publisher(first: string | Error) {
    const at = { answer: first, now: 0, asked: 0 };
    const clock = { now: () => NOW + at.now, monotonic: () => at.now };
    const keySets = createKeySets({
      clock,
      fetch: async () => {
        at.asked += 1;
        if (at.answer instanceof Error) throw at.answer;
        return at.answer;
      },
    });
    return { at, keySets, settings: settingsOf({}, { keySets }) };
  }
  const own = jwk(p256.publicKey, { kid: 'k1' });
  const other = jwk(generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey, { kid: 'k2' });
  const text = es256(CLAIMS, { kid: 'k1' });
  const ask = (given: string, settings: SignatureSettings) => outcome(given, { inputs, key: undefined, settings });

  it('verifies with the key that the token names, and is fetched once', async () => {
    const { at, settings } = publisher(set(other, own));
    const answers = await Promise.all([ask(text, settings), ask(text, settings), ask(es256(CLAIMS), settings)]);
    expect(answers).toEqual(['current', 'current', 'current']);
    expect(await ask(es256(CLAIMS, { kid: 'k2' }), settings)).toBe('signature_mismatch');
    expect(at.asked).toBe(1);
  });

  it('is asked again for a key that it did not have, at most twice a minute', async () => {
    const { at, settings, keySets } = publisher(set(other));
    expect(await ask(text, settings)).toBe('signature_mismatch');
    at.answer = set(other, own);
    expect(await ask(text, settings)).toBe('signature_mismatch');
    expect(at.asked).toBe(1);
    at.now += 30_000;
    expect(await ask(text, settings)).toBe('current');
    for (const kid of ['a', 'b', '../../k1', 'https://evil.example/keys']) {
      expect(await ask(es256(CLAIMS, { kid }), settings)).toBe('signature_mismatch');
    }
    expect(at.asked).toBe(2);
    expect(keySets.listNew()).toMatchObject([{ url: URL, id: 'k1', at: NOW + 30_000 }]);
  });

  it('is not available until it was fetched, and is not asked for by every delivery', async () => {
    const { at, settings } = publisher(new Error('down'));
    expect(await ask(text, settings)).toBe('verification_unavailable');
    expect(await ask(text, settings)).toBe('verification_unavailable');
    expect(at.asked).toBe(1);
    at.answer = set(own);
    at.now += 30_000;
    expect(await ask(text, settings)).toBe('current');
  });

  it('counts on for an hour while it cannot be fetched, and loses a key that the publisher took back', async () => {
    const { at, settings } = publisher(set(own));
    expect(await ask(text, settings)).toBe('current');
    at.answer = new Error('down');
    at.now = 3_599_999;
    expect(await ask(text, settings)).toBe('current');
    at.now += 1;
    expect(await ask(text, settings)).toBe('verification_unavailable');
    at.answer = set(other);
    at.now += 30_000;
    expect(await ask(text, settings)).toBe('signature_mismatch');
  });

  it.each([
    ['passes once more after ten minutes, while the set is fetched', 600_000, 'current'],
    ['passes once more just before an hour', 3_599_999, 'current'],
    ['passes no more after an hour', 3_600_000, 'signature_mismatch'],
  ])('without deliveries in between, a withdrawn key %s', async (_rule, age, first) => {
    const { at, settings } = publisher(set(own));
    expect(await ask(text, settings)).toBe('current');
    at.answer = set(other);
    at.now = age;
    expect(await ask(text, settings)).toBe(first);
    await new Promise((resolve) => setImmediate(resolve));
    expect(await ask(text, settings)).toBe('signature_mismatch');
    expect(at.asked).toBe(2);
  });

  it.each(['https://127.0.0.1/keys', 'https://[::1]/keys', 'https://169.254.169.254/keys'])(
    'is not fetched from a private address: %s',
    async (webhookJwksUrl) => {
      const clock = { now: () => NOW, monotonic: () => 0 };
      const settings = settingsOf(
        {},
        { keySets: createKeySets({ clock, fetch: createGuardedGet({ egressAllow: [] }) }) },
      );
      expect(await outcome(text, { inputs: jwt({ webhookJwksUrl }), key: undefined, settings })).toBe(
        'verification_unavailable',
      );
    },
  );

  it('is asked for by no delivery that is malformed', async () => {
    const { at, settings } = publisher(set(own));
    for (const broken of ['', 'a.b.c', token({ alg: 'none' }, CLAIMS, () => Buffer.alloc(0))]) {
      expect(await ask(broken, settings)).toMatch(/^signature_/);
    }
    expect(at.asked).toBe(0);
  });

  it.each<[string, string]>([
    ['is no JSON', '<html>'],
    ['is no set', '[]'],
    ['has no keys', set()],
    ['has secrets alone', set({ kty: 'oct', k: Buffer.from(SECRET).toString('base64url'), kid: 'k1' })],
    ['has keys for encryption alone', set({ ...own, use: 'enc' })],
    ['has keys that verify nothing', set({ ...own, key_ops: ['encrypt'] })],
    ['has weak keys alone', set({ kty: 'OKP', crv: 'Ed25519', x: Buffer.alloc(32).toString('base64url'), kid: 'k1' })],
    ['has private keys alone', set({ ...(p256.privateKey.export({ format: 'jwk' }) as JsonObject), kid: 'k1' })],
  ])('that %s is not available', async (_what, answer) => {
    const { settings } = publisher(answer);
    expect(await ask(text, settings)).toBe('verification_unavailable');
    expect(await ask(token({ alg: 'HS256', kid: 'k1' }, CLAIMS, withSecret(SECRET)), settings)).toBe(
      'verification_unavailable',
    );
  });

  it('is never taken for a secret', async () => {
    const { settings } = publisher(set(own));
    const forged = token({ alg: 'HS256', kid: 'k1' }, CLAIMS, withSecret(pem(p256.publicKey)));
    expect(await ask(forged, settings)).toBe('signature_mismatch');
  });

  it('in the token, or at a URL in it, is not read', async () => {
    const { at, settings } = publisher(set(own));
    const mine = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    for (const header of [
      { jwk: jwk(mine.publicKey) },
      { jku: 'https://evil.example/' },
      { x5u: 'https://evil.example/' },
    ]) {
      const forged = token({ alg: 'ES256', ...header }, CLAIMS, (input) =>
        sign('sha256', input, { key: mine.privateKey, dsaEncoding: 'ieee-p1363' }),
      );
      expect(await ask(forged, settings)).toBe('signature_mismatch');
    }
    expect(at.asked).toBe(1);
  });

  it('goes with no key of the trigger', async () => {
    const { settings } = publisher(set(own));
    const both = { ...inputs, webhookHmacKey: SECRET };
    await expect(outcome(text, { inputs: both, settings })).rejects.toThrow('name two keys');
    expect(() => resolveScheme(settings.schemes, both)).toThrow('name two keys');
  });
});
