import { createHmac } from 'node:crypto';
import { expect, it } from 'vitest';
import { type HandshakeRequest, recogniseHandshake } from '../../../src/webhooks/schemes/handshake.ts';
import { builtIn } from './fixtures.ts';

const KEY = 'the key of the publisher';

function ask(scheme: string, request: Partial<HandshakeRequest>) {
  return recogniseHandshake(builtIn(scheme).handshakes ?? [], {
    method: 'GET',
    headers: {},
    query: new URLSearchParams(),
    isVerified: false,
    keys: { current: KEY, previous: undefined },
    body: Buffer.alloc(0),
    ...request,
  })?.answer;
}

const challengeOf = (challengeCode: string) => ask('LinkedIn', { query: new URLSearchParams({ challengeCode }) });

it('answers the challenge of LinkedIn with its HMAC', () => {
  const challengeCode = '890e4665-4dfe-4ab1-b689-ed553bceeed0';
  const challengeResponse = createHmac('sha256', KEY).update(challengeCode).digest('hex');
  expect(challengeOf(challengeCode)).toMatchObject({
    contentType: 'application/json',
    body: JSON.stringify({ challengeCode, challengeResponse }),
  });
});

it.each(['hmacsha256={"type":"X"}', 'hmacsha256=', '{}'])('gives LinkedIn no signature of a delivery: %s', (text) => {
  expect(challengeOf(text)).toBeUndefined();
});

it('answers the challenge of Front once its signature verified', () => {
  const [handshake] = builtIn('Front').handshakes ?? [];
  expect(handshake?.needsVerification).toBe(true);
  const request = { method: 'POST', headers: { 'x-front-challenge': 'abcDEF123' }, isVerified: true };
  expect(ask('Front', request)).toMatchObject({ statusCode: 200, body: '{"challenge":"abcDEF123"}' });
  expect(ask('Front', { ...request, headers: {} })).toBeUndefined();
});

it('answers the challenge of X with its HMAC, and never with the signature of a delivery', () => {
  const crcOf = (token: string) => ask('X', { query: new URLSearchParams({ crc_token: token }) });
  const hash = createHmac('sha256', KEY).update('MDkwZGQ5').digest('base64');
  expect(crcOf('MDkwZGQ5')?.body).toBe(JSON.stringify({ response_token: `sha256=${hash}` }));
  for (const body of ['{}', '{"for_user_id":"1"}', ' ', '']) expect(crcOf(body)).toBeUndefined();
});

it.each([
  ['Nylas', 'challenge'],
  ['Onfleet', 'check'],
])('echoes what %s asks, as plain text alone', (scheme, name) => {
  const echoed = (text: string) => ask(scheme, { query: new URLSearchParams({ [name]: text }) });
  expect(echoed('aB3-x_9')).toMatchObject({ statusCode: 200, contentType: 'text/plain', body: 'aB3-x_9' });
  expect(echoed('<script>')).toBeUndefined();
});

it('answers the intent to receive of Xero once its signature verified, with no body in either case', () => {
  const [handshake] = builtIn('Xero').handshakes ?? [];
  expect(handshake).toMatchObject({ needsVerification: true, failsEmpty: true });
  const request = { method: 'POST', isVerified: true, body: Buffer.from('{"events":[],"entropy":"S0m3"}') };
  expect(ask('Xero', request)).toMatchObject({ statusCode: 200, body: '' });
  expect(ask('Xero', { ...request, body: Buffer.from('{"events":[{}]}') })).toBeUndefined();
});

const FORM = { 'content-type': 'application/x-www-form-urlencoded' };

it.each([
  ['Mandrill', 'mandrill_events=%5B%5D', 'mandrill_events=%5B%7B%7D%5D', FORM],
  ['WooCommerce', 'webhook_id=7', 'webhook_id=7', { ...FORM, 'x-wc-webhook-signature': 'c2ln' }],
])('takes the test of %s for no delivery, and a delivery for no test', (scheme, test, delivery, headers) => {
  const posted = (body: string, sent: Record<string, string>) =>
    ask(scheme, { method: 'POST', headers: sent, body: Buffer.from(body) });
  expect(posted(test, FORM)).toMatchObject({ statusCode: 200, body: '' });
  expect(posted(delivery, headers)).toBeUndefined();
});

it('answers the test of Okta to who knows the token alone', () => {
  const request = { headers: { 'x-okta-verification-challenge': 'Q1w2-e3' }, isVerified: true };
  expect(ask('Okta', request)).toMatchObject({ body: '{"verification":"Q1w2-e3"}', contentType: 'application/json' });
  expect(ask('Okta', { ...request, headers: {} })).toBeUndefined();
  expect(ask('Okta', { ...request, isVerified: false })).toBeUndefined();
  const [handshake] = builtIn('Okta').handshakes ?? [];
  expect(handshake).toMatchObject({ method: 'GET', needsVerification: true });
});
