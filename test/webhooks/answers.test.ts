import { STATUS_CODES } from 'node:http';
import { describe, expect, it } from 'vitest';
import type { Reason } from '../../src/model/delivery.ts';
import { REASONS } from '../../src/webhooks/answers.ts';

const EXPECTED: Record<Reason, readonly [statusCode: number, event: string | undefined]> = {
  body_too_large: [413, undefined],
  unknown_flow: [404, undefined],
  flow_unreadable: [503, undefined],
  flow_disabled: [403, 'TriggerRejectedDisabledFlow'],
  encoding_not_supported: [415, undefined],
  invalid_encoding: [400, undefined],
  invalid_json: [400, undefined],
  ip_not_allowed: [403, 'WebhookIpDenied'],
  ip_denied: [403, 'WebhookIpDenied'],
  unverified_rate_limited: [429, 'WebhookRateLimited'],
  rate_limited: [429, 'WebhookRateLimited'],
  signature_missing: [401, 'WebhookSignatureRejected'],
  signature_malformed: [401, 'WebhookSignatureRejected'],
  signature_mismatch: [401, 'WebhookSignatureRejected'],
  key_not_configured: [401, 'WebhookSignatureRejected'],
  sha1_not_allowed: [401, 'WebhookSignatureRejected'],
  verification_unavailable: [503, 'WebhookSignatureRejected'],
  verifier_error: [401, 'WebhookSignatureRejected'],
  timestamp_missing: [401, 'WebhookReplayRejected'],
  timestamp_malformed: [401, 'WebhookReplayRejected'],
  timestamp_skew: [401, 'WebhookReplayRejected'],
  nonce_replayed: [409, 'WebhookReplayRejected'],
  body_schema: [422, 'WebhookBodyRejected'],
  idempotency_conflict: [409, undefined],
  store_unavailable: [503, undefined],
};

describe('reasons', () => {
  it.each(Object.entries(EXPECTED))('answers %s with %o', (reason, [statusCode, event]) => {
    const refusal = REASONS[reason as Reason];
    expect(refusal.statusCode).toBe(statusCode);
    expect(refusal.error).toBe(STATUS_CODES[statusCode]);
    expect(refusal.event).toBe(event);
    expect(refusal.message.length).toBeGreaterThan(20);
  });

  it('is a closed list', () => {
    expect(Object.keys(REASONS).sort()).toEqual(Object.keys(EXPECTED).sort());
  });

  it('tells a client on the deny list nothing that a client outside the allow list does not hear', () => {
    expect(REASONS.ip_denied.message).toBe(REASONS.ip_not_allowed.message);
  });
});
