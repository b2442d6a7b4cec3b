import { createHash, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { GateConfigurationError } from '../../../src/webhooks/gate.ts';
import { readSigningKey, readVerificationKey } from '../../../src/webhooks/schemes/scheme-keys.ts';
import { signDelivery } from '../../../src/webhooks/schemes/sign.ts';
import type { SignatureSpec } from '../../../src/webhooks/schemes/spec.ts';
import { builtIn, judge, KEYS, NOW, received, SIGNING_KEYS, settingsOf } from './fixtures.ts';

const p256 = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' });
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const weakRsa = generateKeyPairSync('rsa', { modulusLength: 1024 });
const ed25519 = generateKeyPairSync('ed25519');

const sendGrid = builtIn('SendGrid');
const rsaSpec: SignatureSpec = { ...sendGrid, name: 'Rsa', algorithm: 'rsaSha256' };

const pem = (key: KeyObject) =>
  key.export({ type: key.type === 'public' ? 'spki' : 'pkcs8', format: 'pem' }).toString();
const der = (key: KeyObject) =>
  key.export({ type: key.type === 'public' ? 'spki' : 'pkcs8', format: 'der' }).toString('base64');
const CERTIFICATE = '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n';

describe('a public key', () => {
  it.each([
    ['ECDSA as PEM', sendGrid, pem(p256.publicKey)],
    ['ECDSA as base64', sendGrid, der(p256.publicKey)],
    ['ECDSA as base64 without padding', sendGrid, der(p256.publicKey).replace(/=+$/, '')],
    ['ECDSA as base64 in lines', sendGrid, der(p256.publicKey).replace(/.{64}/g, '$&\n')],
    ['RSA as PEM', rsaSpec, pem(rsa.publicKey)],
    ['RSA as base64', rsaSpec, der(rsa.publicKey)],
  ] as const)('is read: %s', (_, spec, text) => {
    expect(readVerificationKey(spec, text, 'webhookHmacKey').key.type).toBe('public');
  });

  it.each([
    ['a private key as PEM', sendGrid, pem(p256.privateKey), 'is a private key'],
    ['a private key as base64', sendGrid, der(p256.privateKey), 'is a private key'],
    ['a private RSA key', rsaSpec, pem(rsa.privateKey), 'is a private key'],
    ['a certificate', sendGrid, CERTIFICATE, 'is a certificate'],
    ['an RSA key', sendGrid, pem(rsa.publicKey), 'is a key of the kind rsa; SendGrid signs with ECDSA'],
    ['a key on another curve', sendGrid, pem(p384.publicKey), 'is a key of the kind secp384r1'],
    ['an Ed25519 key', sendGrid, der(ed25519.publicKey), 'is a key of the kind ed25519'],
    ['an ECDSA key', rsaSpec, pem(p256.publicKey), 'is a key of the kind prime256v1; Rsa signs with RSA'],
    ['a weak RSA key', rsaSpec, pem(weakRsa.publicKey), 'is an RSA key of 1024 bits; 2048 are the least'],
    ['a secret', sendGrid, 'a secret that is long enough', 'is not a public key of SendGrid'],
    ['half a key', sendGrid, der(p256.publicKey).slice(0, 80), 'is not a public key of SendGrid'],
    ['nothing', sendGrid, '', 'is not a public key of SendGrid'],
  ] as const)('is refused where it is %s, by its field and without quoting it', (_, spec, text, message) => {
    const read = () => readVerificationKey(spec, text, 'webhookHmacKeyPrevious');
    expect(read).toThrow(GateConfigurationError);
    expect(read).toThrow(expect.objectContaining({ field: 'webhookHmacKeyPrevious' }));
    expect(read).toThrow(message);
    if (text !== '') expect(read).not.toThrow(text.slice(0, 20));
  });

  it('never signs', () => {
    expect(() => readSigningKey(sendGrid, pem(p256.publicKey), 'key')).toThrow('is not a private key of SendGrid');
  });
});

it('verifies RSA where an operator’s spec signs with it, and not after any change', async () => {
  const settings = settingsOf({ specs: [rsaSpec] });
  const request = { url: 'https://a.example/', timestampMs: NOW, deliveryId: 'd', contentType: 'application/json' };
  const signed = signDelivery({ ...request, spec: rsaSpec, key: pem(rsa.privateKey), body: Buffer.from('{"a":1}') });
  const given = { inputs: { webhookSignatureScheme: 'Rsa' }, key: pem(rsa.publicKey), settings };
  expect(await judge(given, received(signed))).toMatchObject({ passed: true });
  expect(await judge(given, received({ ...signed, body: Buffer.from('{"a":2}') }))).toMatchObject({
    reason: 'signature_mismatch',
  });
});

it('takes the other valid signature of an ECDSA delivery for the same delivery', async () => {
  const body = Buffer.from('[{"event":"open"}]');
  const request = { url: 'https://a.example/', timestampMs: NOW, deliveryId: 'd', contentType: 'application/json' };
  const signed = signDelivery({ ...request, spec: sendGrid, key: SIGNING_KEYS.SendGrid ?? '', body });
  const name = sendGrid.headers[0]?.signature ?? '';
  const headers = { ...signed.headers, [name]: otherSignature(signed.headers[name] ?? '') };
  const inputs = { webhookSignatureScheme: 'SendGrid' };
  const verdicts = await Promise.all(
    [signed.headers, headers].map((each) =>
      judge({ inputs, key: KEYS.SendGrid }, received({ ...signed, headers: each })),
    ),
  );
  // The nonce is made from timestamp and body, which are the same for both.
  for (const verdict of verdicts) {
    expect(verdict).toMatchObject({ passed: true, evidence: { signedTimestamp: { ms: NOW } } });
    expect(verdict.evidence).not.toHaveProperty('signedBytesSha256');
  }
});

/** For every (r, s) that verifies, (r, n - s) does too. */
function otherSignature(base64: string): string {
  const n = BigInt('0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551');
  const bytes = Buffer.from(base64, 'base64');
  const rLength = bytes[3] ?? 0;
  const s = BigInt(`0x${bytes.subarray(6 + rLength).toString('hex')}`);
  const hex = (n - s).toString(16).padStart(64, '0');
  const plain = Buffer.from(Number.parseInt(hex.slice(0, 2), 16) > 127 ? `00${hex}` : hex, 'hex');
  let from = 0;
  while (plain[from] === 0 && (plain[from + 1] ?? 0) < 128) from += 1;
  const number = plain.subarray(from);
  const parts = Buffer.concat([bytes.subarray(2, 4 + rLength), Buffer.from([2, number.length]), number]);
  return Buffer.concat([Buffer.from([0x30, parts.length]), parts]).toString('base64');
}

it('makes no two tokens equal that begin alike, whatever their length', async () => {
  const inputs = { webhookSignatureScheme: 'Telegram' };
  const token = createHash('sha256').update('token').digest('hex');
  const judgeWith = (sent: string) => {
    const headers = { 'x-telegram-bot-api-secret-token': sent };
    return judge({ inputs, key: token }, received({ headers, body: Buffer.from('{}'), url: 'https://a.example/' }));
  };
  expect(await judgeWith(token)).toMatchObject({ passed: true });
  for (const sent of [token.slice(1), `${token} `, `${token}${token}`, token.toUpperCase(), `${token}, ${token}`]) {
    expect(await judgeWith(sent)).toMatchObject({ passed: false, reason: 'signature_mismatch' });
  }
});
