import { STATUS_CODES } from 'node:http';
import type { Reason } from '../../model/delivery.ts';
import { isReason, REASONS } from '../../webhooks/reasons.ts';

const EXAMPLE_ID = '0199a2b4-7c1e-7d3a-9b52-3f0f8d1c2a10';
const id = { type: 'string', format: 'uuid' };

/**
 * The receive endpoint in the words of OpenAPI. It is no route of the dashboard, and answers to publishers what they
 * document: what it refuses, and why, comes from the one table of reasons.
 */
export const receiveEndpoint = {
  '/flows/api/webhook/{idOrSlug}': {
    post: {
      tags: ['receive'],
      operationId: 'receiveDelivery',
      summary: 'Receives a delivery; a 200 means that its run is durable',
      description:
        'Needs no credentials: the gates of the trigger decide. The body is taken byte for byte, whatever its content type. ' +
        'Gates refuse under Enforce alone; 400, 403 of a disabled flow, 404, 405, 413 and 503 are the same in every mode. ' +
        'GET and HEAD are answered where the scheme of the trigger has a handshake that uses them, else with 405.',
      security: [],
      parameters: [
        {
          name: 'idOrSlug',
          in: 'path',
          required: true,
          description: 'The slug of the trigger, or the id of the flow for its first webhook trigger; any case.',
          schema: { type: 'string' },
        },
        {
          name: 'idempotency-key',
          in: 'header',
          required: false,
          description: 'A key that the trigger knows already starts no second run.',
          schema: { type: 'string' },
        },
      ],
      requestBody: {
        required: false,
        content: {
          'application/json': { schema: { description: 'What the publisher sends.' }, example: { order: 7 } },
          '*/*': { schema: { description: 'Any bytes.' } },
        },
      },
      responses: { 200: acceptedAnswer(), 204: { description: 'A handshake of Discord' }, ...refusals() },
    },
  },
};

function acceptedAnswer() {
  const ids = { runId: id, deliveryId: id };
  const shape = (description: string, flag: Readonly<Record<string, object>> = {}) => ({
    type: 'object',
    description,
    properties: { ...ids, ...flag },
    required: ['runId', 'deliveryId', ...Object.keys(flag)],
    additionalProperties: false,
  });
  return {
    description: 'Accepted, or a handshake of the publisher',
    content: {
      'application/json': {
        schema: {
          anyOf: [
            shape('Accepted: the run has started.'),
            shape('Known already: the ids of the first run and of this delivery.', { duplicate: { const: true } }),
            shape('Kept: the run starts when the flow goes on.', { held: { const: true } }),
            { description: 'The answer to a handshake, or the webhookResponse of the trigger.' },
          ],
        },
        example: { runId: EXAMPLE_ID, deliveryId: EXAMPLE_ID },
      },
      'text/xml': {
        schema: { type: 'string', description: 'Twilio: an empty TwiML document.' },
      },
      '*/*': {
        schema: {
          description: 'What the publisher documents for its handshake, or the webhookResponse of the trigger.',
        },
      },
    },
  };
}

/** One response for each status, with the reasons that have it. Handshakes are refused as their publishers document. */
function refusals() {
  const byStatus = new Map<number, Reason[]>([[405, []]]);
  for (const reason of Object.keys(REASONS).filter(isReason)) {
    const { statusCode } = REASONS[reason];
    byStatus.set(statusCode, [...(byStatus.get(statusCode) ?? []), reason]);
  }
  return Object.fromEntries([...byStatus].map(([status, reasons]) => [status, refusal(status, reasons)]));
}

function refusal(status: number, reasons: readonly Reason[]) {
  const properties = { statusCode: { const: status }, error: { type: 'string' }, message: { type: 'string' } };
  const isReasoned = reasons.length > 0;
  return {
    description: `${STATUS_CODES[status]}${isReasoned ? ` (${reasons.join(', ')})` : ''}`,
    content: {
      'application/json': {
        schema: {
          type: 'object',
          properties: { ...properties, ...(isReasoned && { reason: { enum: reasons } }) },
          required: ['statusCode', 'error', 'message', ...(isReasoned ? ['reason'] : [])],
          additionalProperties: false,
        },
      },
    },
  };
}
