import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import {
  builtInFlow,
  field,
  flowDisabled,
  flowUnreadable,
  isoTime,
  isoTimeOrNull,
  outcomeSchema,
  unknownId,
} from '../../dashboard/answer.ts';
import { COMMAND, documentedBody, ID_PARAMS, parameter, parseJsonBody, WHY } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import type { ApiRoutes, DashboardServices } from '../../dashboard/services.ts';
import { type Sight, sees, sightOf } from '../../dashboard/sight.ts';
import { HttpError } from '../../errors.ts';
import { parseBody } from '../../expressions/trigger-body.ts';
import { type DeployedFlow, whyUnreadable } from '../../flows/catalog.ts';
import { sameTrigger } from '../../model/trigger-name.ts';
import { runHeaders } from '../../webhooks/headers.ts';
import { createFlowSwitch, type FlowSwitch } from './flow-switch.ts';

/** The body of a request to close a flow: what happens to deliveries meanwhile, and the reason. */
export const closingBody = COMMAND.extend({
  hold: z
    .boolean()
    .optional()
    .describe('Whether deliveries are accepted meanwhile and run later; by default as the triggers say.'),
});

export function findFlow(flowId: string, { catalog }: Pick<DashboardServices, 'catalog'>): DeployedFlow {
  const flow = catalog.find(flowId);
  if (flow === undefined) throw unknownId('flow', flowId);
  return flow;
}

/** Commands to a deployed flow: start a run, drain, forget a key. */
export const flowControlRoutes: ApiRoutes = (app, services) => {
  triggerRoute(app, services);
  drainRoutes(app, services);
  learnedKeyRoute(app, services);
};

const JSON_TYPE = /^application\/([^\s;]+\+)?json\s*(;|$)/i;

const startedSchema = z.object({
  runId: field.id(),
  duplicate: z.literal(true).optional().describe('The idempotency key was used before; runId is its first run.'),
});

/** Starts a run by hand. */
const triggerRoute: ApiRoutes = (app, services) => {
  app.post(
    '/flows/api/flows/:id/trigger',
    route('flows', {
      operationId: 'triggerFlow',
      limit: 'flow',
      summary: 'Starts a run by hand',
      params: ID_PARAMS,
      query: z.strictObject({ triggerKey: parameter.freeText(200), ...WHY }),
      headers: z.looseObject({ 'idempotency-key': parameter.freeText(255) }),
      body: documentedBody(z.unknown().describe('What the flow reads as trigger.body; null if there is none.'), {
        order: 7,
      }),
      answer: startedSchema,
      refusals: [404, 409, 415],
    }),
    async (request) => {
      const why = whyUnreadable(request.params.id, services.catalog);
      if (why !== undefined) throw flowUnreadable(why);
      const flow = findFlow(request.params.id, services);
      const result = await services.engine.triggerFlow({
        flowId: flow.record.id,
        triggerKey: triggerKeyOf(flow, request.query.triggerKey),
        // Even if another trigger is named: a person started the run, not a schedule or a publisher.
        triggerType: 'manual',
        ...readJson(request),
        headers: runHeaders(joinedHeaders(request)),
        idempotencyKey: request.headers['idempotency-key'],
      });
      if (result.kind === 'unknown') throw unknownId('flow', flow.record.id);
      if (result.kind === 'builtIn') throw builtInFlow();
      if (result.kind === 'disabled') throw flowDisabled();
      if (result.kind === 'unreadable') throw flowUnreadable(result.why);
      if (result.kind === 'conflict') {
        throw new HttpError('idempotency_conflict', `This key started the run ${result.runId}, with another body`);
      }
      return result.kind === 'duplicate' ? { runId: result.runId, duplicate: true as const } : { runId: result.runId };
    },
  );
};

/** The requested trigger, or else the first manual one; without one the key is `manual`. */
function triggerKeyOf({ loaded }: DeployedFlow, asked: string | undefined): string {
  const triggers = Object.entries(loaded.manifest.triggers);
  const byHand = triggers.filter(([, { type }]) => type === 'manual');
  const named = asked ?? (byHand.find(([, { enabled }]) => enabled !== false) ?? byHand[0])?.[0] ?? 'manual';
  const off = triggers.find(([key, { enabled }]) => key === named && enabled === false);
  if (off !== undefined) throw new HttpError('flow_disabled', `The trigger ${named} is switched off in the manifest`);
  if (asked === undefined || triggers.some(([key]) => key === asked)) return named;
  const keys = triggers.map(([key]) => key).join(', ');
  throw new HttpError(
    'invalid_request',
    `triggerKey: ${JSON.stringify(asked)} is not accepted; the triggers of this flow are ${keys}`,
  );
}

/** The exact bytes, checked to be JSON, so that numbers beyond double precision reach `forwardBody` unchanged. */
function readJson(request: FastifyRequest): { body: Uint8Array; contentType: string | null } {
  const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
  if (body.byteLength === 0) return { body, contentType: null };
  const contentType = request.headers['content-type'] ?? 'application/json';
  if (!JSON_TYPE.test(contentType)) {
    throw new HttpError(415, `content-type: ${JSON.stringify(contentType)} is not accepted; expected application/json`);
  }
  const parsed = parseBody(body, { contentType });
  if ('error' in parsed) throw new HttpError('invalid_json', `body: ${parsed.error}`);
  return { body, contentType };
}

