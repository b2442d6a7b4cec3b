import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { type Grant, SCOPES, type Scope } from '../config/tokens.ts';
import { HttpError, UnfitClockError } from '../errors.ts';
import { type Clock, DAY_MS, deletionGuard } from '../model/clock.ts';
import type { DeployOutcome } from '../model/finding.ts';
import { ALERT_FLOW_ID } from '../model/manifest.ts';
import { ACTIVITY_DAYS } from '../review/activity.ts';
import type { NewIntervention, Store } from '../store/store.ts';
import { createSweeper, type Sweeper } from '../sweeper.ts';
import { logEvent } from '../telemetry/events.ts';
import { senderOf } from '../webhooks/read-delivery.ts';
import { builtInFlow } from './answer.ts';
import { type Actor, scopesOf } from './credentials.ts';
import { COMMAND, type CommandBody, MAX_REASON, parseJsonBody } from './input.ts';
import type { DashboardServices } from './services.ts';

/** Behind a login this is overwritten; without one everybody may do everything. */
const ANYONE: Actor = { name: 'anyone', grants: [{ scopes: SCOPES }] };
const ACTOR = 'actor';
const INTERVENTION = 'intervention';

/** What a route says about its requests that change something. */
export interface RouteAccess {
  /** By default `read` for methods that read and `operate` for all others. */
  readonly scope?: Scope | undefined;
  /** Whether a request is only a plan or dry run, which is not an intervention. */
  readonly isPlan?: ((request: FastifyRequest) => boolean) | undefined;
  /** Whether a program sends it all the time for itself, so that it is no intervention. */
  readonly isRoutine?: true | undefined;
  /** What else is kept of it. */
  readonly detailsOf?: ((request: FastifyRequest) => Promise<Readonly<Record<string, string>>>) | undefined;
  /** A 200 says that it began; the route itself keeps how it ends. */
  readonly endsLater?: boolean | undefined;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    readonly access?: RouteAccess;
    /** What the body of a command may say besides why. Without it, a route that documents no body takes `COMMAND`. */
    readonly command?: CommandBody | undefined;
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
  return provenActorOf(request) ?? ANYONE;
}

/** Who it is, if that was proven. */
export function provenActorOf(request: FastifyRequest): Actor | undefined {
  return request.getDecorator<Actor | undefined>(ACTOR);
}

/** What a token needs for an operation. */
export function scopeOf(method: string, access: RouteAccess | undefined): Scope {
  return access?.scope ?? (READING_METHODS.has(method) ? 'read' : 'operate');
}

/** An `onRequest` hook, after the login: a token does what its scopes say and nothing else. */
export async function requireScope(request: FastifyRequest): Promise<void> {
  if (grantsFor(request).length > 0) return;
  const actor = actorOf(request);
  const scope = scopeOf(request.method, request.routeOptions.config.access);
  throw new HttpError(
    'insufficient_scope',
    `This needs the scope ${scope}; ${actor.name} has ${scopesOf(actor).join(', ')}`,
  );
}

/** What allows a request to its sender, with some flow or other. */
export function grantsFor(request: FastifyRequest): readonly Grant[] {
  const scope = scopeOf(request.method, request.routeOptions.config.access);
  // Who reads everything reads the metrics too.
  return actorOf(request).grants.filter(
    ({ scopes }) => scopes.includes(scope) || (scope === 'metrics' && scopes.includes('read')),
  );
}

/** What opens a flow again: that is allowed for those of Sluice itself too. */
const OPENING: ReadonlySet<string | undefined> = new Set(['enableFlow', 'endDrain', 'resumeFlow']);

/** An `onRequest` hook: nobody but Sluice changes what Sluice made itself, whatever their scopes. */
export async function refuseBuiltIn({
  method,
  params,
  routeOptions: { url = '', schema },
}: FastifyRequest): Promise<void> {
  if (READING_METHODS.has(method) || !url.startsWith('/flows/api/flows/:id') || OPENING.has(schema?.operationId))
    return;
  if ((params as { id: string }).id.toLowerCase() === ALERT_FLOW_ID) throw builtInFlow();
}

type ActivityServices = Pick<DashboardServices, 'store' | 'clock' | 'newId' | 'logger' | 'senderAddress'>;

/**
 * Keeps every request that changes something: before it is carried out, so that nothing happens unseen, and again with its
 * answer. A request is refused while the store cannot keep it, or the time is not known.
 */
