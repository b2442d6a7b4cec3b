import { createHash, createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { type HandshakeRequest, recogniseHandshake } from '../../../src/webhooks/schemes/handshake.ts';
import type { HandshakeForm } from '../../../src/webhooks/schemes/publishers/handshake-form.ts';
import { type PublisherRow, publisherSpec } from '../../../src/webhooks/schemes/publishers/row.ts';
import { part } from '../../../src/webhooks/schemes/spec.ts';

const KEY = 'the key of the publisher';

function shake(
  form: HandshakeForm,
  request: Partial<Omit<HandshakeRequest, 'body'>> & { body?: string },
  row: Partial<PublisherRow> = {},
) {
  const { handshakes = [] } = publisherSpec({
    name: 'Acme',
    header: 'X-Sig',
    signs: [{ ...part.body, isJsonObject: true }],
    eventType: { none: 'none' },
    eventId: { none: 'none' },
    source: 'made up, 2026-11',
    certainty: 'documented',
    ...row,
    handshakes: [form],
  });
  return recogniseHandshake(handshakes, {
    method: form.method,
    headers: {},
    query: new URLSearchParams(),
    isVerified: false,
    keys: { current: KEY, previous: undefined },
    ...request,
    body: Buffer.from(request.body ?? ''),
  });
}

const query = (parameters: Record<string, string>) => ({ query: new URLSearchParams(parameters) });

describe('the HMAC of a token', () => {
  const crc: HandshakeForm = {
    name: 'crc_token',
    method: 'GET',
    when: ['{query:crc_token}'],
    answer: { json: { response_token: { hmac: '{query:crc_token}', as: 'base64', prefix: 'sha256=' } } },
  };

  it('is answered in JSON, with the prefix', () => {
    const digest = createHmac('sha256', KEY).update('abc_123').digest('base64');
    expect(shake(crc, query({ crc_token: 'abc_123' }))).toEqual({
      name: 'crc_token',
      answer: {
        statusCode: 200,
        contentType: 'application/json',
        body: JSON.stringify({ response_token: `sha256=${digest}` }),
      },
    });
  });

  it.each(['{"event":"x"}', '{}', 'a b', 'a.b', 'a:b', '', 'é', 'a'.repeat(129), '1700000000.{}'])(
    'is never that of %j, which could be signed in a delivery',
    (token) => {
      expect(shake(crc, query({ crc_token: token }))?.answer).toBeUndefined();
    },
  );

  it('is made with the bytes that the key stands for, and of no key that does not sign so', () => {
    const hexKey = {
      ...query({ crc_token: 't' }),
      keys: { current: Buffer.from(KEY).toString('hex'), previous: undefined },
    };
    const digest = createHmac('sha256', KEY).update('t').digest('base64');
    expect(shake(crc, hexKey, { keyEncoding: 'hex' })?.answer?.body).toContain(digest);
    expect(
      shake(crc, { ...query({ crc_token: 't' }), keys: { current: undefined, previous: KEY } })?.answer,
    ).toBeUndefined();
  });
});

describe('eBay’s challenge', () => {
  const challenge: HandshakeForm = {
    name: 'challenge_code',
    method: 'GET',
    when: ['{query:challenge_code}'],
    answer: { json: { challengeResponse: { sha256: '{query:challenge_code}{token}{url}', as: 'hex' } } },
  };
  const publicUrl = 'https://hooks.example.com/flows/api/webhook/ebay';

  it('is the hash of challenge, token and URL', () => {
    const request = { ...query({ challenge_code: 'c1' }), verifyToken: 'tok', publicUrl };
    const hash = createHash('sha256').update(`c1tok${publicUrl}`).digest('hex');
    expect(shake(challenge, request)?.answer?.body).toBe(JSON.stringify({ challengeResponse: hash }));
  });

  it('is refused without a token', () => {
    expect(shake(challenge, { ...query({ challenge_code: 'c1' }), publicUrl })).toMatchObject({
      answer: undefined,
      refusal: { statusCode: 403, reason: 'key_not_configured' },
    });
  });
});

describe('what is echoed', () => {
  const graph: HandshakeForm = {
    name: 'validationToken',
    method: 'POST',
    when: ['{query:validationToken}'],
    echoesSentence: true,
    answer: { text: '{query:validationToken}' },
  };

  it('may be a sentence where the publisher sends one', () => {
    const token = 'Validation: Testing client application reachability for subscription Request-Id: 0f7d';
    expect(shake(graph, query({ validationToken: token }))?.answer).toEqual({
      statusCode: 200,
      contentType: 'text/plain',
      body: token,
      headers: { 'x-content-type-options': 'nosniff' },
    });
  });

  it.each(['<script>', 'a"b', "a'b", 'a\nb', 'a&b', 'é', ''])('is never %j', (token) => {
    expect(shake(graph, query({ validationToken: token }))?.answer).toBeUndefined();
  });

  it('comes in JSON, of the one item of a list (Event Grid)', () => {
    const form: HandshakeForm = {
      name: 'SubscriptionValidation',
      method: 'POST',
      when: ['{header:aeg-event-type} = SubscriptionValidation'],
      answer: { json: { validationResponse: '{field:0.data.validationCode}' } },
    };
    const headers = { 'aeg-event-type': 'SubscriptionValidation' };
    const body = JSON.stringify([{ data: { validationCode: '512d38b6-c7b8-40c8' } }]);
    expect(shake(form, { headers, body })?.answer?.body).toBe('{"validationResponse":"512d38b6-c7b8-40c8"}');
    expect(shake(form, { headers: { 'aeg-event-type': 'Notification' }, body })).toBeUndefined();
    const evil = JSON.stringify([{ data: { validationCode: '<b>' } }]);
    expect(shake(form, { headers, body: evil })?.answer).toBeUndefined();
  });
});

describe('Xero’s intent to receive', () => {
  const intent: HandshakeForm = {
    name: 'intent to receive',
    method: 'POST',
    isSigned: true,
    when: ['{field:events} = []'],
    failsEmpty: true,
  };
  const body = '{"events":[],"entropy":"S0m3r4Nd0mt3xt"}';

  it('is 200 with nothing where the signature is right, and fails without a body where it is not', () => {
    const answer = { statusCode: 200, contentType: 'text/plain', body: '' };
    expect(shake(intent, { body, isVerified: true })).toMatchObject({ answer });
    expect(shake(intent, { body })).toEqual({ name: 'intent to receive', answer: undefined, failsEmpty: true });
    expect(shake(intent, { body: '{"events":[{}]}', isVerified: true })).toBeUndefined();
  });
});
