import { describe, expect, it } from 'vitest';
import { accessOf, entranceOf } from '../../../src/features/deploy-rules/entrance.ts';
import type { WebhookInputs } from '../../../src/manifest/webhook-inputs.ts';
import { gateChain, gatePreparer } from '../../../src/webhooks/gates/index.ts';
import { sampleSettings, sampleTrigger } from '../../webhooks/samples.ts';

const KEY = 'a secret of more than thirty-two bytes';
const URL = 'https://publisher.example/keys';
const ENFORCED: WebhookInputs = { webhookEnforcementMode: 'Enforce', webhookReplayToleranceSeconds: 300 };
const JWT: WebhookInputs = {
  ...ENFORCED,
  webhookSignatureScheme: 'Jwt',
  webhookHmacKey: KEY,
  webhookRequireTimestamp: true,
};
const BOUND: WebhookInputs = { ...JWT, webhookJwtBodyHashClaim: 'hash' };
const { webhookHmacKey: _, ...KEYLESS } = BOUND;
const SET: WebhookInputs = { ...KEYLESS, webhookJwksUrl: URL };
const SIGNED: WebhookInputs = { ...JWT, webhookSignatureScheme: 'HttpMessageSignatures' };
const TOKEN: WebhookInputs = {
  webhookEnforcementMode: 'Enforce',
  webhookSignatureScheme: 'Token',
  webhookHmacKey: KEY,
};

const preparer = gatePreparer(gateChain(), sampleSettings({ publicUrl: undefined }));

describe('access to a trigger with a scheme of a standard', () => {
  const entrance = (inputs: WebhookInputs) => entranceOf(sampleTrigger(inputs), { preparer, defaultMode: 'Enforce' });
  const compare = (before: WebhookInputs, after: WebhookInputs) => accessOf(entrance(before), entrance(after)).access;
  const COMPONENTS = ['@method', '@path', 'content-digest'];

  it.each<[string, WebhookInputs, WebhookInputs]>([
    ['an issuer is asked for', BOUND, { ...BOUND, webhookJwtIssuer: 'a' }],
    ['an audience is asked for', BOUND, { ...BOUND, webhookJwtAudience: 'a' }],
    ['a hash of the body is asked for', JWT, BOUND],
    ['a time is asked for', { ...BOUND, webhookRequireTimestamp: false }, BOUND],
    ['a key id is asked for', SIGNED, { ...SIGNED, webhookSignatureKeyId: 'a' }],
    ['more has to be covered', SIGNED, { ...SIGNED, webhookRequiredComponents: [...COMPONENTS, 'date'] }],
    ['a previous key goes', { ...BOUND, webhookHmacKeyPrevious: 'another secret of more than sixteen' }, BOUND],
    ['the key goes', BOUND, KEYLESS],
  ])('is narrower where %s, and wider the other way round', (_what, before, after) => {
    expect([compare(before, after), compare(after, before)]).toEqual(['narrower', 'wider']);
  });

  it.each<[string, WebhookInputs, WebhookInputs]>([
    ['another issuer is asked for', { ...BOUND, webhookJwtIssuer: 'a' }, { ...BOUND, webhookJwtIssuer: 'b' }],
    [
      'the key is written in another way',
      { ...BOUND, webhookHmacKey: 'deadbeef'.repeat(4) },
      { ...BOUND, webhookHmacKey: 'deadbeef'.repeat(4), webhookKeyEncoding: 'hex' },
    ],
    ['another claim holds the hash', BOUND, { ...BOUND, webhookJwtBodyHashClaim: 'sha256' }],
    ['another header is read', BOUND, { ...BOUND, webhookSignatureHeader: 'X-Token' }],
    ['another prefix is read', BOUND, { ...BOUND, webhookHeaderValuePrefix: 'JWT ' }],
    ['keys come from elsewhere', BOUND, SET],
    ['keys come from another set', SET, { ...SET, webhookJwksUrl: `${URL}/2` }],
    ['something else has to be covered', SIGNED, { ...SIGNED, webhookRequiredComponents: ['content-digest', 'date'] }],
    ['another URL is signed', SIGNED, { ...SIGNED, webhookPublicUrl: 'https://hooks.example.com/in' }],
    ['the scheme is another one', BOUND, SIGNED],
    ['a token is enough', BOUND, TOKEN],
    ['a token is in another header', TOKEN, { ...TOKEN, webhookSignatureHeader: 'X-Token' }],
  ])('is wider where %s', (_what, before, after) => {
    expect(compare(before, after)).toBe('wider');
  });

  // A tolerance is also the leeway for the time limit that a signature has itself, a minute without one.
  it.each([BOUND, SIGNED])('is wider where a signature passes for longer after its own time limit', (inputs) => {
    const aged = (webhookReplayToleranceSeconds: number | undefined) => ({ ...inputs, webhookReplayToleranceSeconds });
    expect(compare(aged(undefined), aged(61))).toBe('wider');
    expect(compare(aged(0), aged(61))).toBe('wider');
    expect(compare(aged(undefined), aged(60))).toBe('narrower');
    expect(compare(aged(61), aged(60))).toBe('narrower');
  });

  it.each<[string, WebhookInputs, WebhookInputs]>([
    ['nothing changes', BOUND, { ...BOUND }],
    ['the default is written out', BOUND, { ...BOUND, webhookHeaderValuePrefix: 'bearer ' }],
    ['the components are in another order', SIGNED, { ...SIGNED, webhookRequiredComponents: COMPONENTS.toReversed() }],
    ['the set stays the same', SET, { ...SET }],
  ])('is the same where %s', (_what, before, after) => {
    expect(compare(before, after)).toBe('same');
  });
});
