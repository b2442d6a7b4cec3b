import { createHash, createHmac, createSecretKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { WebhookInputs } from '../../../../src/manifest/webhook-inputs.ts';
import type { MessageRule } from '../../../../src/webhooks/schemes/standards/standard.ts';
import { verifyStandard } from '../../../../src/webhooks/schemes/standards/verify.ts';
import { readVerifyingKeys, type VerifyingKey } from '../../../../src/webhooks/schemes/standards/verifying-keys.ts';
import { deliveryOf, judge, NOW, settingsOf } from '../fixtures.ts';

const PSS = `-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAr4tmm3r20Wd/PbqvP1s2
+QEtvpuRaV8Yq40gjUR8y2Rjxa6dpG2GXHbPfvMs8ct+Lh1GH45x28Rw3Ry53mm+
oAXjyQ86OnDkZ5N8lYbggD4O3w6M6pAvLkhk95AndTrifbIFPNU8PPMO7OyrFAHq
gDsznjPFmTOtCEcN2Z1FpWgchwuYLPL+Wokqltd11nqqzi+bJ9cvSKADYdUAAN5W
Utzdpiy6LbTgSxP7ociU4Tn0g5I6aDZJ7A8Lzo0KSyZYoA485mqcO0GVAdVw9lq4
aOT9v6d+nb4bnNkQVklLQ3fVAvJm+xdDOp9LCNCN48V2pnDOkFV6+U9nV5oyc6XI
2wIDAQAB
-----END PUBLIC KEY-----`;
const ED25519 = `-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAJrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs=
-----END PUBLIC KEY-----`;
const SHARED = 'uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ==';

const place = { field: 'webhookHmacKey', scheme: 'HttpMessageSignatures' };
const read = (text: string) => readVerifyingKeys(text, place);
const shared: VerifyingKey = { kind: 'secret', key: createSecretKey(Buffer.from(SHARED, 'base64')) };

/** RFC 9421, appendix B.2: the request, and the signatures over requests. */
const VECTORS: readonly (readonly [
  name: string,
  keys: readonly VerifyingKey[],
  input: string,
  signature: string,
  components: string[],
])[] = [
  [
    'B.2.1',
    read(PSS),
    'sig-b21=();created=1618884473;keyid="test-key-rsa-pss";nonce="b3k2pp5k7z-50gnwp.yemd"',
    'sig-b21=:d2pmTvmbncD3xQm8E9ZV2828BjQWGgiwAaw5bAkgibUopemLJcWDy/lkbbHAve4cRAtx31Iq786U7it++wgGxbtRxf8Udx7zFZsckzXaJMkA7ChG52eSkFxykJeNqsrWH5S+oxNFlD4dzVuwe8DhTSja8xxbR/Z2cOGdCbzR72rgFWhzx2VjBqJzsPLMIQKhO4DGezXehhWwE56YCE+O6c0mKZsfxVrogUvA4HELjVKWmAvtl6UnCh8jYzuVG5WSb/QEVPnP5TmcAnLH1g+s++v6d4s8m0gCw1fV5/SITLq9mhho8K3+7EPYTU8IU1bLhdxO5Nyt8C8ssinQ98Xw9Q==:',
    [],
  ],
  [
    'B.2.2',
    read(PSS),
    'sig-b22=("@authority" "content-digest" "@query-param";name="Pet");created=1618884473;keyid="test-key-rsa-pss";tag="header-example"',
    'sig-b22=:LjbtqUbfmvjj5C5kr1Ugj4PmLYvx9wVjZvD9GsTT4F7GrcQEdJzgI9qHxICagShLRiLMlAJjtq6N4CDfKtjvuJyE5qH7KT8UCMkSowOB4+ECxCmT8rtAmj/0PIXxi0A0nxKyB09RNrCQibbUjsLS/2YyFYXEu4TRJQzRw1rLEuEfY17SARYhpTlaqwZVtR8NV7+4UKkjqpcAoFqWFQh62s7Cl+H2fjBSpqfZUJcsIk4N6wiKYd4je2U/lankenQ99PZfB4jY3I5rSV2DSBVkSFsURIjYErOs0tFTQosMTAoxk//0RoKUqiYY8Bh0aaUEb0rQl3/XaVe4bXTugEjHSw==:',
    ['@authority', 'content-digest', '@query-param;name="Pet"'],
  ],
  [
    'B.2.3',
    read(PSS),
    'sig-b23=("date" "@method" "@path" "@query" "@authority" "content-type" "content-digest" "content-length");created=1618884473;keyid="test-key-rsa-pss"',
    'sig-b23=:bbN8oArOxYoyylQQUU6QYwrTuaxLwjAC9fbY2F6SVWvh0yBiMIRGOnMYwZ/5MR6fb0Kh1rIRASVxFkeGt683+qRpRRU5p2voTp768ZrCUb38K0fUxN0O0iC59DzYx8DFll5GmydPxSmme9v6ULbMFkl+V5B1TP/yPViV7KsLNmvKiLJH1pFkh/aYA2HXXZzNBXmIkoQoLd7YfW91kE9o/CCoC1xMy7JA1ipwvKvfrs65ldmlu9bpG6A9BmzhuzF8Eim5f8ui9eH8LZH896+QIF61ka39VBrohr9iyMUJpvRX2Zbhl5ZJzSRxpJyoEZAFL2FUo5fTIztsDZKEgM4cUA==:',
    ['date', '@method', '@path', '@query', '@authority', 'content-type', 'content-digest', 'content-length'],
  ],
  [
    'B.2.5',
    [shared],
    'sig-b25=("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret"',
    'sig-b25=:pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=:',
    ['date', '@authority', 'content-type'],
  ],
  [
    'B.2.6',
    read(ED25519),
    'sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"',
    'sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:',
    ['date', '@method', '@path', '@authority', 'content-type', 'content-length'],
  ],
];

const URL = 'https://example.com/foo?param=Value&Pet=dog';
const HEADERS = {
  host: 'example.com',
  date: 'Tue, 20 Apr 2021 02:07:55 GMT',
  'content-type': 'application/json',
  'content-digest':
    'sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:',
  'content-length': '18',
};

function verify(
  [, keys, input, signature, components]: (typeof VECTORS)[number],
  {
    headers = {},
    body = '{"hello": "world"}',
    rule = {},
  }: { headers?: object; body?: string; rule?: Partial<MessageRule> } = {},
) {
  const sent = { ...HEADERS, 'signature-input': input, signature, ...headers };
  const whole: MessageRule = {
    standard: 'HttpMessageSignatures',
    components,
    keyId: undefined,
    keySetUrl: undefined,
    keyEncoding: undefined,
    requiresTimestamp: true,
    ...rule,
  };
  return verifyStandard(whole, {
    delivery: deliveryOf({ headers: sent, body, path: '/foo?param=Value&Pet=dog' }),
    publicUrl: URL,
    leewaySeconds: 60,
    keysFor: async () => ({ current: keys, previous: [] }),
  });
}

describe.each(VECTORS)('the signature of RFC 9421, %s', (...vector) => {
  const [, keys, input, , components] = vector;

  it('is verified, with its time', async () => {
    expect(await verify(vector)).toMatchObject({
      isVerified: true,
      timestamp: { text: '1618884473', ms: 1_618_884_473_000 },
    });
    const keyId = /keyid="([^"]+)"/.exec(input)?.[1];
    expect(await verify(vector, { rule: { keyId } })).toMatchObject({ isVerified: true });
  });

  it('is refused under another key id, or by another key', async () => {
    expect(await verify(vector, { rule: { keyId: 'other' } })).toMatchObject({ reason: 'signature_mismatch' });
    const named = keys.map((key) => ({ ...key, id: 'other' }));
    expect(await verify(vector.with(1, named) as never)).toMatchObject({ reason: 'signature_mismatch' });
    const other = read('another secret of more than sixteen bytes');
    expect(await verify(vector.with(1, other) as never)).toMatchObject({ reason: 'signature_mismatch' });
  });

  it('is refused where anything that it covers was changed', async () => {
    for (const name of components.filter((component) => Object.hasOwn(HEADERS, component))) {
      const result = await verify(vector, { headers: { [name]: `${HEADERS[name as keyof typeof HEADERS]}1` } });
      expect(result, name).toMatchObject({ isVerified: false });
      const missing = await verify(vector, { headers: { [name]: undefined } });
      expect(missing, name).toMatchObject({ isVerified: false });
    }
    const later = input.replace('1618884473', '1618884474');
    expect(await verify(vector.with(2, later) as never)).toMatchObject({ reason: 'signature_mismatch' });
    const covers = components.includes('content-digest');
    expect(await verify(vector, { body: '{"hello": "World"}' })).toMatchObject(
      covers ? { reason: 'signature_mismatch' } : { isVerified: true },
    );
  });
});

