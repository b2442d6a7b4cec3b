import type { FastifyInstance, FastifyRequest } from 'fastify';
import { type Grant, SCOPES, type Scope } from '../config/tokens.ts';
import { HttpError } from '../errors.ts';
import { ALERT_FLOW_ID } from '../model/manifest.ts';
import { builtInFlow } from './answer.ts';
import { type Actor, scopesOf } from './credentials.ts';

/** Behind a login this is overwritten; without one everybody may do everything. */
const ANYONE: Actor = { name: 'anyone', grants: [{ scopes: SCOPES }] };
const ACTOR = 'actor';

/** What a route says about its requests that change something. */
export interface RouteAccess {
  /** By default `read` for methods that read and `operate` for all others. */
  readonly scope?: Scope | undefined;
  /** Whether a request is only a plan or dry run, which is not an intervention. */
  readonly isPlan?: ((request: FastifyRequest) => boolean) | undefined;
  /** Whether programs send it routinely, so that it does not count as an intervention. */
  readonly isRoutine?: true | undefined;
  /** What else is kept of it. */
  readonly detailsOf?: ((request: FastifyRequest) => Promise<Readonly<Record<string, string>>>) | undefined;
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
  app.decorateRequest(ACTOR);
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

/** The sender's grants of a scope, by default the one that the request needs, for whichever flows. */
export function grantsFor(
  request: FastifyRequest,
  scope = scopeOf(request.method, request.routeOptions.config.access),
): readonly Grant[] {
  // Who reads everything reads the metrics too.
  return actorOf(request).grants.filter(
    ({ scopes }) => scopes.includes(scope) || (scope === 'metrics' && scopes.includes('read')),
  );
}

/** What opens a flow again: that is allowed for those of Sluice itself too. */
const OPENING: ReadonlySet<string | undefined> = new Set(['enableFlow', 'endDrain', 'resumeFlow']);

/** An `onRequest` hook: refuses changes to a flow that Sluice made itself, whatever the scopes of the sender. */
export async function refuseBuiltIn({
  method,
  params,
  routeOptions: { url = '', schema },
}: FastifyRequest): Promise<void> {
  if (READING_METHODS.has(method) || !url.startsWith('/flows/api/flows/:id') || OPENING.has(schema?.operationId))
    return;
  if ((params as { id: string }).id.toLowerCase() === ALERT_FLOW_ID) throw builtInFlow();
}
