import { z } from 'zod';
import { errorSchema } from '../error-responses.ts';
import type { ApiRoutes } from '../services.ts';

const tags = ['service'];

/** For whatever starts and watches the process; open to everybody, because such things hold no credentials. */
export const healthRoutes: ApiRoutes = (app, { store, isStopping }) => {
  app.get(
    '/health/live',
    {
      schema: {
        tags,
        operationId: 'live',
        summary: 'The process answers',
        security: [],
        response: { 200: z.object({ status: z.literal('live') }) },
      },
    },
    async () => ({ status: 'live' as const }),
  );

  app.get(
    '/health/ready',
    {
      schema: {
        tags,
        operationId: 'ready',
        summary: 'The store can be written and no stop has begun',
        security: [],
        response: { 200: z.object({ status: z.literal('ready') }), 503: errorSchema },
      },
    },
    async (_request, reply) => {
      if (isStopping()) {
        const stopping = { statusCode: 503, error: 'Service Unavailable', message: 'The process is stopping' };
        return reply.code(503).send({ ...stopping, reason: 'stopping' });
      }
      await store.ping();
      return { status: 'ready' as const };
    },
  );
};
