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
