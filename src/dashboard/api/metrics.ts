import { z } from 'zod';
import { REFUSALS } from '../error-responses.ts';
import type { ApiRoutes } from '../services.ts';

/** What Prometheus scrapes. */
export const metricsRoutes: ApiRoutes = (app, { metrics: { registry } }) => {
  app.get(
    '/metrics',
    {
      schema: {
        tags: ['service'],
        operationId: 'metrics',
        summary: 'Metrics in the Prometheus text format',
        response: { 200: { description: 'OK', content: { 'text/plain': { schema: z.string() } } }, ...REFUSALS },
      },
    },
    async (_request, reply) => reply.type(registry.contentType).send(await registry.metrics()),
  );
};
