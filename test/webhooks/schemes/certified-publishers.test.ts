import { sign } from 'node:crypto';
import { createRequire } from 'node:module';
import { Readable } from 'node:stream';
import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { JsonObject } from '../../../src/model/json.ts';
import { signedPayload } from '../../../src/webhooks/schemes/signed-payload.ts';
import { bodyReader } from '../../../src/webhooks/schemes/values.ts';
import { SnsValidator } from '../../oracles/sns.ts';
import {
  PAYPAL_PRIVATE_KEY,
  PAYPAL_URL,
  SNS_CERTIFICATE,
  SNS_PRIVATE_KEY,
  SNS_URL,
} from '../../publishers/certificates.ts';
import { builtIn, deliveryOf, judge, NOW, publisher, settingsOf } from './fixtures.ts';

const sns = builtIn('AmazonSns');
const TOPIC = 'arn:aws:sns:eu-west-1:123456789012:orders';
const WEBHOOK = '8PT597110X687430LKGECATA';
const TIME = new Date(NOW).toISOString();

const NAMES = ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type'] as const;

function notification(given: JsonObject = {}): JsonObject {
  const message = {
    Type: 'Notification',
    MessageId: '22b80b92',
    TopicArn: TOPIC,
    Subject: 'Hello',
    Message: '{"order":1}',
    Timestamp: TIME,
    SignatureVersion: '2',
    SigningCertURL: SNS_URL,
    MessageAttributes: { color: { Type: 'String', Value: 'red' } },
    ...given,
  };
  const text = NAMES.map((name) => `${name}\n${message[name]}\n`).join('');
  const hash = message.SignatureVersion === '1' ? 'sha1' : 'sha256';
  return { ...message, Signature: sign(hash, Buffer.from(text), SNS_PRIVATE_KEY).toString('base64') };
}

const SNS_INPUTS = { webhookSignatureScheme: 'AmazonSns' };
const judgeSns = (message: JsonObject, settings = settingsOf()) =>
  judge({ inputs: SNS_INPUTS, key: TOPIC, settings }, deliveryOf({ body: JSON.stringify(message) }));

