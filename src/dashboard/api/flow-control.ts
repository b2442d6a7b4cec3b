import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { DrainState } from '../../deploys/flow-switch.ts';
import { HttpError } from '../../errors.ts';
import { parseBody } from '../../expressions/trigger-body.ts';
import type { DeployedFlow } from '../../flows/catalog.ts';
import { runHeaders } from '../../webhooks/headers.ts';
import {
  BODY_REFUSALS,
  errorSchema,
  id,
  integer,
  isoTime,
  isoTimeOrNull,
  REFUSALS,
  time,
  unknownId,
} from '../answer.ts';
import { documentedBody, freeText, guid, NO_QUERY, outcomeSchema } from '../input.ts';
import type { ApiRoutes } from '../services.ts';
import { findFlow } from './flows.ts';

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

const params = z.object({ id: guid() });

export const drainSchema = z
  .object({
    flowId: id(),
    flowName: z.string(),
    draining: z.boolean(),
    since: time().nullable(),
    done: z.boolean().describe('No run is in flight any more and none can start: time to deploy.'),
    runsInFlight: integer(),
    runs: z
      .array(
        z.object({
          id: id(),
          revision: integer(),
          triggerKey: z.string(),
          startedAt: time(),
          steps: z.record(z.string(), z.object({ status: z.string(), waiting: z.boolean() })),
        }),
      )
      .describe('Those in flight, the oldest first, at most 200, with where they stand.'),
    held: integer().describe('Deliveries whose runs start when this ends.'),
  })
  .meta({ id: 'Drain' });

/** Letting the runs of a flow run out before it is changed. Survives a restart. */
export const drainRoutes: ApiRoutes = (app, { flowSwitch }) => {
  const route = (
    summary: string,
    { method, path, operationId }: { method: 'get' | 'post' | 'delete'; path: 'drain' | 'resume'; operationId: string },
    act: (flowId: string) => Promise<DrainState | undefined>,
  ) =>
    app[method](
      `/flows/api/flows/:id/${path}`,
      {
        schema: {
          tags: ['flows'],
          operationId,
          summary,
          params,
          querystring: NO_QUERY,
          response: { 200: drainSchema, ...REFUSALS, 404: errorSchema },
        },
      },
      async (request) => {
        const state = await act(request.params.id);
        if (state === undefined) throw unknownId('flow', request.params.id);
        return drainView(state);
      },
    );
  const drain = { path: 'drain' } as const;
  route(
    'Stops every trigger of a flow; its runs in flight go on to their ends',
    { ...drain, method: 'post', operationId: 'drainFlow' },
    flowSwitch.drain,
  );
  route(
    'Where the drain of a flow stands, with its runs in flight',
    { ...drain, method: 'get', operationId: 'getDrain' },
    flowSwitch.drainState,
  );
  route(
    'Ends the drain: the flow starts runs again',
    { ...drain, method: 'delete', operationId: 'endDrain' },
    flowSwitch.resume,
  );
  route(
    'Ends the drain, as DELETE of it does',
    { method: 'post', path: 'resume', operationId: 'resumeFlow' },
    flowSwitch.resume,
  );
};

function drainView({ flow, isDraining, isDone, runsInFlight, runs, held }: DrainState): z.output<typeof drainSchema> {
  return {
    ...{ flowId: flow.id, flowName: flow.name, draining: isDraining, done: isDone, runsInFlight, held },
    since: isoTimeOrNull(flow.drainingSince ?? null),
    runs: runs.map(({ startedAt, steps, ...run }) => ({
      ...run,
      startedAt: isoTime(startedAt),
      steps: Object.fromEntries(
        Object.entries(steps).map(([key, { status, isWaiting }]) => [key, { status, waiting: isWaiting }]),
      ),
    })),
  };
}

const triggerParams = z.object({ id: guid(), triggerKey: z.string().describe('Key of a webhook trigger.') });

/** Forgetting a key that a publisher handed over. */
export const learnedKeyRoutes: ApiRoutes = (app, services) => {
  app.delete(
    '/flows/api/flows/:id/triggers/:triggerKey/learned-key',
    {
      schema: {
        tags: ['flows'],
        operationId: 'forgetLearnedKey',
        summary: 'Forgets the key that a trigger learnt; whoever sends the next handshake decides the new one',
        params: triggerParams,
        querystring: NO_QUERY,
        response: { 200: outcomeSchema, ...REFUSALS, 404: errorSchema },
      },
    },
    async ({ params: { id, triggerKey }, log }) => {
      const flowId = findFlow(id, services).record.id;
      const found = services
        .triggers()
        .list()
        .find(({ trigger }) => trigger.flowId === flowId && trigger.triggerKey === triggerKey);
      if (found === undefined) {
        throw new HttpError(404, `The flow has no webhook trigger ${JSON.stringify(triggerKey)}`, 'unknown_trigger');
      }
      const success = (await found.keySlot?.forget()) ?? false;
      if (success) log.warn({ flowId, triggerKey }, 'a learned key was forgotten');
      return { success, message: success ? 'The key is forgotten' : 'No key was learnt' };
    },
  );
};
