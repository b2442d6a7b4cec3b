import type { Reason } from './api-types.ts';

/** Every reason, in pipeline order, and what it means to an operator. */
export const REASONS: Readonly<Record<Reason, string>> = {
  body_too_large: 'The body is larger than the cap.',
  unknown_flow: 'No webhook has this address.',
  flow_disabled: 'The flow is disabled.',
  invalid_json: 'The content type says JSON and the body is not.',
  ip_not_allowed: 'The client is not in the allow list.',
  ip_denied: 'The client is in the deny list.',
  rate_limited: 'The bucket of permits was empty.',
  signature_missing: 'The signature header is absent.',
  signature_malformed: 'The signature is not in the form of the scheme.',
  signature_mismatch: 'No configured key makes this signature.',
  key_not_configured: 'The trigger has no key to verify with.',
  sha1_not_allowed: 'The scheme needs SHA-1, which is switched off.',
  verifier_error: 'The verifier failed.',
  timestamp_missing: 'The timestamp is required and absent.',
  timestamp_malformed: 'The timestamp is no number.',
  timestamp_skew: 'The timestamp is too far from the time here.',
  nonce_replayed: 'A delivery with this nonce was accepted before.',
  store_unavailable: 'The store could not take it.',
};

/** What each part of the pipeline is called. */
const GATES: Readonly<Record<string, string>> = {
  bodyCap: 'Body size',
  address: 'Address and flow',
  ip: 'IP lists',
  rateLimit: 'Rate limit',
  signature: 'Signature',
  replay: 'Replay',
  body: 'Body as JSON',
};

/** A gate of the operator's own is called as it calls itself. */
export function gateName(gate: string): string {
  return GATES[gate] ?? gate;
}