describe('a message of Amazon SNS', () => {
  it('is verified, and not after a change of anything that is signed', async () => {
    expect(await judgeSns(notification())).toMatchObject({ passed: true, evidence: { isVerified: true } });
    for (const name of [...NAMES, 'Signature']) {
      const message = notification();
      const value = String(message[name]);
      const changed = {
        ...message,
        [name]: `${value.slice(0, -3)}${value.at(-3) === 'A' ? 'B' : 'A'}${value.slice(-2)}`,
      };
      expect((await judgeSns(changed)).passed, name).toBe(false);
    }
  });

  it('has one nonce, whatever is changed in what is not signed', async () => {
    const [one, other] = await Promise.all([
      judgeSns(notification()),
      judgeSns({ ...notification(), MessageAttributes: {}, UnsubscribeURL: 'https://evil.example/' }),
    ]);
    expect(one.evidence?.signedBytesSha256).toMatch(/^[0-9a-f]{64}$/);
    expect(other.evidence?.signedBytesSha256).toBe(one.evidence?.signedBytesSha256);
  });

  it('never has the signed bytes of another message', () => {
    const words = fc
      .array(fc.constantFrom('x', '\n', 'Subject\n', '\nMessageId\n', 'Timestamp', '\nTimestamp\nt\n', ''), {
        maxLength: 4,
      })
      .map((parts) => parts.join(''));
    const messages = fc.record(
      { Message: words, MessageId: words, Subject: words, Timestamp: words },
      { requiredKeys: ['Message', 'MessageId', 'Timestamp'] },
    );
    const seen = new Map<string, string>();
    fc.assert(
      fc.property(messages, (given) => {
        const body = { ...given, TopicArn: TOPIC, Type: 'Notification' };
        const delivery = deliveryOf({ body: JSON.stringify(body) });
        const readField = bodyReader({}, delivery.body);
        const input = { delivery, publicUrl: '', timestamp: undefined, deliveryId: undefined, name: TOPIC, readField };
        const payload = signedPayload(sns, input);
        if (!payload.isComplete) return;
        const bytes = Buffer.concat([...(payload.variants[0] ?? [])]).toString();
        const text = JSON.stringify([given.Message, given.MessageId, given.Subject ?? null, given.Timestamp]);
        expect(seen.get(bytes) ?? text).toBe(text);
        seen.set(bytes, text);
      }),
      { numRuns: 4000 },
    );
    expect(seen.size).toBeGreaterThan(100);
  });

  it('signed with SHA-1 counts only where SHA-1 is allowed', async () => {
    const message = notification({ SignatureVersion: '1' });
    expect(await judgeSns(message)).toMatchObject({ passed: true });
    const settings = settingsOf({}, { allowLegacySha1: false });
    expect(await judgeSns(message, settings)).toMatchObject({ passed: false, reason: 'sha1_not_allowed' });
    expect(await judgeSns(notification(), settings)).toMatchObject({ passed: true });
  });

  it('makes the service fetch nothing where it would be refused in any case', async () => {
    const { certificates, asked } = publisher();
    const settings = settingsOf({}, { certificates });
    const { Signature: _, ...unsigned } = notification();
    for (const message of [
      unsigned,
      { ...notification(), Signature: 'AAAA' },
      notification({ TopicArn: 'arn:aws:sns:eu-west-1:999999999999:orders' }),
      notification({ Type: 'Other' }),
      { ...notification(), SigningCertURL: 'https://evil.example/x.pem' },
      { ...notification(), SigningCertURL: 1 },
    ]) {
      expect(await judgeSns(message, settings)).toMatchObject({ reason: expect.stringMatching(/^signature_/) });
    }
    expect(asked).toEqual([]);
  });

  it('whose certificate cannot be had could not be judged, and its detail tells no more than a code', async () => {
    const { certificates } = publisher(() => Promise.reject(Object.assign(new Error('hidden'), { code: 'ENOTFOUND' })));
    for (const settings of [settingsOf({}, { certificates }), settingsOf({}, { certificates: undefined })]) {
      const verdict = await judgeSns(notification(), settings);
      expect(verdict).toMatchObject({
        passed: false,
        reason: 'verification_unavailable',
        evidence: { isVerified: false },
      });
      expect(JSON.stringify(verdict)).not.toContain('hidden');
    }
  });

  it('is believed by sns-validator, and a changed one is not', async () => {
    const require = createRequire(import.meta.url);
    const https = require('node:https');
    const { get } = https;
    onTestFinished(() => {
      https.get = get;
    });
    https.get = (_url: string, answer: (response: object) => void) => {
      answer(Object.assign(Readable.from([SNS_CERTIFICATE]), { statusCode: 200 }));
      return { on: () => {} };
    };
    const accepts = (message: JsonObject) =>
      new Promise((resolve) =>
        new SnsValidator().validate({ ...message }, (error: unknown) => resolve(error === null)),
      );
    for (const version of ['1', '2']) {
      const message = notification({ SignatureVersion: version });
      expect([await accepts(message), (await judgeSns(message)).passed]).toEqual([true, true]);
      const changed = { ...message, Message: 'x' };
      expect([await accepts(changed), (await judgeSns(changed)).passed]).toEqual([false, false]);
    }
  });
});

