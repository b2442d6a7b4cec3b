import { z } from 'zod';
import { differencesOf, unreadableIn } from '../../config/fingerprint.ts';
import { CLOCK_SETTLED_MS, CLOCK_UNFIT_MS, HOUR_MS } from '../../model/clock.ts';
import type { DeadReplica, Replica } from '../../store/store.ts';
import { field, isoTime } from '../answer.ts';
import { route } from '../route.ts';
import { type ApiRoutes, type DashboardServices, servicePart } from '../services.ts';

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

/** The processes that share the database. */
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

/** The replicas that share the store with this one, itself included; none where it has the store for itself. */
async function sharingReplicas({
  heartbeat,
  store,
  clock,
}: Pick<DashboardServices, 'heartbeat' | 'store' | 'clock'>): Promise<readonly Replica[]> {
  return heartbeat === undefined ? [] : store.listReplicas({ now: clock.now() });
}

/** A replica that beats every 5 s has missed one, and is taken for dead at 15 s. */
const BEAT_OVERDUE_MS = 10_000;

/** A replica looks every 5 s at what others changed; one that has not for so long may refuse or accept what others no longer do. */
const UNSEEN_MS = 30_000;

/** Clocks that are kept by NTP differ by far less. */
const CLOCK_DOUBTFUL_MS = 2000;

/** Why a replica should get no requests. */
export interface Unfit {
  readonly reason: 'heartbeat_overdue' | 'schema_outgrown' | 'clock_offset' | 'changes_unseen' | 'secrets_unreadable';
  readonly message: string;
}

/** Why a process should get no requests; undefined if it should. One that has its store for itself has its clock alone. */
export function unfitReplica({
  heartbeat,
  store,
  clock,
}: Pick<DashboardServices, 'heartbeat' | 'store' | 'clock'>): Unfit | undefined {
  if (heartbeat === undefined) {
    if (clock.isFit()) return undefined;
    const message = `The clock of this machine was set: it is now ${clockDistance(clock.clockOffsetMs())} what it was; if it stays so for ${CLOCK_SETTLED_MS / 1000} s, the service goes by it`;
    return { reason: 'clock_offset', message };
  }
  const { beatAt, clockOffsetMs, misfit, told = [] } = heartbeat.state();
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
  const unreadable = unreadableIn(store.replica, told);
  if (unreadable.length === 0) return undefined;
  const message = `This replica cannot read ${unreadable.join(', ')}, and another one can; what needs it is refused or fails here`;
  return { reason: 'secrets_unreadable', message };
}

/** For so long it is news that a replica died; the store remembers it for longer. */
const DEAD_TOLD_MS = HOUR_MS;

/** Those that died in the last hour. */
function deadReplicas({ heartbeat, clock }: Pick<DashboardServices, 'heartbeat' | 'clock'>): readonly DeadReplica[] {
  const { dead = [] } = heartbeat?.state() ?? {};
  return dead.filter(({ at }) => clock.now() - at < DEAD_TOLD_MS);
}

/** What an operator should look at of those. */
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

/** Such as `2.4 s ahead of`. */
function clockDistance(offsetMs: number): string {
  return `${(Math.abs(offsetMs) / 1000).toFixed(1)} s ${offsetMs > 0 ? 'ahead of' : 'behind'}`;
}

/** What an operator should look at. */
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

export const replicas = servicePart({
  name: 'replicas',
  routes: [replicaRoutes],
  attention: async (_situation, services) => [
    ...replicaItems(await sharingReplicas(services)),
    ...deadReplicaItems(deadReplicas(services)),
  ],
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