function joinedHeaders(request: FastifyRequest): Record<string, string> {
  const lines = Object.entries(request.headers).filter(([, value]) => value !== undefined);
  return Object.fromEntries(lines.map(([name, value]) => [name, String(value)]));
}

export const drainSchema = z
  .object({
    flowId: field.id(),
    flowName: z.string(),
    draining: z.boolean(),
    since: field.time().nullable(),
    done: z.boolean().describe('No run is in flight and none can start: ready to deploy.'),
    runsInFlight: field.integer(),
    runs: z
      .array(
        z.object({
          id: field.id(),
          revision: field.integer(),
          triggerKey: z.string(),
          startedAt: field.time(),
          steps: z.record(z.string(), z.object({ status: z.string(), waiting: z.boolean() })),
        }),
      )
      .describe('Runs in flight with the state of their steps, oldest first, at most 200.'),
    callersInFlight: field
      .integer()
      .describe('Runs of other flows that may start this one and were in flight when the drain began.'),
    callers: z
      .array(z.object({ id: field.id(), flowId: field.id(), flowName: z.string(), startedAt: field.time() }))
      .describe('Those runs, oldest first, at most 200.'),
    held: field.integer().describe('Deliveries whose runs start when the drain ends.'),
  })
  .meta({ id: 'Drain' });

/** Lets the runs of a flow end before it is changed. Survives a restart. */
const drainRoutes: ApiRoutes = (app, services) => {
  const flowSwitch = createFlowSwitch(services);
  const options = (operationId: string, summary: string) =>
    route('flows', { operationId, limit: 'flow', summary, params: ID_PARAMS, answer: drainSchema, refusals: [404] });

  const resumed = async (request: FastifyRequest) => {
    const { id: flowId } = request.params as z.output<typeof ID_PARAMS>;
    return drainView(flowId, await flowSwitch.resume(flowId), sightOf(request, services));
  };

  app.post(
    '/flows/api/flows/:id/drain',
    route('flows', {
      operationId: 'drainFlow',
      limit: 'flow',
      summary: 'Stops every trigger of a flow; its runs in flight finish',
      params: ID_PARAMS,
      command: [closingBody, { hold: true, reason: 'version 2 changes its steps' }],
      answer: drainSchema,
      refusals: [404],
    }),
    async (request) => {
      const { id: flowId } = request.params;
      const { hold } = parseJsonBody(request, closingBody);
      return drainView(flowId, await flowSwitch.drain(flowId, hold), sightOf(request, services));
    },
  );
  app.get(
    '/flows/api/flows/:id/drain',
    options('getDrain', 'The state of a drain, with the runs in flight'),
    async (request) => {
      const { id: flowId } = request.params;
      return drainView(flowId, await flowSwitch.drainState(flowId), sightOf(request, services));
    },
  );
  app.delete(
    '/flows/api/flows/:id/drain',
    options('endDrain', 'Ends the drain: the flow starts runs again'),
    async (request) => resumed(request),
  );
  app.post('/flows/api/flows/:id/resume', options('resumeFlow', 'Ends the drain, like DELETE on it'), async (request) =>
    resumed(request),
  );
};

function drainView(
  flowId: string,
  state: Awaited<ReturnType<FlowSwitch['drainState']>>,
  sight: Sight | undefined,
): z.output<typeof drainSchema> {
  if (state === undefined) throw unknownId('flow', flowId);
  const { callers } = state;
  const seen = callers.runs.filter((run) => sees(sight, run.flowId));
  return {
    flowId,
    flowName: state.flow.name,
    draining: state.isDraining,
    since: isoTimeOrNull(state.flow.drainingSince ?? null),
    done: state.isDone,
    runsInFlight: state.runsInFlight,
    runs: state.runs.map(({ startedAt, steps, ...run }) => ({
      ...run,
      startedAt: isoTime(startedAt),
      steps: Object.fromEntries(
        Object.entries(steps).map(([key, { status, isWaiting }]) => [key, { status, waiting: isWaiting }]),
      ),
    })),
    callersInFlight: sight === undefined ? callers.runsInFlight : seen.length,
    callers: seen.map((run) => ({ ...run, startedAt: isoTime(run.startedAt) })),
    held: state.held,
  };
}

/** Forgets a key that a publisher sent. */
const learnedKeyRoute: ApiRoutes = (app, services) => {
  app.delete(
    '/flows/api/flows/:id/triggers/:triggerKey/learned-key',
    route('flows', {
      operationId: 'forgetLearnedKey',
      limit: 'flow',
      summary: 'Forgets the key that a trigger learned; the sender of the next handshake sets the new one',
      params: z.object({ id: parameter.guid(), triggerKey: z.string().describe('Key of a webhook trigger.') }),
      answer: outcomeSchema,
      refusals: [404],
    }),
    async ({ params: { id, triggerKey }, log }) => {
      const flowId = findFlow(id, services).record.id;
      const found = services
        .triggers()
        .list()
        .find(({ trigger }) => sameTrigger(trigger, { flowId, triggerKey }));
      if (found === undefined) {
        throw new HttpError('unknown_trigger', `The flow has no webhook trigger ${JSON.stringify(triggerKey)}`);
      }
      const success = (await found.keySlot?.forget()) ?? false;
      if (success) log.warn({ flowId, triggerKey }, 'a learned key was forgotten');
      return { success, message: success ? 'The key is forgotten' : 'No key was learned' };
    },
  );
};
