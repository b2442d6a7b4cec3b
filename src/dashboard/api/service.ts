import type { ServerResponse } from 'node:http';
import { z } from 'zod';
import { differencesOf } from '../../config/fingerprint.ts';
import type { LiveEvent } from '../../telemetry/events.ts';
import { errorSchema } from '../answer.ts';
import { parameter } from '../input.ts';
import { route } from '../route.ts';
import type { ApiRoutes, DashboardServices } from '../services.ts';
import { sharingReplicas, unfitReplica } from './replicas.ts';

/** For supervisors and load balancers; needs no credentials, because those have none. */
export const healthRoutes: ApiRoutes = (app, services) => {
  app.get(
    '/health/live',
    {
      schema: {
        tags: ['service'],
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
        tags: ['service'],
        operationId: 'ready',
        summary:
          'The store is writable, the process is not stopping, and a replica has a current heartbeat, a compatible schema, a correct clock and the secrets',
        security: [],
        response: { 200: z.object({ status: z.literal('ready') }), 503: errorSchema },
      },
    },
    async (_request, reply) => {
      const unready = await unreadiness(services);
      if (unready === undefined) return { status: 'ready' as const };
      return reply.code(503).send({ statusCode: 503, error: 'Service Unavailable', ...unready });
    },
  );
};

/** Why the process should get no requests; undefined if it should. Rejects if the store is not writable. */
export async function unreadiness(services: DashboardServices) {
  if (services.isLeaving()) return { reason: 'stopping', message: 'The process is stopping' };
  await services.store.ping();
  return unfitReplica(services);
}

/** Metrics of the process and a stream of its events. */
export const serviceRoutes: ApiRoutes = (app, services) => {
  metricsRoute(app, services);
  eventStreamRoute(app, services);
};

/** What Prometheus scrapes. */
const metricsRoute: ApiRoutes = (app, services) => {
  const { registry, ready, clusterReplicas, clusterDifferences } = services.metrics;
  app.get(
    '/metrics',
    route('service', {
      operationId: 'metrics',
      summary: 'Metrics in the Prometheus text format',
      answer: textAnswer('text/plain'),
      query: 'any',
    }),
    async (_request, reply) => {
      // Prometheus does not read /health/ready, so an alert needs the answer as a number.
      const isReady = await unreadiness(services).then(
        (unready) => unready === undefined,
        () => false,
      );
      ready.set(isReady ? 1 : 0);
      clusterReplicas.set(services.heartbeat?.state().replicas ?? 1);
      // While the store is away the last number stays, and sluice_ready says that it is away.
      const replicas = await sharingReplicas(services).catch(() => undefined);
      if (replicas !== undefined) clusterDifferences.set(differencesOf(replicas).length);
      return reply.type(registry.contentType).send(await registry.metrics());
    },
  );
};

const textAnswer = (contentType: string) => ({
  description: 'OK' as const,
  content: { [contentType]: { schema: z.string() } },
});

const HEARTBEAT_MS = 15_000;
/** A client that falls this far behind is disconnected; it may connect again. */
const MAX_WAITING_BYTES = 1_048_576;

/** Events of runs, steps and deliveries as Server-Sent Events. */
const eventStreamRoute: ApiRoutes = (app, { live }) => {
  const open = new Set<ServerResponse>();
  // A stream never ends by itself, and a stopping server waits for every answer.
  app.addHook('preClose', async () => {
    for (const response of open) response.end();
  });

  app.get(
    '/flows/api/events/stream',
    {
      ...route('service', {
        operationId: 'streamEvents',
        summary: 'Runs, steps and deliveries as they happen, as Server-Sent Events',
        query: z.strictObject({ runId: parameter.optionalGuid() }),
        answer: textAnswer('text/event-stream'),
      }), // A HEAD request would wait for an answer that never ends.
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
        const mayBeOf = event.runId === runId || (event.type === 'run.changed' && event.runId === null);
        if (runId === undefined || mayBeOf) write(formatEvent(event));
      });
      response.once('close', () => {
        clearInterval(heartbeat);
        unsubscribe();
        open.delete(response);
      });
    },
  );
};

/** What the stream sends of an event. */
export type SentEvent = Pick<LiveEvent, 'type' | 'data'>;

function formatEvent({ type, data }: SentEvent): string {
  return `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
}
