import type { FastifyInstance, FastifyRequest } from 'fastify';
import { UnfitClockError } from '../errors.ts';
import { logEvent } from '../telemetry/events.ts';
import { senderOf } from '../webhooks/read-delivery.ts';
import type { NewIntervention } from './activity.ts';
import { actorOf, READING_METHODS } from './actors.ts';
import { COMMAND, type CommandBody, MAX_REASON, parseJsonBody } from './input.ts';
import type { DashboardServices } from './services.ts';

const INTERVENTION = 'intervention';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Fields of a command's body besides the reason. By default, a route that documents no body uses `COMMAND`. */
    readonly command?: CommandBody | undefined;
  }
}

type RecordServices = Pick<DashboardServices, 'activity' | 'clock' | 'newId' | 'logger' | 'senderAddress'>;

/**
 * Records every request that changes something: before it is carried out, so that nothing happens unseen, and again
 * with its answer. Refuses a request while the store cannot record it, or the time is unknown.
 */
export function recordActivity(app: FastifyInstance, services: RecordServices): void {
  app.decorateRequest(INTERVENTION);
  app.addHook('preHandler', async (request) => {
    const { scope, isPlan, isRoutine } = request.routeOptions.config.access ?? {};
    const isReading = request.is404 || READING_METHODS.has(request.method) || scope === 'read';
    if (isReading || isRoutine === true || isPlan?.(request) === true) return;
    if (!services.clock.isFit()) throw new UnfitClockError();
    const intervention = await interventionOf(request, services);
    await services.activity.begin(intervention);
    request.setDecorator(INTERVENTION, intervention);
  });
  app.addHook('onSend', async (request, reply, payload) => {
    const intervention = request.getDecorator<NewIntervention | undefined>(INTERVENTION);
    if (intervention === undefined) return payload;
    const { statusCode } = reply;
    const endsLater = statusCode === 200 && request.routeOptions.config.access?.endsLater === true;
    await noteEnd(intervention, { statusCode, endsLater }, services);
    return payload;
  });
}

/** Records an intervention and its answer in the log and, unless it ends later, in the activity. Never rejects. */
export async function noteEnd(
  { id, actor, clientIp, action, target, details, reason }: NewIntervention,
  { statusCode, endsLater = false }: { readonly statusCode: number; readonly endsLater?: boolean },
  { activity, logger }: Pick<RecordServices, 'activity' | 'logger'>,
): Promise<void> {
  const fields = { interventionId: id, actor, clientIp, action, target, details, reason, statusCode };
  logEvent(logger, 'Intervention', fields);
  if (endsLater) return;
  try {
    await activity.end({ id, statusCode });
  } catch (error) {
    // It happened, so its answer must be sent; the list continues to show that its end is unknown.
    logger.warn({ err: error, interventionId: id }, 'the end of an intervention could not be stored');
  }
}

/** The reason that the sender gave; null if there is none, and for a request that changes nothing. */
export function reasonOf(request: FastifyRequest): string | null {
  return request.getDecorator<NewIntervention | undefined>(INTERVENTION)?.reason ?? null;
}

/** The intervention id of a request. */
export function interventionIdOf(request: FastifyRequest): string {
  const intervention = request.getDecorator<NewIntervention | undefined>(INTERVENTION);
  if (intervention === undefined) throw new Error(`${request.url} is not an intervention`);
  return intervention.id;
}

/** The parameter of a path that names the target, by the beginning of the path. */
const TARGETS = [
  { path: '/flows/api/flows/:id', type: 'flow', parameter: 'id' },
  { path: '/flows/api/runs/:id', type: 'run', parameter: 'id' },
  { path: '/flows/api/webhooks/:deliveryId', type: 'delivery', parameter: 'deliveryId' },
  { path: '/flows/api/schedules/:jobId', type: 'schedule', parameter: 'jobId' },
] as const;

/** Programs and people can also give the reason in this header. */
const REASON_HEADER = 'x-sluice-reason';

async function interventionOf(
  request: FastifyRequest,
  { clock, newId, senderAddress }: RecordServices,
): Promise<NewIntervention> {
  const { url = '', config, schema } = request.routeOptions;
  const params = (request.params ?? {}) as Record<string, string>;
  const found = TARGETS.find(({ path }) => url === path || url.startsWith(`${path}/`));
  const target = found === undefined ? null : { type: found.type, id: params[found.parameter] ?? '' };
  const named = { ...params, ...(request.query as Record<string, unknown> | undefined) };
  const details = Object.entries(named).filter(
    ([name, value]) =>
      name !== found?.parameter && name !== 'reason' && value !== undefined && value !== false && String(value) !== '',
  );
  const { reason: inQuery } = (request.query ?? {}) as { readonly reason?: string | undefined };
  const said = commandOf(request)?.reason ?? inQuery ?? request.headers[REASON_HEADER];
  const reason = said === undefined || String(said).trim() === '' ? null : String(said).trim();
  return {
    id: newId(),
    at: clock.now(),
    actor: actorOf(request).name,
    clientIp: senderOf(request, senderAddress),
    action: schema?.operationId ?? `${request.method} ${url}`,
    target,
    details: {
      ...Object.fromEntries(details.map(([name, value]) => [name, String(value)])),
      ...(await config.access?.detailsOf?.(request)),
    },
    reason: reason?.slice(0, MAX_REASON) ?? null,
  };
}

/** The body of a command; undefined if the body is something else, such as a manifest. */
function commandOf(request: FastifyRequest): { readonly reason?: string | undefined } | undefined {
  const { config, schema } = request.routeOptions;
  if (config.command !== undefined) return parseJsonBody(request, config.command);
  return schema?.body === undefined ? parseJsonBody(request, COMMAND) : undefined;
}
