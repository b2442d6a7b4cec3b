import type { ServerResponse } from 'node:http';
import { z } from 'zod';
import type { LiveEvent } from '../../telemetry/events.ts';
import { errorSchema, REFUSALS } from '../answer.ts';
import { optionalGuid } from '../input.ts';
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

const HEARTBEAT_MS = 15_000;
/** A watcher that reads this much slower than things happen is let go; it may come again. */
const MAX_WAITING_BYTES = 1_048_576;

/** What happens, as it happens, as Server-Sent Events. */
export const eventStreamRoutes: ApiRoutes = (app, { live }) => {
  const open = new Set<ServerResponse>();
  // A stream never ends by itself, and a server that stops waits for every answer.
  app.addHook('preClose', async () => {
    for (const response of open) response.end();
  });

  app.get(
    '/flows/api/events/stream',
    {
      schema: {
        tags: ['service'],
        operationId: 'streamEvents',
        summary: 'Runs, steps and deliveries as they happen, as Server-Sent Events',
        querystring: z.strictObject({ runId: optionalGuid() }),
        response: {
          200: { description: 'OK', content: { 'text/event-stream': { schema: z.string() } } },
          ...REFUSALS,
        },
      },
      // A HEAD request would wait for an answer that has no end.
      exposeHeadRoute: false,
    },
    async (request, reply) => {
      const { runId } = request.query;
      const headers = Object.entries(reply.getHeaders()).filter(([, value]) => value !== undefined);
      reply.hijack();
      const response = reply.raw;
      response.writeHead(200, {
        ...Object.fromEntries(headers.map(([name, value]) => [name, value ?? ''])),
        'content-type': 'text/event-stream; charset=utf-8',
        'cache-control': 'no-store',
        'x-accel-buffering': 'no',
      });
      response.write(': open\n\n');
      open.add(response);
      const write = (text: string) => {
        if (response.writableLength > MAX_WAITING_BYTES) response.destroy();
        else response.write(text);
      };
      const heartbeat = setInterval(() => write(': still here\n\n'), HEARTBEAT_MS).unref();
      const unsubscribe = live.subscribe((event) => {
        if (runId === undefined || event.runId === runId) write(formatEvent(event));
      });
      response.once('close', () => {
        clearInterval(heartbeat);
        unsubscribe();
        open.delete(response);
      });
    },
  );
};

function formatEvent({ type, data }: LiveEvent): string {
  return `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
}
