import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { HttpError } from '../../errors.ts';
import { parseBody } from '../../expressions/trigger-body.ts';
import type { DeployedFlow } from '../../flows/catalog.ts';
import { runHeaders } from '../../webhooks/headers.ts';
import { BODY_REFUSALS, errorSchema, unknownId } from '../error-responses.ts';
import { freeText, guid } from '../input.ts';
import { documentedBody } from '../json-body.ts';
import type { ApiRoutes } from '../services.ts';
import { findFlow } from './flows.ts';
import { id } from './formats.ts';

const JSON_TYPE = /^application\/([^\s;]+\+)?json\s*(;|$)/i;

const startedSchema = z.object({
  runId: id(),
  duplicate: z.literal(true).optional().describe('The key was known: the first run with it.'),
});

/** Starting a run by hand. */
export const triggerRoutes: ApiRoutes = (app, services) => {
  app.post(
    '/flows/api/flows/:id/trigger',
    {
      schema: {
        tags: ['flows'],
        operationId: 'triggerFlow',
        summary: 'Starts a run by hand',
        params: z.object({ id: guid() }),
        querystring: z.strictObject({ triggerKey: freeText(200) }),
        headers: z.looseObject({ 'idempotency-key': freeText(255) }),
        body: documentedBody(z.unknown().describe('What the flow reads as trigger.body; null where there is none.'), {
          order: 7,
        }),
        response: {
          200: startedSchema,
          ...BODY_REFUSALS,
          404: errorSchema,
          415: errorSchema,
        },
      },
    },
    async (request) => {
      const flow = findFlow(request.params.id, services);
      const result = await services.engine.triggerFlow({
        flowId: flow.record.id,
        triggerKey: triggerKeyOf(flow, request.query.triggerKey),
        // Whichever trigger is named: a person started the run, not a schedule or a publisher.
        triggerType: 'manual',
        ...readJson(request),
        headers: runHeaders(joinedHeaders(request)),
        idempotencyKey: request.headers['idempotency-key'],
      });
      if (result.kind === 'unknown') throw unknownId('flow', flow.record.id);
      if (result.kind === 'disabled')
        throw new HttpError(403, 'The flow is disabled; enable it first', 'flow_disabled');
      return result.kind === 'duplicate' ? { runId: result.runId, duplicate: true as const } : { runId: result.runId };
    },
  );
};

/** The trigger that was asked for, else the first manual one; a flow without one is started as by a trigger `manual`. */
function triggerKeyOf({ loaded }: DeployedFlow, asked: string | undefined): string {
  const triggers = Object.entries(loaded.manifest.triggers);
  if (asked === undefined) return triggers.find(([, trigger]) => trigger.type === 'manual')?.[0] ?? 'manual';
  if (triggers.some(([key]) => key === asked)) return asked;
  const keys = triggers.map(([key]) => key).join(', ');
  throw new HttpError(
    400,
    `triggerKey: ${JSON.stringify(asked)} is not accepted; the triggers of this flow are ${keys}`,
  );
}

/** The exact bytes, once it is sure that they are JSON: numbers beyond double precision reach `forwardBody` unchanged. */
function readJson(request: FastifyRequest): { body: Uint8Array; contentType: string | null } {
  const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
  if (body.byteLength === 0) return { body, contentType: null };
  const contentType = request.headers['content-type'] ?? 'application/json';
  if (!JSON_TYPE.test(contentType)) {
    throw new HttpError(415, `content-type: ${JSON.stringify(contentType)} is not accepted; expected application/json`);
  }
  const parsed = parseBody(body, contentType);
  if ('error' in parsed) throw new HttpError(400, `body: ${parsed.error}`, 'invalid_json');
  return { body, contentType };
}

function joinedHeaders(request: FastifyRequest): Record<string, string> {
  const lines = Object.entries(request.headers).filter(([, value]) => value !== undefined);
  return Object.fromEntries(lines.map(([name, value]) => [name, String(value)]));
}