const SECRET = 'a secret of more than sixteen bytes';
const BODY = '{"event":"order.paid"}';
const PATH = '/flows/api/webhook/test';
const digestOf = (body: string, hash: 'sha-256' | 'sha-512' = 'sha-256') =>
  `${hash}=:${createHash(hash.replace('-', '')).update(body).digest('base64')}:`;

interface Signed {
  readonly covered?: string;
  readonly parameters?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Lines of the signature base. */
  readonly lines?: Readonly<Record<string, string>>;
  readonly by?: (base: Buffer) => Buffer;
}

/** Signed by hand, in the standard's terms. */
function message({
  covered = '"@method" "@path" "content-digest"',
  parameters = `;created=${NOW / 1000}`,
  headers = {},
  body = BODY,
  lines = {},
  by = (base) => createHmac('sha256', SECRET).update(base).digest(),
}: Signed = {}) {
  const digest = digestOf(body);
  const values: Record<string, string> = { '"@method"': 'POST', '"@path"': PATH, '"content-digest"': digest, ...lines };
  const ids = covered === '' ? [] : covered.split(' ');
  const last = `(${covered})${parameters}`;
  const base = [...ids.map((id) => `${id}: ${values[id]}`), `"@signature-params": ${last}`].join('\n');
  const signature = by(Buffer.from(base, 'latin1')).toString('base64');
  return deliveryOf({
    path: PATH,
    body,
    headers: {
      'content-digest': digest,
      'signature-input': `sig1=${last}`,
      signature: `sig1=:${signature}:`,
      ...headers,
    },
  });
}

