import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { type Handshake, type HandshakeRequest, recogniseHandshake } from '../../../src/webhooks/schemes/handshake.ts';
import { BUILT_IN_SCHEMES } from '../../../src/webhooks/schemes/publishers/index.ts';
import { HANDSHAKES, type KnownHandshake } from '../../publishers/known-handshakes.ts';
import { builtIn, deliveryOf, judge, lowerCase } from './fixtures.ts';

const answerHandshake = (handshakes: readonly Handshake[] | undefined, request: HandshakeRequest) =>
  recogniseHandshake(handshakes ?? [], request)?.answer;

/** The scheme's answer to the known request, after the signature gate's verdict. */
async function answerTo({ scheme, request, key, verifyToken }: KnownHandshake) {
  if (request === undefined) throw new Error('nothing is sent');
  const delivery = deliveryOf({ ...request, body: request.body ?? '' });
  const verdict = await judge({ inputs: { webhookSignatureScheme: scheme }, key: key ?? 'key' }, delivery);
  return answerHandshake(builtIn(scheme).handshakes, {
    method: request.method,
    headers: lowerCase(request.headers),
    query: new URL(request.path, 'http://a.example').searchParams,
    body: delivery.body,
    isVerified: verdict.evidence?.isVerified === true,
    keys: { current: key, previous: undefined },
    verifyToken,
  });
}

it('is answered as plain text where an operator’s code names a type that browsers run', () => {
  const answer = { statusCode: 200, contentType: 'text/html', body: '<script>alert(1)</script>' };
  const own: Handshake = {
    ...{ name: 'challenge', method: 'POST', needsVerification: false },
    recognises: () => true,
    answer: () => answer,
  };
  const request: HandshakeRequest = {
    ...{ method: 'POST', headers: {}, query: new URLSearchParams(), body: Buffer.alloc(0), isVerified: false },
    keys: { current: undefined, previous: undefined },
  };
  expect(answerHandshake([own], request)).toEqual({ ...answer, contentType: 'text/plain; charset=utf-8' });
});

describe('the known handshakes', () => {
  it.each(HANDSHAKES.filter((it) => it.expect.status === 200 && it.request !== undefined))(
    'answers $scheme $name as documented',
    async (handshake) => {
      const { expect: expected } = handshake;
      const answer = await answerTo(handshake);
      expect(answer?.statusCode).toBe(200);
      if (expected.bodyExact !== undefined) expect(answer?.body).toBe(expected.bodyExact);
      if (expected.bodyJson !== undefined) {
        expect(answer?.contentType).toBe('application/json');
        expect(JSON.parse(answer?.body ?? '')).toEqual(expected.bodyJson);
      }
      const headers = { ...answer?.headers, 'content-type': answer?.contentType };
      expect(headers).toMatchObject(expected.headers ?? {});
    },
  );

  it.each(HANDSHAKES.filter((it) => it.expect.statusNot !== undefined))(
    'does not answer $scheme $name',
    async (attack) => {
      expect(await answerTo(attack)).toBeUndefined();
    },
  );

  it.each(HANDSHAKES.filter((it) => it.request === undefined))(
    'answers accepted deliveries as $scheme reads them',
    (reply) => {
      const response = builtIn(reply.scheme).acceptedResponse;
      if (reply.expect.contentType !== undefined) {
        expect(response).toEqual({ contentType: reply.expect.contentType, body: reply.expect.bodyExact });
        return;
      }
      expect(response?.contentType).toBe('application/json');
      expect(JSON.parse(response?.body ?? '')).toEqual({ type: 'message', text: expect.stringMatching(/./) });
    },
  );

  it('are all of built-in schemes', () => {
    const names = BUILT_IN_SCHEMES.map(({ name }) => name);
    expect(HANDSHAKES.filter(({ scheme }) => !names.includes(scheme))).toEqual([]);
  });
});

function request(parts: Partial<Omit<HandshakeRequest, 'body'>> & { body?: unknown }): HandshakeRequest {
  return {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    query: new URLSearchParams(),
    isVerified: true,
    keys: { current: 'current token', previous: 'previous token' },
    ...parts,
    body: Buffer.from(typeof parts.body === 'string' ? parts.body : JSON.stringify(parts.body ?? {})),
  };
}

const answer = (scheme: string, parts: Parameters<typeof request>[0]) =>
  answerHandshake(builtIn(scheme).handshakes, request(parts));

