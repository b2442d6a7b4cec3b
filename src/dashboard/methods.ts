import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import { HttpError, notFoundHandler } from '../errors.ts';
import { isReserved } from './page.ts';

interface KnownRoute {
  readonly path: RegExp;
  readonly methods: readonly string[];
  /** Stands for every place of the page, and for none that is reserved. */
  readonly isWildcard: boolean;
}

/**
 * Makes a handler for what no route answers, of the routes that are added after it: a path that is known under other
 * methods is a 405 that names them, as RFC 9110 has it, and any other a 404.
 */
export function refuseOtherMethods(app: FastifyInstance) {
  const routes: KnownRoute[] = [];
  app.addHook('onRoute', ({ url, method }: RouteOptions) => {
    routes.push({ path: patternOf(url), methods: [method].flat(), isWildcard: url.endsWith('*') });
  });
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const path = request.url.split('?', 1)[0] ?? '';
    const known = routes.filter((route) => route.path.test(path) && !(route.isWildcard && isReserved(path)));
    const allowed = known.flatMap(({ methods }) => methods);
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