const signed = (others: WebhookInputs = {}): WebhookInputs => ({
  webhookSignatureScheme: 'HttpMessageSignatures',
  ...others,
});

async function outcome(delivery = message(), inputs = signed(), key = SECRET, previousKey?: string): Promise<string> {
  const verdict = await judge({ inputs, key, previousKey }, delivery);
  if (!verdict.passed) return verdict.reason;
  return verdict.evidence?.usedPreviousKey === true ? 'previous' : 'current';
}

describe('a signed message', () => {
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const p256 = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' });
  const ed25519 = generateKeyPairSync('ed25519');
  const pem = (key: KeyObject) => key.export({ type: 'spki', format: 'pem' }).toString();
  const ecdsa = (hash: string, key: KeyObject) => (base: Buffer) =>
    sign(hash, base, { key, dsaEncoding: 'ieee-p1363' });

  it.each<[string, string, (base: Buffer) => Buffer]>([
    ['hmac-sha256', SECRET, (base) => createHmac('sha256', SECRET).update(base).digest()],
    ['ed25519', pem(ed25519.publicKey), (base) => sign(null, base, ed25519.privateKey)],
    ['ecdsa-p256-sha256', pem(p256.publicKey), ecdsa('sha256', p256.privateKey)],
    ['ecdsa-p384-sha384', pem(p384.publicKey), ecdsa('sha384', p384.privateKey)],
    [
      'rsa-pss-sha512',
      pem(rsa.publicKey),
      (base) => sign('sha512', base, { key: rsa.privateKey, padding: 6, saltLength: 64 }),
    ],
    ['rsa-v1_5-sha256', pem(rsa.publicKey), (base) => sign('sha256', base, rsa.privateKey)],
  ])('is verified by %s, with the name of that or none, and by no other name', async (alg, key, by) => {
    const parameters = `;created=${NOW / 1000}`;
    expect(await outcome(message({ by }), signed(), key)).toBe('current');
    expect(await outcome(message({ by, parameters: `${parameters};alg="${alg}"` }), signed(), key)).toBe('current');
    const wrong = alg === 'ed25519' ? 'hmac-sha256' : 'ed25519';
    expect(await outcome(message({ by, parameters: `${parameters};alg="${wrong}"` }), signed(), key)).toBe(
      'signature_mismatch',
    );
  });

  it('signed with a public key as a secret is refused', async () => {
    for (const key of [pem(rsa.publicKey), pem(p256.publicKey), pem(ed25519.publicKey)]) {
      const forged = message({ by: (base) => createHmac('sha256', key).update(base).digest() });
      expect(await outcome(forged, signed(), key)).toBe('signature_mismatch');
    }
  });

  it('may be signed with the previous key', async () => {
    expect(await outcome(message(), signed(), 'the current secret, of enough bytes', SECRET)).toBe('previous');
  });

  it.each<[string, Signed, string]>([
    ['another body', { headers: { 'content-digest': digestOf(BODY) }, body: '{}' }, 'signature_mismatch'],
    [
      'a digest of another body, signed',
      { lines: { '"content-digest"': digestOf('{}') }, headers: { 'content-digest': digestOf('{}') } },
      'signature_mismatch',
    ],
    [
      'a digest that no one knows',
      { lines: { '"content-digest"': 'md5=:AAAA:' }, headers: { 'content-digest': 'md5=:AAAA:' } },
      'signature_malformed',
    ],
    [
      'a digest that is none',
      { lines: { '"content-digest"': 'x' }, headers: { 'content-digest': 'x' } },
      'signature_malformed',
    ],
    [
      'a digest as a text',
      { lines: { '"content-digest"': 'sha-256="AAAA"' }, headers: { 'content-digest': 'sha-256="AAAA"' } },
      'signature_mismatch',
    ],
    [
      'a second digest of another body',
      {
        lines: { '"content-digest"': `${digestOf(BODY)}, ${digestOf('{}', 'sha-512')}` },
        headers: { 'content-digest': `${digestOf(BODY)}, ${digestOf('{}', 'sha-512')}` },
      },
      'signature_mismatch',
    ],
    ['a body that is not covered', { covered: '"@method" "@path"' }, 'signature_malformed'],
    ['a path that is not covered', { covered: '"@method" "content-digest"' }, 'signature_malformed'],
    ['nothing that is covered', { covered: '' }, 'signature_malformed'],
    ['a component twice', { covered: '"@method" "@path" "content-digest" "@path"' }, 'signature_malformed'],
    ['a component of a response', { covered: '"@method" "@path" "content-digest" "@status"' }, 'signature_malformed'],
    [
      'a component of another request',
      { covered: '"@method" "@path" "content-digest" "@authority";req' },
      'signature_malformed',
    ],
    [
      'a component of no message',
      { covered: '"@method" "@path" "content-digest" "@constructor"' },
      'signature_malformed',
    ],
    ['a header that is not there', { covered: '"@method" "@path" "content-digest" "x-id"' }, 'signature_malformed'],
    ['a header in capitals', { covered: '"@method" "@path" "content-digest" "Content-Digest"' }, 'signature_malformed'],
    ['components that are words', { covered: '@method' }, 'signature_malformed'],
    ['an algorithm that no one knows', { parameters: ';alg="none"' }, 'signature_malformed'],
    ['an algorithm of objects', { parameters: ';alg="constructor"' }, 'signature_malformed'],
    ['an algorithm as a word', { parameters: ';alg=hmac-sha256' }, 'signature_malformed'],
    ['an end that is over', { parameters: `;created=${NOW / 1000};expires=${NOW / 1000 - 61}` }, 'timestamp_skew'],
    [
      'an end within the minute that clocks may differ',
      { parameters: `;created=${NOW / 1000};expires=${NOW / 1000 - 59}` },
      'current',
    ],
    ['an end at no time', { parameters: ';expires="never"' }, 'timestamp_malformed'],
    ['a beginning at no time', { parameters: ';created="now"' }, 'timestamp_malformed'],
    [
      'a header twice',
      { headers: { 'x-id': 'a, b' }, covered: '"@method" "@path" "content-digest" "x-id"', lines: { '"x-id"': 'a' } },
      'signature_mismatch',
    ],
    ['a signature that is a text', { headers: { signature: 'sig1="AAAA"' } }, 'signature_malformed'],
    ['a signature that is empty', { headers: { signature: 'sig1=::' } }, 'signature_mismatch'],
    ['a signature of another name', { headers: { signature: 'sig2=:AAAA:' } }, 'signature_malformed'],
    ['a signature that no one can read', { headers: { signature: '((' } }, 'signature_malformed'],
    ['an input of more than 8192 bytes', { parameters: `;nonce="${'x'.repeat(8192)}"` }, 'signature_malformed'],
    ['an input that is no list', { headers: { 'signature-input': 'sig1=1' } }, 'signature_malformed'],
  ])('with %s: %s', async (_what, given, expected) => {
    expect(await outcome(message(given))).toBe(expected);
  });

  it('is missing without either header', async () => {
    const { headers, ...rest } = message();
    for (const name of ['signature', 'signature-input']) {
      const { [name]: _, ...others } = headers;
      expect(await outcome(deliveryOf({ ...rest, headers: others }))).toBe('signature_missing');
    }
  });

  it('covers the path with the whole URL', async () => {
    const url = 'https://hooks.example.com/in';
    const inputs = signed({ webhookPublicUrl: url });
    const delivery = message({ covered: '"@method" "@target-uri" "content-digest"', lines: { '"@target-uri"': url } });
    expect(await outcome(delivery, inputs)).toBe('current');
    expect(await outcome(delivery, signed({ webhookPublicUrl: `${url}/other` }))).toBe('signature_mismatch');
  });

  it('may be one of several, of which one has to be right', async () => {
    const { headers, ...rest } = message();
    const both = (signature: string) =>
      deliveryOf({
        ...rest,
        headers: {
          ...headers,
          'signature-input': `proxy=("@method");created=1, ${headers['signature-input']}`,
          signature: `proxy=:AAAA:, ${signature}`,
        },
      });
    expect(await outcome(both(headers.signature ?? ''))).toBe('current');
    expect(await outcome(both('sig1=:AAAA:'))).toMatch(/^signature_/);
  });

  it('counts only under the key id that the trigger names', async () => {
    const inputs = signed({ webhookSignatureKeyId: 'k1' });
    expect(await outcome(message({ parameters: ';keyid="k1"' }), inputs)).toBe('current');
    expect(await outcome(message({ parameters: ';keyid="k2"' }), inputs)).toBe('signature_mismatch');
    expect(await outcome(message(), inputs)).toBe('signature_mismatch');
  });

  it('covers what the trigger asks for besides', async () => {
    const inputs = signed({ webhookRequiredComponents: ['content-digest', 'x-id'] });
    const covered = '"content-digest" "x-id"';
    const delivery = message({ covered, headers: { 'x-id': ' 1 ' }, lines: { '"x-id"': '1' } });
    expect(await outcome(delivery, inputs)).toBe('current');
    expect(await outcome(message(), inputs)).toBe('signature_malformed');
  });

  it('is known by what has to be signed and its time, and needs that where the trigger asks for one', async () => {
    const inputs = signed({ webhookRequireTimestamp: true });
    const one = await judge({ inputs, key: SECRET }, message());
    const again = await judge({ inputs, key: SECRET }, message({ parameters: `;created=${NOW / 1000};nonce="2"` }));
    const later = await judge({ inputs, key: SECRET }, message({ parameters: `;created=${NOW / 1000 + 1}` }));
    expect(one.evidence).toMatchObject({
      signedBytesSha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      signedTimestamp: { ms: NOW },
    });
    // If a message has several signatures, a sender may leave some out.
    expect(again.evidence?.signedBytesSha256).toBe(one.evidence?.signedBytesSha256);
    expect(later.evidence?.signedBytesSha256).not.toBe(one.evidence?.signedBytesSha256);
    expect(await outcome(message({ parameters: '' }), inputs)).toBe('timestamp_missing');
    expect(await outcome(message({ parameters: '' }))).toBe('current');
  });

  it('is known alike in whichever order the trigger names the components', async () => {
    const nonceOf = async (...webhookRequiredComponents: string[]) => {
      const inputs = signed({ webhookRequiredComponents });
      const covered = '"@method" "@path" "content-digest"';
      const verdict = await judge({ inputs, key: SECRET }, message({ covered }));
      expect(verdict.passed).toBe(true);
      return verdict.evidence?.signedBytesSha256;
    };
    const one = await nonceOf('@method', '@path', 'content-digest');
    expect(await nonceOf('content-digest', '@path', '@method', '@path')).toBe(one);
    expect(await nonceOf('content-digest', '@path')).not.toBe(one);
  });

  it('that does not cover the body is known by what it covers, whichever body comes with it', async () => {
    const inputs = signed({ webhookRequiredComponents: ['@method', '@path'] });
    const nonceOf = async (sent: Signed) => {
      const verdict = await judge({ inputs, key: SECRET }, message({ covered: '"@method" "@path"', ...sent }));
      expect(verdict.passed).toBe(true);
      return verdict.evidence?.signedBytesSha256;
    };
    const parameters = `;created=${NOW / 1000}`;
    const one = await nonceOf({ parameters });
    expect(one).toMatch(/^[0-9a-f]{64}$/);
    expect(await nonceOf({ parameters, body: '{"another":true}' })).toBe(one);
    expect(await nonceOf({ parameters: `${parameters};keyid="k2";alg="hmac-sha256"` })).toBe(one);
    expect(await nonceOf({ parameters: `;created=${NOW / 1000 + 1}` })).not.toBe(one);
    expect(await nonceOf({ parameters: `${parameters};nonce="2"` })).not.toBe(one);
    const others = { covered: '"@method" "@path" "x-id"', parameters };
    const ids = ['1', '2'].map((id) => nonceOf({ ...others, headers: { 'x-id': id }, lines: { '"x-id"': id } }));
    expect(new Set([one, ...(await Promise.all(ids))]).size).toBe(3);
  });

  it('is refused with several signatures of which each would be known by itself', async () => {
    const inputs = signed({ webhookRequiredComponents: ['@method', '@path'] });
    const joined = (...parts: Signed[]) => {
      const sent = parts.map((part) => message(part));
      const join = (name: string) =>
        sent.map(({ headers }, index) => headers[name]?.replace('sig1', `sig${index}`)).join(', ');
      const [first = message()] = sent;
      const headers = { ...first.headers, 'signature-input': join('signature-input'), signature: join('signature') };
      return deliveryOf({ ...first, headers });
    };
    const covered = '"@method" "@path"';
    const parameters = `;created=${NOW / 1000}`;
    expect(await outcome(joined({ covered, parameters: `${parameters};keyid="a"` }, { covered }), inputs)).toBe(
      'current',
    );
    expect(await outcome(joined({}, { covered }), inputs)).toBe('signature_malformed');
    expect(await outcome(joined({ covered }, { covered: '"@path" "@method"' }), inputs)).toBe('signature_malformed');
    expect(await outcome(joined({}, { parameters: `${parameters};nonce="2"` }), inputs)).toBe('current');
  });

  it('is not verified without a key', async () => {
    const verdict = await judge({ inputs: signed(), settings: settingsOf() }, message());
    expect(verdict).toMatchObject({ passed: false, reason: 'key_not_configured' });
  });
});
