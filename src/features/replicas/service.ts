import { z } from 'zod';
import { isPostgres } from '../../config/database.ts';
import { field, isoTime } from '../../dashboard/answer.ts';
import { clockDistance } from '../../dashboard/api/service.ts';
import { route } from '../../dashboard/route.ts';
import {
  type ApiRoutes,
  type DashboardServices,
  type Host,
  rulesFor,
  servicePart,
  type Unfit,
} from '../../dashboard/services.ts';
import type { ReplicaReports } from '../../flows/runtime.ts';
import { HOUR_MS } from '../../model/clock.ts';
import type { DeadReplica, Replica } from '../../store/store.ts';
import { replicasAttention } from './attention.ts';
import { createFingerprint, differencesOf, haveStepType, unreadableIn } from './fingerprint.ts';

export const replicaSchema = z
  .object({
    name: z.string(),
    version: z.string().describe('Version of Sluice; empty until the first heartbeat.'),
    startedAt: field.time(),
    seenAt: field.time().describe('Its last heartbeat, by the clock of the database.'),
    clockOffsetMs: field.integer().describe('How far its clock is ahead of the clock of the database.'),
    stepsRunning: field.integer(),
    self: z.boolean().describe('Whether this replica answered the request.'),
  })
  .meta({ id: 'Replica' });

/** Lists the processes that share the database. */
const replicaRoutes: ApiRoutes = (app, { store, clock }) => {
  app.get(
    '/flows/api/replicas',
    route('service', {
      operationId: 'listReplicas',
      limit: 'refused',
      summary: 'The live replicas, by name; on SQLite the one process',
      answer: z.array(replicaSchema),
    }),
    async () => {
      const replicas = await store.listReplicas({ now: clock.now() });
      return replicas.map((replica) => replicaView(replica, store.replica));
    },
  );
};

function replicaView(replica: Replica, self: string): z.output<typeof replicaSchema> {
  const { name, version, startedAt, seenAt, clockOffsetMs, steps } = replica;
  const times = { startedAt: isoTime(startedAt), seenAt: isoTime(seenAt) };
  return {
    name,
    version,
    ...times,
    clockOffsetMs: Math.round(clockOffsetMs),
    stepsRunning: steps,
    self: name === self,
  };
}

/** All replicas that share the store, including this one; none if this process has the store for itself. */
async function sharingReplicas({
  heartbeat,
  store,
  clock,
}: Pick<DashboardServices, 'heartbeat' | 'store' | 'clock'>): Promise<readonly Replica[]> {
  return heartbeat === undefined ? [] : store.listReplicas({ now: clock.now() });
}

/** Clocks kept by NTP differ by far less. */
const CLOCK_DOUBTFUL_MS = 2000;

/** How long a dead replica is reported; the store remembers it for longer. */
const DEAD_TOLD_MS = HOUR_MS;

/** Replicas that died in the last hour. */
function deadReplicas({ heartbeat, clock }: Pick<DashboardServices, 'heartbeat' | 'clock'>): readonly DeadReplica[] {
  const { dead = [] } = heartbeat?.state() ?? {};
  return dead.filter(({ at }) => clock.now() - at < DEAD_TOLD_MS);
}

/** Attention items for dead replicas. */
function deadReplicaItems(dead: readonly DeadReplica[]) {
  return dead.map(({ name, at, steps }) => ({
    kind: 'replica_died' as const,
    about: name,
    message:
      `The replica ${name} died: it was last seen at ${isoTime(at)}, and ${steps === 1 ? '1 step that it ran was' : `${steps} steps that it ran were`} given to others. ` +
      'Start it again under its name, unless another one took its place',
    link: '/flows/api/replicas',
  }));
}

/** Attention items for differing clocks and differing configurations. */
function replicaItems(replicas: readonly Replica[]) {
  const item = { link: '/flows/api/replicas' };
  const doubtful = replicas.filter(({ clockOffsetMs }) => Math.abs(clockOffsetMs) > CLOCK_DOUBTFUL_MS);
  return [
    ...doubtful.map(({ name, clockOffsetMs }) => ({
      ...item,
      kind: 'replica_clock' as const,
      about: name,
      message: `The clock of the replica ${name} is ${clockDistance(clockOffsetMs)} the clock of the database; synchronise both with NTP`,
    })),
    ...differencesOf(replicas).map(({ what, message }) => ({
      ...item,
      kind: 'replicas_differ' as const,
      message,
      about: what,
    })),
  ];
}

/** A secret that this replica cannot read and another one can. */
function unreadableSecret({ heartbeat, store }: Pick<DashboardServices, 'heartbeat' | 'store'>): Unfit | undefined {
  const unreadable = unreadableIn(store.replica, heartbeat?.state().told ?? []);
  if (unreadable.length === 0) return undefined;
  const message = `This replica cannot read ${unreadable.join(', ')}, and another one can; what needs it is refused or fails here`;
  return { reason: 'secrets_unreadable', message };
}

function reportsOf(host: Host): ReplicaReports {
  const { settings, store, clock } = host;
  return {
    // With a database of its own, a process has nothing to compare.
    fingerprint: isPostgres(settings.databaseUrl)
      ? createFingerprint({ ...host, inForce: host.inForce.current })
      : undefined,
    isServedElsewhere: async (stepType) =>
      haveStepType(await store.listReplicas({ now: clock.now() }), { stepType, besides: store.replica }),
  };
}

export const replicas = servicePart({
  name: 'replicas',
  routes: [replicaRoutes],
  start: (host) => ({ replica: reportsOf(host) }),
  unready: unreadableSecret,
  attention: rulesFor(replicasAttention, async (_situation, services) => [
    ...replicaItems(await sharingReplicas(services)),
    ...deadReplicaItems(deadReplicas(services)),
  ]),
  gauges: [
    {
      name: 'sluice_cluster_replicas',
      help: 'Live replicas, as of the last heartbeat of this one; 1 on SQLite.',
      measure:
        ({ heartbeat }) =>
        () =>
          heartbeat?.state().replicas ?? 1,
    },
    {
      name: 'sluice_cluster_dead_replicas',
      help: 'Replicas that died in the last hour and did not come back under their name; 0 on SQLite.',
      measure: (services) => () => deadReplicas(services).length,
    },
    {
      name: 'sluice_cluster_differences',
      help: 'Secrets, settings and extensions that differ between replicas; the attention list names them.',
      measure: (services) => async () => differencesOf(await sharingReplicas(services)).length,
    },
  ],
});
