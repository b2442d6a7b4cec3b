import { z } from 'zod';
import { StoreUnavailableError } from '../../errors.ts';
import { CLOCK_SETTLED_MS, CLOCK_UNFIT_MS } from '../../model/clock.ts';
import { gaugeIn } from '../../telemetry/metrics.ts';
import { errorSchema } from '../answer.ts';
import { route, textAnswer } from '../route.ts';
import { type ApiRoutes, type DashboardServices, servicePart, type Unfit } from '../services.ts';

/** For supervisors and load balancers; needs no credentials, because they have none. */
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
export async function unreadiness(services: DashboardServices): Promise<Unready | undefined> {
  if (services.isLeaving()) return { reason: 'stopping', message: 'The process is stopping' };
  await services.store.ping();
  if (services.isStarting()) return { reason: 'store_unavailable', message: 'The service is starting' };
  const ofParts = () => services.parts.flatMap(({ unready }) => unready?.(services) ?? [])[0];
  return unfitReplica(services) ?? ofParts() ?? lostSecrets(services);
}

type Unready = Unfit | { readonly reason: 'stopping' | 'store_unavailable'; readonly message: string };

/** A replica beats every 5 s; after this it has missed a beat, and at 15 s it counts as dead. */
const BEAT_OVERDUE_MS = 10_000;

/** A replica reads others' changes every 5 s; after this long without, it may wrongly refuse or accept deliveries. */
const UNSEEN_MS = 30_000;

/** Why a process should get no requests; undefined if it should. The sole owner of a store only checks its clock. */
function unfitReplica({
  heartbeat,
  store,
  clock,
}: Pick<DashboardServices, 'heartbeat' | 'store' | 'clock'>): Unfit | undefined {
  if (heartbeat === undefined) {
    if (clock.isFit()) return undefined;
    const message = `The clock of this machine was set: it is now ${clockDistance(clock.clockOffsetMs())} what it was; if it stays so for ${CLOCK_SETTLED_MS / 1000} s, the service goes by it`;
    return { reason: 'clock_offset', message };
  }
  const { beatAt, clockOffsetMs, misfit } = heartbeat.state();
  if (beatAt === undefined || clock.monotonic() - beatAt > BEAT_OVERDUE_MS) {
    const message = `The database has not answered a heartbeat of this replica in the last ${BEAT_OVERDUE_MS / 1000} s`;
    return { reason: 'heartbeat_overdue', message };
  }
  if (misfit !== undefined) {
    return { reason: 'schema_outgrown', message: `A newer release has migrated the database: ${misfit}` };
  }
  if (Math.abs(clockOffsetMs) > CLOCK_UNFIT_MS) {
    const message = `The clock of this replica is ${clockDistance(clockOffsetMs)} the clock of the database; at most ${CLOCK_UNFIT_MS / 1000} s are allowed`;
    return { reason: 'clock_offset', message };
  }
  if (store.changes.unseenMs() > UNSEEN_MS) {
    const message = `This replica could not read what other replicas changed in the last ${UNSEEN_MS / 1000} s`;
    return { reason: 'changes_unseen', message };
  }
  return undefined;
}

/** For example `2.4 s ahead of`. */
export function clockDistance(offsetMs: number): string {
  return `${(Math.abs(offsetMs) / 1000).toFixed(1)} s ${offsetMs > 0 ? 'ahead of' : 'behind'}`;
}

/** The store's time limit for impatient clients: a database that hangs reports it only after 5 s. */
const ANSWER_MS = 2000;

/** `unreadiness` within 2 s, for repeated checks. A store that is away is a reason like any other. */
export async function readinessSoon(services: DashboardServices): Promise<Unready | undefined> {
  const meanwhile = 'and what the page shows may be old';
  const away = {
    reason: 'store_unavailable' as const,
    message: `The store is unavailable. Deliveries get 503 until it is back, ${meanwhile}`,
  };
  const silent = {
    ...away,
    message: `The store has not answered for ${ANSWER_MS / 1000} s. Deliveries wait for it or get 503, ${meanwhile}`,
  };
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Unready>((resolve) => {
    timer = setTimeout(resolve, ANSWER_MS, silent).unref();
  });
  const readiness = unreadiness(services).catch((error: unknown) => {
    if (error instanceof StoreUnavailableError) return away;
    throw error;
  });
  // A late result is not needed.
  readiness.catch(() => {});
  return Promise.race([readiness, late]).finally(() => clearTimeout(timer));
}

/** Secrets sealed with a key that this process lacks: it refuses deliveries that another, or the next, accepts. */
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

/** The route that Prometheus scrapes. */
const metricsRoute: ApiRoutes = (app, services) => {
  const { registry, ready, databaseFileBytes, databaseWalBytes, diskFreeBytes, purgeAgeSeconds } = services.metrics;
  const measurements = services.parts.flatMap(({ gauges = [] }) =>
    gauges.map(({ measure, ...described }) => {
      const gauge = gaugeIn(registry, described);
      const read = measure(services);
      return async () => gauge.set(await read());
    }),
  );
  app.get(
    '/metrics',
    route('service', {
      operationId: 'metrics',
      limit: 'refused',
      summary: 'Metrics in the Prometheus text format',
      answer: textAnswer('text/plain'),
      query: 'any',
      access: { scope: 'metrics' },
    }),
    async (_request, reply) => {
      // Prometheus does not read /health/ready, so an alert needs the answer as a number.
      const unready = await readinessSoon(services);
      ready.set(unready === undefined ? 1 : 0);
      // While the store is away, the last numbers stay, and sluice_ready shows that it is away.
      const storage = await services.store.measureStorage().catch(() => undefined);
      if (storage !== undefined) {
        databaseFileBytes.set(storage.fileBytes);
        databaseWalBytes.set(storage.walBytes ?? 0);
        diskFreeBytes.set(storage.freeBytes ?? Number.NaN);
        const end = storage.oldestNonceEnd ?? Number.POSITIVE_INFINITY;
        purgeAgeSeconds.set(Math.max(0, services.clock.ledger() - end) / 1000);
      }
      await Promise.allSettled(measurements.map((measure) => measure()));
      return reply.type(registry.contentType).send(await registry.metrics());
    },
  );
};

export const metrics = servicePart({ name: 'metrics', routes: [metricsRoute] });
