import { STATUS_CODES } from 'node:http';
import type { Reason } from '../model/delivery.ts';
import { REASONS } from './reasons.ts';
import type { AcceptedResponse } from './schemes/handshake.ts';

/** What goes back to the publisher. */
export interface Answer {
  readonly statusCode: number;
  readonly contentType: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

const JSON_TYPE = 'application/json; charset=utf-8';

/** Publishers that want to read something of their own get that; everybody else gets the ids. */
export function accepted(
  ids: { readonly runId: string; readonly deliveryId: string; readonly kind: 'accepted' | 'duplicate' | 'held' },
  response: AcceptedResponse | undefined,
): Answer {
  if (response !== undefined) return { statusCode: 200, ...response };
  const { runId, deliveryId, kind } = ids;
  const more = { accepted: {}, duplicate: { duplicate: true }, held: { held: true } }[kind];
  const body = JSON.stringify({ runId, deliveryId, ...more });
  return { statusCode: 200, contentType: JSON_TYPE, body };
}

/** An error as Fastify writes them, with the reason beside it. */
export function refused(reason: Reason, statusCode = REASONS[reason].statusCode): Answer {
  const { message } = REASONS[reason];
  const error = STATUS_CODES[statusCode] ?? 'Error';
  return { statusCode, contentType: JSON_TYPE, body: JSON.stringify({ statusCode, error, message, reason }) };
}

/** `others` are methods of handshakes. */
export function methodNotAllowed(others: readonly string[] = []): Answer {
  const error = { statusCode: 405, error: 'Method Not Allowed', message: 'Deliveries are sent with POST' };
  const allow = [...new Set(['POST', ...others])].join(', ');
  return { statusCode: 405, contentType: JSON_TYPE, body: JSON.stringify(error), headers: { allow } };
}

/** Nothing arrived that could be judged or kept. */
export function bodyStopped(): Answer {
  const message = 'The body stopped arriving; send the delivery again';
  const error = { statusCode: 408, error: 'Request Timeout', message };
  return { statusCode: 408, contentType: JSON_TYPE, body: JSON.stringify(error) };
}

/** No reason beside it: the request is no HTTP that a publisher sends, and is refused before it counts as a delivery. */
export function malformedHost(): Answer {
  const error = { statusCode: 400, error: 'Bad Request', message: 'The Host header is not a host name' };
  return { statusCode: 400, contentType: JSON_TYPE, body: JSON.stringify(error) };
}
