import { JSON_TYPE } from '../model/answer.ts';
import type { Reason } from '../model/delivery.ts';
import type { EventName } from '../telemetry/events.ts';

// Not imported: an import of node:http reads each of its exports, which loads a second undici (40 ms of CPU, 15 MB).
const { STATUS_CODES } = process.getBuiltinModule('node:http');

/** How a delivery is refused for one reason. */
interface Refusal {
  readonly statusCode: number;
  /** HTTP's phrase for the status. */
  readonly error: string;
  /** For the publisher: what happened and where to look, nothing that helps to guess. */
  readonly message: string;
  /** The log event; undefined if none is allocated. */
  readonly event: EventName | undefined;
}

/** Every reason there is: the labels of the metrics, the keys of stats, the answers. */
export const REASONS: Readonly<Record<Reason, Refusal>> = {
  body_too_large: refusal(413, undefined, 'The body is larger than this endpoint accepts'),
  unknown_flow: refusal(404, undefined, 'No webhook has this address; check the last part of the URL'),
  flow_unreadable: refusal(503, undefined, 'This webhook cannot judge deliveries at the moment; send it again later'),
  flow_disabled: refusal(403, 'TriggerRejectedDisabledFlow', 'The flow behind this webhook is disabled'),
  encoding_not_supported: refusal(415, undefined, 'The content-encoding or the charset of the body is not known'),
  invalid_encoding: refusal(400, undefined, 'The body is not in the encoding that its content-encoding says'),
  invalid_json: refusal(400, undefined, 'The content type says JSON, but the body is not JSON'),
  ip_not_allowed: refusal(403, 'WebhookIpDenied', 'Deliveries are not accepted from this address'),
  ip_denied: refusal(403, 'WebhookIpDenied', 'Deliveries are not accepted from this address'),
  unverified_rate_limited: refusal(429, 'WebhookRateLimited', 'Too many deliveries; send this one again later'),
  rate_limited: refusal(429, 'WebhookRateLimited', 'Too many deliveries; send this one again later'),
  signature_missing: unverified('The signature is missing; check that the sender signs its deliveries'),
  signature_malformed: unverified('The signature does not have the format that this webhook expects'),
  signature_mismatch: unverified('The signature does not match; check the key, and that nothing alters the body'),
  key_not_configured: unverified('The signature cannot be verified; this webhook has no key'),
  sha1_not_allowed: unverified('The signature cannot be verified; SHA-1 is not accepted here'),
  verifier_error: unverified('The signature could not be verified'),
  verification_unavailable: refusal(
    503,
    'WebhookSignatureRejected',
    'The signature cannot be verified at the moment; send the delivery again',
  ),
  timestamp_missing: stale(401, 'The timestamp is missing'),
  timestamp_malformed: stale(401, 'The timestamp does not have the format that this webhook expects'),
  timestamp_skew: stale(401, 'The timestamp is too far from the current time; check the clock of the sender'),
  nonce_replayed: stale(409, 'This delivery was already accepted'),
  body_schema: refusal(422, 'WebhookBodyRejected', 'The body does not match the schema of this webhook'),
  idempotency_conflict: refusal(409, undefined, 'This Idempotency-Key was used before, with another body'),
  store_unavailable: refusal(503, undefined, 'The delivery could not be stored; send it again'),
};

/** Whether the reason comes from a gate: gates log the events 4001 to 4005 and 4012. */
export function isOfGate(reason: Reason): boolean {
  return REASONS[reason].event?.startsWith('Webhook') === true;
}

/** Whether the reason comes from the signature gate. */
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

/** The HTTP answer to the publisher. */
export interface WebhookAnswer {
  readonly statusCode: number;
  readonly contentType: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** The id in the record or log, sent as the header `Sluice-Delivery`; absent if the delivery is in neither. */
  readonly deliveryId?: string;
}

export { JSON_TYPE };

export const DELIVERY_HEADER = 'sluice-delivery';

type Refining = { readonly [Part in 'statusCode' | 'message']?: Refusal[Part] | undefined };

/** An error in Fastify's format, plus the reason. */
export function refused(
  reason: Reason,
  { statusCode = REASONS[reason].statusCode, message = REASONS[reason].message }: Refining = {},
): WebhookAnswer {
  const error = STATUS_CODES[statusCode] ?? 'Error';
  return { statusCode, contentType: JSON_TYPE, body: JSON.stringify({ statusCode, error, message, reason }) };
}

/** `others`: methods that handshakes use. */
export function methodNotAllowed(others: readonly string[] = []): WebhookAnswer {
  const error = { statusCode: 405, error: 'Method Not Allowed', message: 'Deliveries are sent with POST' };
  const allow = [...new Set(['POST', ...others])].join(', ');
  return { statusCode: 405, contentType: JSON_TYPE, body: JSON.stringify(error), headers: { allow } };
}

/** The answer if the body stopped arriving: there is nothing to judge or keep. */
export function bodyStopped(): WebhookAnswer {
  const message = 'The body stopped arriving; send the delivery again';
  const error = { statusCode: 408, error: 'Request Timeout', message };
  return { statusCode: 408, contentType: JSON_TYPE, body: JSON.stringify(error) };
}

/** Has no reason: publishers do not send such requests, and it is refused before it counts as a delivery. */
export function malformedHost(): WebhookAnswer {
  const error = { statusCode: 400, error: 'Bad Request', message: 'The Host header is not a host name' };
  return { statusCode: 400, contentType: JSON_TYPE, body: JSON.stringify(error) };
}
