import { STATUS_CODES } from 'node:http';
import type { Reason } from '../model/delivery.ts';
import type { EventName } from '../telemetry/events.ts';

/** How a delivery is refused for one reason. */
export interface Refusal {
  readonly statusCode: number;
  /** The phrase of HTTP for the status. */
  readonly error: string;
  /** For the publisher: what happened and where to look, nothing that helps to guess. */
  readonly message: string;
  /** The log event; undefined where none is allocated. */
  readonly event: EventName | undefined;
}

/** Every reason there is: the labels of the metrics, the keys of stats, the answers. */
export const REASONS: Readonly<Record<Reason, Refusal>> = {
  body_too_large: refusal(413, undefined, 'The body is larger than this endpoint accepts'),
  unknown_flow: refusal(404, undefined, 'No webhook has this address; check the last part of the URL'),
  flow_disabled: refusal(403, 'TriggerRejectedDisabledFlow', 'The flow behind this webhook is disabled'),
  invalid_json: refusal(400, undefined, 'The content type says JSON and the body is not JSON'),
  ip_not_allowed: refusal(403, 'WebhookIpDenied', 'Deliveries are not accepted from this address'),
  ip_denied: refusal(403, 'WebhookIpDenied', 'Deliveries are not accepted from this address'),
  rate_limited: refusal(429, 'WebhookRateLimited', 'Too many deliveries; send this one again later'),
  signature_missing: unverified('The signature is missing; check that the sender signs its deliveries'),
  signature_malformed: unverified('The signature is not in the form that this webhook expects'),
  signature_mismatch: unverified('The signature does not match; check the key, and that nothing alters the body'),
  key_not_configured: unverified('The signature cannot be verified; this webhook has no key'),
  sha1_not_allowed: unverified('The signature cannot be verified; SHA-1 is not accepted here'),
  verifier_error: unverified('The signature could not be verified'),
  timestamp_missing: stale(401, 'The timestamp is missing'),
  timestamp_malformed: stale(401, 'The timestamp is not in the form that this webhook expects'),
  timestamp_skew: stale(401, 'The timestamp is too far from the time here; check the clock of the sender'),
  nonce_replayed: stale(409, 'This delivery was accepted before'),
  store_unavailable: refusal(503, undefined, 'The delivery could not be stored; send it again'),
};

export function isReason(value: unknown): value is Reason {
  return typeof value === 'string' && Object.hasOwn(REASONS, value);
}

/** Whether a gate gives it: the log events of those are 4001 to 4005. */
export function isOfGate(reason: Reason): boolean {
  return REASONS[reason].event?.startsWith('Webhook') === true;
}

/** Whether it is the signature gate's. */
export function isUnverified(reason: Reason): boolean {
  return REASONS[reason].event === 'WebhookSignatureRejected';
}

function unverified(message: string): Refusal {
  return refusal(401, 'WebhookSignatureRejected', message);
}

function stale(statusCode: 401 | 409, message: string): Refusal {
  return refusal(statusCode, 'WebhookReplayRejected', message);
}

function refusal(statusCode: number, event: EventName | undefined, message: string): Refusal {
  return { statusCode, error: STATUS_CODES[statusCode] ?? 'Error', message, event };
}