describe('the URL of a subscription', () => {
  const [handshake] = sns.handshakes ?? [];
  const URL_OF_SNS = 'https://sns.eu-west-1.amazonaws.com/';
  const query = `?Action=ConfirmSubscription&TopicArn=${TOPIC}&Token=t`;
  const visits = (SubscribeURL: unknown) =>
    handshake?.visits?.({
      method: 'POST',
      headers: {},
      query: new URLSearchParams(),
      body: Buffer.from(
        JSON.stringify({ Type: 'SubscriptionConfirmation', TopicArn: TOPIC, Token: 't', SubscribeURL }),
      ),
      isVerified: true,
      keys: { current: TOPIC, previous: undefined },
    });

  it('is called where it confirms the subscription at AWS', () => {
    expect(visits(`${URL_OF_SNS}${query}`)).toBe(`${URL_OF_SNS}${query}`);
  });

  it.each([
    `http://sns.eu-west-1.amazonaws.com/${query}`,
    `https://sns.s3-eu-west-1.amazonaws.com/${query}`,
    `https://evil.example/${query}`,
    `https://sns.eu-west-1.amazonaws.com.evil.example/${query}`,
    `https://sns.eu-west-1.amazonaws.com:8443/${query}`,
    `https://user:password@sns.eu-west-1.amazonaws.com/${query}`,
    `https://sns.eu-west-1.amazonaws.com/x${query}`,
    `${URL_OF_SNS}?Action=Unsubscribe&TopicArn=${TOPIC}&Token=t`,
    `${URL_OF_SNS}?Action=ConfirmSubscription&TopicArn=arn:aws:sns:eu-west-1:999999999999:x&Token=t`,
    `${URL_OF_SNS}?Action=ConfirmSubscription&TopicArn=${TOPIC}&Token=u`,
    URL_OF_SNS,
    '',
    1,
  ])('is not called where it is %j', (url) => {
    expect(visits(url)).toBeUndefined();
  });
});

describe('a delivery of PayPal', () => {
  const BODY = Buffer.from('{"id":"WH-1"}');
  const delivery = (body: Buffer) =>
    deliveryOf({
      body,
      headers: {
        'PayPal-Transmission-Id': 'id-1',
        'PayPal-Transmission-Time': TIME,
        'PayPal-Transmission-Sig': sign(
          'sha256',
          Buffer.from(`id-1|${TIME}|${WEBHOOK}|${crc32(BODY)}`),
          PAYPAL_PRIVATE_KEY,
        ).toString('base64'),
        'PayPal-Cert-Url': PAYPAL_URL,
      },
    });
  const judgeBody = (body: Buffer) =>
    judge({ inputs: { webhookSignatureScheme: 'PayPal' }, key: WEBHOOK }, delivery(body));

  it('is refused when one bit of the body is another', async () => {
    expect(await judgeBody(BODY)).toMatchObject({ passed: true });
    for (let bit = 0; bit < BODY.length * 8; bit += 1) {
      const body = Buffer.from(BODY);
      body.writeUInt8(body.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
      expect((await judgeBody(body)).passed).toBe(false);
    }
  });

  it('passes with a body that is made to have its checksum, which is why the nonce is made of what is signed', async () => {
    const forged = withChecksum(Buffer.from('{"id":"forged"}'), crc32(BODY));
    const [one, other] = await Promise.all([judgeBody(BODY), judgeBody(forged)]);
    expect(other).toMatchObject({ passed: true });
    expect(other.evidence?.signedBytesSha256).toBe(one.evidence?.signedBytesSha256);
  });
});

/** The body plus four bytes that give it this checksum: CRC-32 is linear, so each of their bits can be solved for. */
function withChecksum(body: Buffer, wanted: number): Buffer {
  const of = (patch: number) => {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(patch >>> 0);
    return crc32(Buffer.concat([body, bytes]));
  };
  const base = of(0);
  const rows = Array.from({ length: 32 }, (_, bit) => ({ effect: (of(2 ** bit) ^ base) >>> 0, patch: 2 ** bit }));
  let [missing, patch] = [(base ^ wanted) >>> 0, 0];
  for (let bit = 31; bit >= 0; bit -= 1) {
    const mask = 2 ** bit;
    const has = (value: number) => Math.floor(value / mask) % 2 === 1;
    const pivot = rows.findIndex(({ effect }) => has(effect));
    if (pivot === -1) continue;
    const [row] = rows.splice(pivot, 1);
    if (row === undefined) continue;
    for (const other of rows) {
      if (!has(other.effect)) continue;
      other.effect = (other.effect ^ row.effect) >>> 0;
      other.patch = (other.patch ^ row.patch) >>> 0;
    }
    if (!has(missing)) continue;
    missing = (missing ^ row.effect) >>> 0;
    patch = (patch ^ row.patch) >>> 0;
  }
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(patch);
  return Buffer.concat([body, bytes]);
}
