import { z } from 'zod';
import { differencesOf } from '../../config/fingerprint.ts';
import { errorSchema } from '../answer.ts';
import { route, textAnswer } from '../route.ts';
import type { ApiRoutes, DashboardServices } from '../services.ts';
import { createUnaccounted } from './books.ts';
import { sharingReplicas, type Unfit, unfitReplica } from './replicas.ts';

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
  if (services.isStarting()) return { reason: 'store_unavailable', message: 'The service is starting' };
  return unfitReplica(services) ?? lostSecrets(services);
}

/** What was sealed with a key that this process has not: it refuses deliveries that another one, or the next, accepts. */
function lostSecrets({ catalog }: Pick<DashboardServices, 'catalog'>): Unfit | undefined {
  const lacking = catalog
    .list()
    .filter(({ record, loaded }) => record.isEnabled && loaded.lost !== undefined)
    .map(({ record, loaded }) => `${record.name} ${loaded.lost?.[0] ?? ''}`);
  if (lacking.length === 0) return undefined;
  const message =
    `Secrets that were deployed in plain text cannot be read: ${lacking.slice(0, NAMED_FLOWS).join(', ')}. Put back the key that sealed ` +
    'them (SLUICE_STORE_KEY, or the file next to the database), deploy them again, or disable the flow';
  return { reason: 'secrets_unreadable', message };
}

const NAMED_FLOWS = 5;

/** What Prometheus scrapes. */
export const metricsRoute: ApiRoutes = (app, services) => {
  const { registry, ready, clusterReplicas, clusterDifferences } = services.metrics;
  const { databaseFileBytes, databaseWalBytes, purgeAgeSeconds, deliveriesUnaccounted } = services.metrics;
  const countUnaccounted = createUnaccounted(services);
  app.get(
    '/metrics',
    route('service', {
      operationId: 'metrics',
      summary: 'Metrics in the Prometheus text format',
      answer: textAnswer('text/plain'),
      query: 'any',
      access: { scope: 'metrics' },
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
      const storage = await services.store.measureStorage().catch(() => undefined);
      if (storage !== undefined) {
        databaseFileBytes.set(storage.fileBytes);
        databaseWalBytes.set(storage.walBytes ?? 0);
        const end = storage.oldestNonceEnd ?? Number.POSITIVE_INFINITY;
        purgeAgeSeconds.set(Math.max(0, services.clock.ledger() - end) / 1000);
      }
      const unaccounted = await countUnaccounted().catch(() => undefined);
      if (unaccounted !== undefined) deliveriesUnaccounted.set(unaccounted);
      return reply.type(registry.contentType).send(await registry.metrics());
    },
  );
};
