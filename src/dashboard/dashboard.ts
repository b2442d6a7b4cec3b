import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import { serializerCompiler, type ZodTypeProvider } from 'fastify-type-provider-zod';
import { errorHandler, HttpError, notFoundHandler } from '../errors.ts';
import { INERT_HEADERS, isOfReceiveEndpoint } from '../model/inert-content.ts';
import { decorateActor, refuseBuiltIn, requireScope } from './actors.ts';
import { healthRoutes } from './api/service.ts';
import { createDoor, requireActor } from './auth.ts';
import { guardOrigin } from './foreign-requests.ts';
import { compileValidator } from './input.ts';
import { recordActivity } from './interventions.ts';
import { isReserved, pageRoutes } from './page.ts';
import type { DashboardServices } from './services.ts';
import { hideOthers, refuseServiceWide } from './sight.ts';
import { type AccessRecord, NO_RECORD } from './way-in.ts';

const MAX_BODY_BYTES = 1_048_576;

const SECURITY_HEADERS = {
  // An answer may not load, frame or post anything; a page adds what it needs.
  'content-security-policy': "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  // No other site may embed an answer, not even as an image: its content is only for the operator.
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
};

/**
 * Everything that the process answers except the receive endpoint, as a Fastify plugin, with its own hooks, parsers and
 * error handler. It also answers unknown routes, so that those reveal nothing to strangers either.
 */
export function dashboard(services: DashboardServices): FastifyPluginAsync {
  return async (app) => {
    app.setValidatorCompiler(compileValidator);
    app.setSerializerCompiler(serializerCompiler);
    app.setErrorHandler(errorHandler);
    // As a hook, so that refusals carry the headers too.
    app.addHook('onRequest', async (request, reply) => {
      reply.headers(SECURITY_HEADERS);
      // Requests below the receive endpoint that match no route are answered here.
      if (isOfReceiveEndpoint(request.url)) reply.headers(INERT_HEADERS);
    });
    // Bodies stay bytes: only the routes that accept one know its type.
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: MAX_BODY_BYTES }, (_request, body, done) =>
      done(null, body),
    );
    decorateActor(app);
    const [record = NO_RECORD] = services.parts.flatMap((part) => part.accessRecord?.(services) ?? []);
    app.addHook('onError', (request, _reply, error) => record.denied(request, error));
    const described: RouteOptions[] = [];
    app.addHook('onRoute', (route) => void described.push({ ...route }));
    // One route for both instead of Fastify's two: saves a third of the routes' time at a start.
    app.addHook('onRoute', (route) => {
      if (route.method === 'GET' && route.exposeHeadRoute !== false) route.method = ['GET', 'HEAD'];
    });
    const typed = app.withTypeProvider<ZodTypeProvider>();
    healthRoutes(typed, services);
    for (const { openRoutes } of services.parts) openRoutes?.(typed, services);
    const requireSender = await openWaysIn(app, services, record);
    await app.register(async (guarded) => addGuarded(guarded, { services, described, requireSender }));
  };
}

type RequireSender = ReturnType<typeof requireActor>;

/** Undefined without credentials: then everybody has access, and nobody needs to log in. */
async function openWaysIn(
  app: FastifyInstance,
  services: DashboardServices,
  record: AccessRecord,
): Promise<RequireSender | undefined> {
  const { logins } = services;
  if (logins === undefined) return undefined;
  const door = createDoor(logins, record, services);
  const ways = services.parts.flatMap(({ wayIn }) => wayIn?.(services, door) ?? []);
  await app.register(async (open) => {
    open.addHook('onRequest', guardOrigin(services));
    for (const way of ways) way.addRoutes?.(open);
  });
  return requireActor(door, ways);
}

interface Guarded {
  readonly services: DashboardServices;
  /** All routes, as they were added. */
  readonly described: readonly RouteOptions[];
  /** Undefined without credentials. */
  readonly requireSender: RequireSender | undefined;
}

function addGuarded(app: FastifyInstance, { services, described, requireSender }: Guarded): void {
  app.addHook('onRequest', async () => {
    if (services.isStopping()) throw new HttpError('stopping', 'The process is stopping');
  });
  app.addHook('onRequest', guardOrigin(services));
  if (requireSender !== undefined) {
    app.addHook('onRequest', requireSender);
    app.addHook('onRequest', requireScope);
    app.addHook('onRequest', refuseServiceWide);
  }
  app.addHook('onRequest', refuseBuiltIn);
  recordActivity(app, services);
  app.addHook('preHandler', hideOthers(services));
  app.setNotFoundHandler(refuseOtherMethods(app));
  const typed = app.withTypeProvider<ZodTypeProvider>();
  const ofParts = services.parts.flatMap(({ routes = [] }) => routes);
  const ofDocument = services.parts.flatMap(({ documentRoutes }) => documentRoutes?.(described) ?? []);
  for (const addRoutes of [...ofParts, ...ofDocument, pageRoutes]) addRoutes(typed, services);
}

/**
 * Makes a handler for requests that match no route of those added after it: a path that exists with other methods gets
 * a 405 that names them, as RFC 9110 requires, and any other a 404.
 */
function refuseOtherMethods(app: FastifyInstance) {
  const routes: RouteOptions[] = [];
  app.addHook('onRoute', (route) => void routes.push(route));
  let patterns: readonly RegExp[] | undefined;
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const path = request.url.split('?', 1)[0] ?? '';
    // Made for the first such request: a start does not need them.
    patterns ??= routes.map(({ url }) => patternOf(url));
    // The wildcard matches every address of the page, but no reserved one.
    const isOf = ({ url }: RouteOptions, at: number) =>
      patterns?.[at]?.test(path) === true && !(url.endsWith('*') && isReserved(path));
    const allowed = routes.filter(isOf).flatMap(({ method }) => method);
    if (allowed.length === 0) return notFoundHandler(request, reply);
    reply.header('allow', allowed.join(', '));
    throw new HttpError(405, `There is no ${request.method} ${path}; it takes ${allowed.join(', ')}`);
  };
}

function patternOf(url: string): RegExp {
  const parts = url.split('/').map((part) => {
    if (part === '*') return '.*';
    return part.startsWith(':') ? '[^/]+' : part.replace(/[^\w-]/g, '\\$&');
  });
  return new RegExp(`^${parts.join('/')}$`);
}