describe('Zoom', () => {
  const validation = (plainToken: unknown) => ({ event: 'endpoint.url_validation', payload: { plainToken } });

  it('is not a signing oracle: an unsigned validation is never answered', () => {
    expect(answer('Zoom', { body: validation('qgg8vlvZRS6UYooatFL8Aw'), isVerified: false })).toBeUndefined();
  });

  it.each([
    'v0:1739923528:{"event":"meeting.ended"}',
    'v0:1:',
    'a:b',
    'a b',
    'a.b',
    '',
    'a'.repeat(129),
    'ä',
    1,
    null,
    {},
  ])('is not a signing oracle even for a signed one: the token %j is not answered', (plainToken) => {
    expect(answer('Zoom', { body: validation(plainToken) })).toBeUndefined();
  });

  it('answers with the token that signed the question', () => {
    const encrypted = (parts: object) =>
      JSON.parse(answer('Zoom', { body: validation('abc'), ...parts })?.body ?? '{}').encryptedToken;
    const expected = (key: string) => createHmac('sha256', key).update('abc').digest('hex');
    expect(encrypted({})).toBe(expected('current token'));
    expect(encrypted({ usedPreviousKey: true })).toBe(expected('previous token'));
    expect(
      answer('Zoom', { body: validation('abc'), keys: { current: undefined, previous: undefined } }),
    ).toBeUndefined();
  });

  it.each([
    { event: 'meeting.started', payload: { plainToken: 'abc' } },
    { event: 'endpoint.url_validation' },
    [],
    null,
    'no JSON',
  ])('leaves %j to the flow', (body) => {
    expect(answer('Zoom', { body })).toBeUndefined();
  });
});

describe('Slack', () => {
  it('answers no unsigned url_verification', () => {
    expect(answer('Slack', { body: { type: 'url_verification', challenge: 'x' }, isVerified: false })).toBeUndefined();
  });

  it.each([
    { type: 'event_callback', challenge: 'x' },
    { type: 'url_verification' },
    { type: 'url_verification', challenge: 1 },
    [],
    'x',
  ])('leaves %j to the flow', (body) => {
    expect(answer('Slack', { body })).toBeUndefined();
  });

  const headers = { 'content-type': 'application/x-www-form-urlencoded' };

  it('answers ssl_check with nothing, whatever else is in it', () => {
    const sent = { headers, isVerified: false };
    const expected = { statusCode: 200, contentType: 'text/plain', body: '' };
    expect(answer('Slack', { ...sent, body: 'ssl_check=1&token=x' })).toEqual(expected);
    expect(answer('Slack', { ...sent, body: 'payload=%7B%7D&ssl_check=1&command=%2Frun' })).toEqual(expected);
  });

  it.each(['ssl_check=0', 'text=ssl_check%3D1', 'ssl_check', ''])('takes %j for no ssl_check', (body) => {
    expect(answer('Slack', { headers, isVerified: false, body })).toBeUndefined();
  });

  it('takes a JSON body for no ssl_check', () => {
    expect(answer('Slack', { isVerified: false, body: { ssl_check: '1' } })).toBeUndefined();
  });
});

describe('Dropbox', () => {
  const challenged = (challenge: string, method = 'GET') =>
    answer('Dropbox', { method, query: new URLSearchParams({ challenge }), isVerified: false });

  it.each(['<script>alert(1)</script>', '', 'a b', 'a"b', 'a'.repeat(257), 'é', 'a\nb'])(
    'does not echo %j',
    (challenge) => {
      expect(challenged(challenge)).toBeUndefined();
    },
  );

  it('answers a GET alone', () => {
    expect(challenged('abc123')?.body).toBe('abc123');
    expect(challenged('abc123', 'POST')).toBeUndefined();
  });
});

it('asks no handshake that needs a verified request, whatever it would say itself', () => {
  const careless = {
    name: 'careless',
    method: 'POST',
    needsVerification: true,
    recognises: () => true,
    answer: () => ({ statusCode: 200, contentType: 'text/plain', body: 'yes' }),
  } as const;
  expect(answerHandshake([careless], request({ isVerified: false }))).toBeUndefined();
  expect(answerHandshake([careless], request({ isVerified: true }))?.body).toBe('yes');
  expect(answerHandshake(undefined, request({}))).toBeUndefined();
});
