import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { SCOPES, type Scope } from '../config/tokens.ts';
import { HttpError } from '../errors.ts';
import { createSweeper, type Sweeper } from '../flows/retention.ts';
import { type Clock, DAY_MS, deletionGuard } from '../model/clock.ts';
import type { NewIntervention, Store } from '../store/store.ts';
import { logEvent } from '../telemetry/events.ts';
import { senderOf } from '../webhooks/read-delivery.ts';
import type { DashboardServices } from './services.ts';

/** Who sent a request, and what that party may do. */
export interface Actor {
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** Logged in on the login page, so there is a session to end. */
  readonly hasSession?: boolean;
}

/** Behind a login this is overwritten; without one everybody may do everything. */
const ANYONE: Actor = { name: 'anyone', scopes: SCOPES };
const ACTOR = 'actor';
const INTERVENTION = 'intervention';

/** What a route says about its requests that change something. */
export interface RouteAccess {
  /** By default `read` for methods that read and `operate` for all others. */
  readonly scope?: Scope | undefined;
  /** Whether a request is only a plan or dry run, which is not an intervention. */
  readonly isPlan?: ((request: FastifyRequest) => boolean) | undefined;
  /** Why somebody did it, where a field of the body says so; else a header does. */
  readonly reasonOf?: ((request: FastifyRequest) => string | null) | undefined;
  /** What else is kept of it. */
  readonly detailsOf?: ((request: FastifyRequest) => Readonly<Record<string, string>>) | undefined;
  /** A 200 says that it began; the route itself keeps how it ends. */
  readonly endsLater?: boolean | undefined;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    readonly access?: RouteAccess;
  }
}

export const READING_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

/** Lets the login say who sent a request. */
export function decorateActor(app: FastifyInstance): void {
  app.decorateRequest(ACTOR).decorateRequest(INTERVENTION);
}

export function setActor(request: FastifyRequest, actor: Actor): void {
  request.setDecorator(ACTOR, actor);
}

export function actorOf(request: FastifyRequest): Actor {
  return request.getDecorator<Actor | undefined>(ACTOR) ?? ANYONE;
}

/** An `onRequest` hook, after the login: a token does what its scopes say and nothing else. */
export async function requireScope(request: FastifyRequest): Promise<void> {
  const scope = request.routeOptions.config.access?.scope ?? (READING_METHODS.has(request.method) ? 'read' : 'operate');
  const { name, scopes } = actorOf(request);
  if (scopes.includes(scope)) return;
  throw new HttpError('insufficient_scope', `This needs the scope ${scope}; ${name} has ${scopes.join(', ')}`);
}

type ActivityServices = Pick<DashboardServices, 'store' | 'clock' | 'newId' | 'logger' | 'senderAddress'>;

/**
 * Keeps every request that changes something: before it is carried out, so that nothing happens unseen, and again with its
 * answer. A request is refused while the store cannot keep it.
 */
export function recordActivity(app: FastifyInstance, services: ActivityServices): void {
  const { store, logger } = services;
  app.addHook('preHandler', async (request) => {
    const { scope, isPlan } = request.routeOptions.config.access ?? {};
    const isReading = request.is404 || READING_METHODS.has(request.method) || scope === 'read';
    if (isReading || isPlan?.(request) === true) return;
    const intervention = interventionOf(request, services);
    await store.beginIntervention(intervention);
    request.setDecorator(INTERVENTION, intervention);
  });
  app.addHook('onSend', async (request, reply, payload) => {
    const intervention = request.getDecorator<NewIntervention | undefined>(INTERVENTION);
    if (intervention === undefined) return payload;
    const { id, actor, clientIp, action, target, details, reason } = intervention;
    const { statusCode } = reply;
    const fields = { interventionId: id, actor, clientIp, action, target, details, reason, statusCode };
    logEvent(logger, 'Intervention', fields);
    if (statusCode === 200 && request.routeOptions.config.access?.endsLater === true) return payload;
    try {
      await store.endIntervention({ id, statusCode });
    } catch (error) {
      // It happened, so its answer has to get out; the list goes on to show that its end is not known.
      logger.warn({ err: error, interventionId: id }, 'the end of an intervention could not be stored');
    }
    return payload;
  });
}

/** The id of the intervention that a request is. */
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

/** Programs and people say why they do something in this header, where the operation has no field for it. */
const REASON_HEADER = 'x-sluice-reason';
const MAX_REASON_LENGTH = 500;

function interventionOf(request: FastifyRequest, { clock, newId, senderAddress }: ActivityServices): NewIntervention {
  const { url = '', config, schema } = request.routeOptions;
  const params = (request.params ?? {}) as Record<string, string>;
  const found = TARGETS.find(({ path }) => url === path || url.startsWith(`${path}/`));
  const target = found === undefined ? null : { type: found.type, id: params[found.parameter] ?? '' };
  const named = { ...params, ...(request.query as Record<string, unknown> | undefined) };
  const details = Object.entries(named).filter(
    ([name, value]) => name !== found?.parameter && value !== undefined && value !== false && String(value) !== '',
  );
  const reason = config.access?.reasonOf?.(request) ?? request.headers[REASON_HEADER] ?? null;
  return {
    id: newId(),
    at: clock.now(),
    actor: actorOf(request).name,
    clientIp: senderOf(request, senderAddress),
    action: schema?.operationId ?? `${request.method} ${url}`,
    target,
    details: {
      ...Object.fromEntries(details.map(([name, value]) => [name, String(value)])),
      ...config.access?.detailsOf?.(request),
    },
    reason: reason === null ? null : String(reason).slice(0, MAX_REASON_LENGTH),
  };
}

/** Longer than deliveries and runs: who did something last year may be asked. */
const RETENTION_DAYS = 400;
const ROWS_A_CHUNK = 100;

/** Deletes old interventions. */
export function createActivityRetention({
  store,
  clock,
  logger,
}: {
  readonly store: Pick<Store, 'purgeInterventions'>;
  readonly clock: Clock;
  readonly logger: Logger;
}): Sweeper {
  const mayDelete = deletionGuard(clock, () => {});
  return createSweeper({
    sweep: async (inChunks) => {
      if (!mayDelete()) return;
      const before = clock.now() - RETENTION_DAYS * DAY_MS;
      await inChunks(async () => (await store.purgeInterventions({ before, limit: ROWS_A_CHUNK })) === ROWS_A_CHUNK);
    },
    failure: 'old interventions could not be deleted',
    logger,
  });
}
