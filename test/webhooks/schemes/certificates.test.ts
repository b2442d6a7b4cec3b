import { X509Certificate } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { certificateUrlOf } from '../../../src/webhooks/schemes/certificates.ts';
import {
  certificateAt,
  EC_CERTIFICATE,
  PAYPAL_CERTIFICATE,
  PAYPAL_URL,
  SNS_CERTIFICATE,
  SNS_URL,
  WEAK_CERTIFICATE,
} from '../../publishers/certificates.ts';
import { builtIn, deliveryOf, NOW, publisher } from './fixtures.ts';

const sns = { spec: builtIn('AmazonSns'), isSandbox: false };
const payPal = { spec: builtIn('PayPal'), isSandbox: false };
const STRANGER = '192.0.2.1';

const code = (promise: Promise<unknown>) =>
  promise.then(
    () => 'a key',
    (error) => error.code ?? error.message,
  );

describe('a certificate', () => {
  it('is fetched once for all deliveries that wait for it, and once for all that follow', async () => {
    const { certificates, asked } = publisher();
    const keys = await Promise.all(Array.from({ length: 50 }, () => certificates.keyFor(sns, SNS_URL, STRANGER)));
    await certificates.keyFor(sns, SNS_URL, STRANGER);
    expect(new Set(keys).size).toBe(1);
    expect(asked).toEqual([SNS_URL]);
  });

  it('is not used after it expired, nor before it is valid', async () => {
    const { certificates, asked, pass } = publisher();
    await certificates.keyFor(sns, SNS_URL, STRANGER);
    const { validTo, validFrom } = new X509Certificate(SNS_CERTIFICATE);
    pass(Date.parse(validTo) - NOW - 1);
    expect(await code(certificates.keyFor(sns, SNS_URL, STRANGER))).toBe('a key');
    pass(1);
    expect(await code(certificates.keyFor(sns, SNS_URL, STRANGER))).toBe('CERTIFICATE_NOT_VALID');
    expect(asked).toHaveLength(2);
    const early = publisher();
    early.pass(Date.parse(validFrom) - NOW - 1);
    expect(await code(early.certificates.keyFor(sns, SNS_URL, STRANGER))).toBe('CERTIFICATE_NOT_VALID');
  });

  it('that cannot be had is asked for again after a minute, by whoever waits then', async () => {
    let isUp = false;
    const { certificates, asked, pass } = publisher((url) =>
      isUp ? certificateAt(url) : Promise.reject(Object.assign(new Error(), { code: 'ECONNREFUSED' })),
    );
    for (const _ of [1, 2, 3]) expect(await code(certificates.keyFor(sns, SNS_URL, STRANGER))).toBe('ECONNREFUSED');
    isUp = true;
    pass(59_999);
    expect(await code(certificates.keyFor(sns, SNS_URL, STRANGER))).toBe('ECONNREFUSED');
    pass(1);
    expect(await code(certificates.keyFor(sns, SNS_URL, STRANGER))).toBe('a key');
    expect(asked).toHaveLength(2);
  });

  it('is not fetched while four others are, so that forged names cannot make the service ask for thousands', async () => {
    let release = () => {};
    const wait = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { certificates, asked } = publisher(async (url) => {
      await wait;
      return certificateAt(url);
    });
    const url = (n: number) => SNS_URL.replace('f3ecfb72', `0000000${n}`);
    const pending = [1, 2, 3, 4].map((n) => code(certificates.keyFor(sns, url(n), STRANGER)));
    expect(await code(certificates.keyFor(sns, url(5), STRANGER))).toBe('TOO_MANY_FETCHES');
    release();
    expect(await Promise.all(pending)).toEqual(Array(4).fill('STATUS_404'));
    expect(asked).toHaveLength(4);
    expect(await code(certificates.keyFor(sns, SNS_URL, STRANGER))).toBe('a key');
  });

  it('is fetched for an address from which a delivery was verified while strangers take all fetches, one at a time', async () => {
    const fetches: (() => void)[] = [];
    const { certificates } = publisher(async (url) => {
      await new Promise<void>((answer) => fetches.push(answer));
      return certificateAt(url);
    });
    const url = (n: number) => SNS_URL.replace('f3ecfb72', `0000000${n}`);
    const friend = '198.51.100.1';
    certificates.remember(friend);
    const strangers = [1, 2, 3, 4].map((n) => code(certificates.keyFor(sns, url(n), STRANGER)));
    const own = code(certificates.keyFor(sns, SNS_URL, friend));
    expect(await code(certificates.keyFor(sns, url(5), friend))).toBe('TOO_MANY_FETCHES');
    expect(await code(certificates.keyFor(sns, url(5), STRANGER))).toBe('TOO_MANY_FETCHES');
    for (const answer of fetches) answer();
    expect(await own).toBe('a key');
    expect(await Promise.all(strangers)).toEqual(Array(4).fill('STATUS_404'));
    const again = code(certificates.keyFor(sns, url(6), friend));
    fetches.at(-1)?.();
    expect(await again).toBe('STATUS_404');
  });

  it('of a test system counts only where the trigger says so', async () => {
    const URL_OF_SANDBOX = PAYPAL_URL.replace('api.', 'api.sandbox.');
    const sandbox = { ...payPal, isSandbox: true };
    const naming = (url: string) => deliveryOf({ headers: { 'PayPal-Cert-Url': url } });
    expect(certificateUrlOf(payPal, naming(URL_OF_SANDBOX))).toBeUndefined();
    for (const url of [PAYPAL_URL, URL_OF_SANDBOX]) expect(certificateUrlOf(sandbox, naming(url))).toBe(url);
    expect(certificateUrlOf({ ...sns, isSandbox: true }, naming(URL_OF_SANDBOX))).toBeUndefined();
    const forms = builtIn('PayPal').certificate;
    expect(forms?.commonName?.test('messageverificationcerts.paypal.com')).toBe(true);
    expect(forms?.commonName?.test('messageverificationcerts.sandbox.paypal.com')).toBe(false);
    expect(forms?.commonName?.test('sandbox.paypal.com')).toBe(false);
    expect(forms?.sandbox?.commonName?.test('messageverificationcerts.sandbox.paypal.com')).toBe(true);
  });

  it.each([
    ['a weak key', WEAK_CERTIFICATE, 'is an RSA key of 1024 bits; 2048 are the least'],
    ['a key of another kind', EC_CERTIFICATE, /^is a key of the kind prime256v1; \w+ signs with RSA$/],
    ['no certificate', '<html>', 'NOT_A_CERTIFICATE'],
    ['nothing', '', 'NOT_A_CERTIFICATE'],
    ['half a certificate', SNS_CERTIFICATE.slice(0, 400), 'NOT_A_CERTIFICATE'],
    ['another text in its place', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----', /./],
  ])('is not believed with %s', async (_, pem, reason) => {
    expect(await code(publisher(() => pem).certificates.keyFor(sns, SNS_URL, STRANGER))).toMatch(reason);
    expect(await code(publisher(() => pem).certificates.keyFor(sns, SNS_URL, STRANGER))).not.toBe('a key');
  });

  it('of PayPal is one that names PayPal', async () => {
    const { certificates } = publisher(() => SNS_CERTIFICATE);
    expect(await code(certificates.keyFor(payPal, PAYPAL_URL, STRANGER))).toBe('WRONG_SUBJECT');
    expect(await code(publisher(() => PAYPAL_CERTIFICATE).certificates.keyFor(payPal, PAYPAL_URL, STRANGER))).toBe(
      'a key',
    );
  });
});

describe('the URL of a certificate', () => {
  const named = (url: string) => certificateUrlOf(sns, deliveryOf({ body: JSON.stringify({ SigningCertURL: url }) }));
  const FILE = '/SimpleNotificationService-f3ecfb7224c7233fe7bb5f59f96de52f.pem';

  it.each([
    SNS_URL,
    `https://sns.us-gov-west-1.amazonaws.com${FILE}`,
    `https://sns.cn-north-1.amazonaws.com.cn${FILE}`,
  ])('may be %s', (url) => {
    expect(named(url)).toBe(url);
  });

  it.each([
    `https://sns.s3-eu-west-1.amazonaws.com${FILE}`,
    `https://sns.s3.eu-west-1.amazonaws.com${FILE}`,
    `https://sns.ec2-1-2-3-4.amazonaws.com${FILE}`,
    `https://evil.example/sns.eu-west-1.amazonaws.com${FILE}`,
    `https://sns.eu-west-1.amazonaws.com.evil.example${FILE}`,
    `https://sns.eu-west-1.amazonaws.comevil.example${FILE}`,
    `https://xsns.eu-west-1.amazonaws.com${FILE}`,
    `https://sns.eu-west-1.amazonaws.com@evil.example${FILE}`,
    `https://evil.example#@sns.eu-west-1.amazonaws.com${FILE}`,
    `https://evil.example\\@sns.eu-west-1.amazonaws.com${FILE}`,
    `https://sns.eu-west-1.amazonaws.com:443${FILE}`,
    `https://sns.eu-west-1.amazonaws.com:8443${FILE}`,
    `https://SNS.eu-west-1.amazonaws.com${FILE}`,
    `https://sns.eu-west-1.amazonaws.com.${FILE}`,
    `https://sns.eu-west-1.amazonaws.com/x/..${FILE}`,
    `https://sns.eu-west-1.amazonaws.com/x${FILE}`,
    `https://sns.eu-west-1.amazonaws.com${FILE}?x=1`,
    `https://sns.eu-west-1.amazonaws.com${FILE}#x`,
    `https://sns.eu-west-1.amazonaws.com/?x=${FILE}`,
    `http://sns.eu-west-1.amazonaws.com${FILE}`,
    `ftp://sns.eu-west-1.amazonaws.com${FILE}`,
    ` ${SNS_URL}`,
    `${SNS_URL}\n`,
    'https://127.0.0.1/x.pem',
    'file:///etc/passwd',
    '',
  ])('is never %s', (url) => {
    expect(named(url)).toBeUndefined();
  });

  it('is never one with something in front, behind or between', () => {
    fc.assert(
      fc.property(fc.nat({ max: SNS_URL.length }), fc.string({ minLength: 1, maxLength: 4 }), (at, text) => {
        const url = `${SNS_URL.slice(0, at)}${text}${SNS_URL.slice(at)}`;
        const found = named(url);
        // With more hex digits or letters in the region, the name still belongs to AWS.
        if (found !== undefined) expect(new URL(found).host).toMatch(/^sns\.[a-z0-9-]+\.amazonaws\.com(\.cn)?$/);
      }),
      { numRuns: 2000 },
    );
  });
});
