import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import { HttpError, notFoundHandler } from '../errors.ts';

interface KnownRoute {
  readonly path: RegExp;
  readonly methods: readonly string[];
}

/**
 * Makes a handler for what no route answers, of the routes that are added after it: a path that is known under other
 * methods is a 405 that names them, as RFC 9110 has it, and any other a 404.
 */
export function refuseOtherMethods(app: FastifyInstance) {
  const routes: KnownRoute[] = [];
  app.addHook('onRoute', ({ url, method }: RouteOptions) => {
    routes.push({ path: patternOf(url), methods: [method].flat() });
  });
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const path = request.url.split('?', 1)[0] ?? '';
    const allowed = routes.filter((route) => route.path.test(path)).flatMap(({ methods }) => methods);
    if (allowed.length === 0) return notFoundHandler(request, reply);
    reply.header('allow', allowed.join(', '));
    throw new HttpError(405, `There is no ${request.method} ${path}; it takes ${allowed.join(', ')}`);
  };
}

function patternOf(url: string): RegExp {
  const parts = url.split('/').map((part) => (part.startsWith(':') ? '[^/]+' : part.replace(/[^\w-]/g, '\\$&')));
  return new RegExp(`^${parts.join('/')}$`);
}
