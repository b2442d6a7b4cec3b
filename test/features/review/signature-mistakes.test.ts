import { describe, expect, it } from 'vitest';
import { describeSignature, findMistakes } from '../../../src/features/review/signature-mistakes.ts';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import { createSchemeRegistry, resolveScheme } from '../../../src/webhooks/schemes/resolve.ts';
import { signDelivery } from '../../../src/webhooks/schemes/sign.ts';
import type { SignatureSpec } from '../../../src/webhooks/schemes/spec.ts';
import { NOW, sampleDelivery } from '../../webhooks/samples.ts';
import {
  bodyFor,
  contentTypeFor,
  KEYS,
  OTHER_SIGNING_KEYS,
  SIGNABLE_SCHEMES,
} from '../../webhooks/schemes/fixtures.ts';

const KEY = 'c2VjcmV0IG9mIHRoZSBwdWJsaXNoZXI=';
const BODY = '{"b":1,"a":"x/é"}';

function schemeOf(inputs: WebhookInputs): SignatureSpec {
  const scheme = resolveScheme(createSchemeRegistry(), inputs);
  if (scheme?.kind !== 'spec') throw new Error('no spec');
  return scheme.spec;
}
const gitHub = schemeOf({ webhookSignatureScheme: 'GitHub' });

interface Case {
  signer?: SignatureSpec;
  verifier?: SignatureSpec;
  signedKey?: string;
  key?: string | undefined;
  previous?: string;
  signedBody?: string;
  body?: string;
  signedUrl?: string;
  url?: string;
}

function hintsOf(given: Case): string[] {
  const { signer = gitHub, signedKey = KEY, signedBody = BODY, signedUrl = 'https://a.example/in' } = given;
  const contentType = contentTypeFor(signer);
  const signed = signDelivery({
    spec: signer,
    key: signedKey,
    body: Buffer.from(signedBody),
    url: signedUrl,
    timestampMs: NOW,
    deliveryId: 'd1',
    contentType,
  });
  const headers = Object.fromEntries(
    Object.entries(signed.headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
  return findMistakes({
    spec: given.verifier ?? signer,
    keys: { current: 'key' in given ? given.key : signedKey, previous: given.previous },
    delivery: sampleDelivery({ headers, body: given.body === undefined ? signed.body : Buffer.from(given.body) }),
    publicUrl: given.url ?? signedUrl,
  });
}

const square = schemeOf({ webhookSignatureScheme: 'Square' });
const standard = schemeOf({ webhookSignatureScheme: 'StandardWebhooks' });
const generic = schemeOf({ webhookSignatureScheme: 'Generic' });
const pretty = JSON.stringify(JSON.parse(BODY), null, 2);

describe('findMistakes', () => {
  it.each<[mistake: string, given: Case, hint: string]>([
    ['nothing', {}, 'The signature itself matches the current key: '],
    [
      'a current key that is missing',
      { key: undefined, previous: KEY },
      'The signature matches the previous key, which counts only next to a current one',
    ],
    [
      'a key that is base64',
      { signedKey: 'secret of the publisher', key: KEY },
      'The signature matches with the key base64-decoded: ',
    ],
    ['a key that is hex', { signedKey: 'abc', key: '616263' }, 'The signature matches with the key hex-decoded: '],
    [
      'a key with a line end',
      { key: `${KEY}\n` },
      'The signature matches with the key without the spaces or line end around it. ',
    ],
    [
      'a publisher’s key with a line end',
      { signedKey: 'k\n', key: 'k' },
      'The signature matches with the key with a line end after it: ',
    ],
    [
      'a previous key that is hex',
      { signedKey: 'abc', key: 'x', previous: '616263' },
      'The signature matches with the previous key hex-decoded: ',
    ],
    [
      'a body with a line end',
      { body: `${BODY}\n` },
      'The signature matches without the trailing newline: something between the publisher and Sluice adds it. ',
    ],
    [
      'a body that lost its line end',
      { signedBody: `${BODY}\n`, body: BODY },
      'The signature matches if a trailing newline is added: something between the publisher and Sluice strips it. ',
    ],
    [
      'line ends that were changed',
      { signedBody: 'a\r\nb', body: 'a\nb' },
      'The signature matches with line ends as CR LF: ',
    ],
    ['a byte order mark', { body: `\ufeff${BODY}` }, 'The signature matches without the byte order mark: '],
    ['a body that was indented', { body: pretty }, 'The signature matches the body as compact JSON'],
    [
      'a body that was compacted',
      { signedBody: pretty, body: BODY },
      'The signature matches the body as JSON indented by 2',
    ],
    [
      'a body as Python wrote it',
      { signedBody: '{"b": 1, "a": "x/\\u00e9"}', body: BODY },
      'The signature matches the body as spaced JSON with characters beyond ASCII escaped',
    ],
    [
      'a proxy that ends TLS',
      { signer: square, url: 'http://a.example/in' },
      'The signature matches if the URL starts with https: ',
    ],
    [
      'a slash at the end',
      { signer: square, signedUrl: 'https://a.example/in/', url: 'https://a.example/in' },
      'The signature matches if the URL has a slash at its end: ',
    ],
    [
      'another encoding',
      { signer: { ...generic, encoding: 'base64' }, verifier: generic },
      'The signature matches if it is read as base64: ',
    ],
    [
      'another algorithm',
      { signer: { ...generic, algorithm: 'sha512' }, verifier: generic },
      'The signature matches if the algorithm is sha512: ',
    ],
    [
      'a prefix that nobody expects',
      {
        signer: { ...generic, prefix: 'sha256=' },
        verifier: { ...generic, prefix: undefined, isPrefixOptional: false },
      },
      'The signature matches if its prefix is "sha256=": ',
    ],
    ['another publisher', { signer: gitHub, verifier: standard }, 'The signature matches the scheme GitHub, but '],
  ])('knows %s', (_mistake, given, hint) => {
    expect(hintsOf(given)).toContainEqual(expect.stringContaining(hint));
  });

  it.each(SIGNABLE_SCHEMES.map((spec) => [spec.name, spec] as const))(
    'finds nothing for a stranger’s key: %s',
    (_name, spec) => {
      const keys = { signedKey: OTHER_SIGNING_KEYS[spec.name] ?? '', key: KEYS[spec.name] };
      const signedBody = bodyFor(spec, BODY).toString();
      expect(hintsOf({ signer: spec, ...keys, signedBody })).toEqual([]);
    },
  );

  it('says what matches, why, and what to do, in whole sentences', () => {
    for (const given of [{ body: `${BODY}\n` }, { signer: gitHub, verifier: standard }, { body: `\ufeff${BODY}` }]) {
      const hints = hintsOf(given);
      expect(hints).not.toEqual([]);
      for (const hint of hints) expect(hint).toMatch(/^The signature .*[.:] .*\.$/);
    }
  });

  it('does not try a body that would hold up everything else', () => {
    expect(hintsOf({ body: 'x'.repeat(1_048_577) })).toEqual(['The body is too large to look for known mistakes.']);
  });
});

describe('describeSignature', () => {
  it('says what is signed, and nothing that was made with a key', () => {
    const delivery = sampleDelivery({ headers: { 'x-hub-signature-256': 'sha256=00' }, body: Buffer.from('abc') });
    expect(describeSignature({ spec: gitHub, delivery, publicUrl: 'https://a.example/' })).toEqual({
      layout: 'RawBody',
      algorithm: 'sha256',
      encoding: 'hexLower',
      headers: ['X-Hub-Signature-256'],
      candidates: 1,
      signedBytes: { length: 3, sha256: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad' },
    });
  });
});