export function recordActivity(app: FastifyInstance, services: ActivityServices): void {
  const { store, logger } = services;
  app.addHook('preHandler', async (request) => {
    const { scope, isPlan, isRoutine } = request.routeOptions.config.access ?? {};
    const isReading = request.is404 || READING_METHODS.has(request.method) || scope === 'read';
    if (isReading || isRoutine === true || isPlan?.(request) === true) return;
    if (!services.clock.isFit()) throw new UnfitClockError();
    const intervention = await interventionOf(request, services);
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

/** A deploy of which the activity list tells what it does to a flow, and to who gets in. */
type ToldDeploy = Pick<DeployOutcome, 'flowId' | 'action' | 'version' | 'revision' | 'routes' | 'findings'> & {
  readonly actor: string;
  readonly reason?: string | null | undefined;
};

/** As many rows at a time, so that a deploy of a thousand flows neither waits for each nor holds up others. */
const ROWS_AT_A_TIME = 50;

/**
 * Keeps which flows have another revision, by which deploys more get in, and whose secrets changed, whoever did it: starts
 * and watched folders are no requests, and one request may deploy many flows.
 */
export async function keepDeploys(
  deploys: readonly ToldDeploy[],
  services: Omit<ActivityServices, 'senderAddress'>,
): Promise<void> {
  const rows = deploys.flatMap(rowsOf);
  for (let at = 0; at < rows.length; at += ROWS_AT_A_TIME) {
    await Promise.all(rows.slice(at, at + ROWS_AT_A_TIME).map((row) => keepDone(row, services)));
  }
}

type Row = Pick<NewIntervention, 'actor' | 'action' | 'details' | 'reason'> & { readonly flowId: string };

function rowsOf({ flowId, action, version, revision, routes, findings, actor, reason = null }: ToldDeploy): Row[] {
  if (action === 'refused') return [];
  const wider = routes.filter(({ access }) => access === 'wider').map(({ route }) => route);
  const changed = findings
    .filter(({ rule }) => rule === 'secret-changed')
    .map(({ before, path }) => String(before ?? path));
  const about = { flowId, actor, reason };
  const kept = { revision: String(revision) };
  return [
    ...(action === 'unchanged' ? [] : [{ ...about, action: 'deployRevision', details: { ...kept, version } }]),
    ...(wider.length === 0
      ? []
      : [{ ...about, action: 'widenAccess', details: { access: 'wider', ...kept, routes: wider.join(', ') } }]),
    ...(changed.length === 0
      ? []
      : [{ ...about, action: 'changeSecret', details: { ...kept, references: changed.join(', ') } }]),
  ];
}

/** Keeps something that has been done, by no request of its own. */
async function keepDone(
  { flowId, ...row }: Row,
  { store, clock, newId, logger }: Omit<ActivityServices, 'senderAddress'>,
): Promise<void> {
  const id = newId();
  try {
    await store.beginIntervention({
      id,
      at: clock.now(),
      clientIp: null,
      target: { type: 'flow', id: flowId },
      ...row,
    });
    await store.endIntervention({ id, statusCode: 200 });
  } catch (error) {
    // It is in force, and the log has it.
    const told = 'a flow has changed, and that could not be added to the activity list';
    logger.warn({ err: error, flowId, action: row.action }, told);
  }
}

/** Why it is done; null where nobody says so, and for a request that changes nothing. */
export function reasonOf(request: FastifyRequest): string | null {
  return request.getDecorator<NewIntervention | undefined>(INTERVENTION)?.reason ?? null;
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

/** Programs and people may say in this header too why they do something. */
const REASON_HEADER = 'x-sluice-reason';

async function interventionOf(
  request: FastifyRequest,
  { clock, newId, senderAddress }: ActivityServices,
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

/** What the body of a command says; undefined where the body is something else, such as a manifest. */
function commandOf(request: FastifyRequest): { readonly reason?: string | undefined } | undefined {
  const { config, schema } = request.routeOptions;
  if (config.command !== undefined) return parseJsonBody(request, config.command);
  return schema?.body === undefined ? parseJsonBody(request, COMMAND) : undefined;
}

const ROWS_A_CHUNK = 100;
const BROKEN =
  'the activity log is not what was written, so its old rows are kept; `sluice activity verify` names what was changed';

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
  let toldAt: number | null = null;
  return createSweeper({
    sweep: async (inChunks) => {
      if (!mayDelete()) return;
      const before = clock.now() - ACTIVITY_DAYS * DAY_MS;
      await inChunks(async () => {
        const { rows, brokenAt } = await store.purgeInterventions({ before, limit: ROWS_A_CHUNK });
        if (brokenAt !== null && brokenAt !== toldAt) {
          logger.error({ seq: brokenAt }, BROKEN);
          toldAt = brokenAt;
        }
        return rows === ROWS_A_CHUNK;
      });
    },
    failure: 'old interventions could not be deleted',
    logger,
  });
}
