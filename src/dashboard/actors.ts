import type { FastifyInstance, FastifyRequest } from 'fastify';
import { type Grant, SCOPES, type Scope } from '../config/tokens.ts';
import { HttpError } from '../errors.ts';
import { ALERT_FLOW_ID } from '../model/manifest.ts';
import { builtInFlow } from './answer.ts';
import { type Actor, scopesOf } from './credentials.ts';

/** A login overwrites this; without logins everyone can do everything. */
const ANYONE: Actor = { name: 'anyone', grants: [{ scopes: SCOPES }] };
const ACTOR = 'actor';

/** A route's rules for its changing requests. */
export interface RouteAccess {
  /** By default `read` for methods that read and `operate` for all others. */
  readonly scope?: Scope | undefined;
  /** Whether a request is only a plan or dry run, which is not an intervention. */
  readonly isPlan?: ((request: FastifyRequest) => boolean) | undefined;
  /** Whether programs send it routinely, so that it does not count as an intervention. */
  readonly isRoutine?: true | undefined;
  /** Further details to record. */
  readonly detailsOf?: ((request: FastifyRequest) => Promise<Readonly<Record<string, string>>>) | undefined;
  /** A 200 means that it began; the route itself records its end. */
  readonly endsLater?: boolean | undefined;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    readonly access?: RouteAccess;
  }
}

export const READING_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

/** Lets the login set who sent a request. */
export function decorateActor(app: FastifyInstance): void {
  app.decorateRequest(ACTOR);
}

export function setActor(request: FastifyRequest, actor: Actor): void {
  request.setDecorator(ACTOR, actor);
}

export function actorOf(request: FastifyRequest): Actor {
  return provenActorOf(request) ?? ANYONE;
}

/** The actor, if the identity was proven. */
export function provenActorOf(request: FastifyRequest): Actor | undefined {
  return request.getDecorator<Actor | undefined>(ACTOR);
}

/** The scope that an operation needs. */
export function scopeOf(method: string, access: RouteAccess | undefined): Scope {
  return access?.scope ?? (READING_METHODS.has(method) ? 'read' : 'operate');
}

/** An `onRequest` hook, after the login: a token allows only what its scopes name. */
export async function requireScope(request: FastifyRequest): Promise<void> {
  if (grantsFor(request).length > 0) return;
  const actor = actorOf(request);
  const scope = scopeOf(request.method, request.routeOptions.config.access);
  throw new HttpError(
    'insufficient_scope',
    `This needs the scope ${scope}; ${actor.name} has ${scopesOf(actor).join(', ')}`,
  );
}

/** The sender's grants with a scope, by default the one that the request needs, for any flows. */
export function grantsFor(
  request: FastifyRequest,
  scope = scopeOf(request.method, request.routeOptions.config.access),
): readonly Grant[] {
  // The scope `read` includes the metrics.
  return actorOf(request).grants.filter(
    ({ scopes }) => scopes.includes(scope) || (scope === 'metrics' && scopes.includes('read')),
  );
}

/** Operations that open a flow again: they are allowed for Sluice's own flows too. */
const OPENING: ReadonlySet<string | undefined> = new Set(['enableFlow', 'endDrain', 'resumeFlow']);

/** An `onRequest` hook: refuses changes to Sluice's own flows, whatever the scopes of the sender. */
export async function refuseBuiltIn({
  method,
  params,
  routeOptions: { url = '', schema },
}: FastifyRequest): Promise<void> {
  if (READING_METHODS.has(method) || !url.startsWith('/flows/api/flows/:id') || OPENING.has(schema?.operationId))
    return;
  if ((params as { id: string }).id.toLowerCase() === ALERT_FLOW_ID) throw builtInFlow();
}
