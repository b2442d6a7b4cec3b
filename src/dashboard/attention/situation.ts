import type { DeployedFlow } from '../../flows/catalog.ts';
import type { Schedule } from '../../flows/scheduler.ts';
import { type KeyReport, reportKeys } from '../../keys/key-report.ts';
import type { UnreadableManifest } from '../../manifest/load.ts';
import type { AttentionKind, Severity } from '../../model/attention.ts';
import { HOUR_MS } from '../../model/clock.ts';
import type {
  DeadReplica,
  DeliveryCount,
  Downtime,
  LongStep,
  OrderReport,
  ReconciliationRow,
  Replica,
  RhythmRow,
  RunCount,
  SlotWaits,
  StorageMeasure,
  Store,
  UnevaluatedCount,
} from '../../store/store.ts';
import type { UnfitAnswers } from '../../webhooks/flow-answers.ts';
import type { NewKey } from '../../webhooks/schemes/standards/key-sets.ts';
import type { PreparedTrigger, TriggerTable } from '../../webhooks/triggers.ts';
import type { openCircuits } from '../api/hosts.ts';
import { listDrifts, type TriggerDrifts } from '../api/paths.ts';
import { deadReplicas, sharingReplicas } from '../api/replicas.ts';
import type { DashboardServices } from '../services.ts';

/** What a rule found. */
export interface Finding<Kind extends AttentionKind = AttentionKind> {
  readonly kind: Kind;
  /** Where it is not the usual one of its kind. */
  readonly severity?: Severity;
  /** One sentence. */
  readonly message: string;
  /** Path of the page that shows it, with the filter and the time where it shows a list. */
  readonly link: string;
  /** That of the link where not given. */
  readonly flowId?: string | null;
  /** The flow that starts the one that it is about, where it names both. */
  readonly callerId?: string;
  readonly triggerKey?: string | null;
  /** Tells it from others of its kind with the same flow and trigger, the same while it lasts; the link where not given. */
  readonly about?: string;
}

/** Something that an operator should look at, and where. */
export interface AttentionItem extends Finding {
  readonly severity: Severity;
  readonly flowId: string | null;
  readonly triggerKey: string | null;
}

/** What the rules judge, read at one instant. */
export interface Situation extends Pick<Parameters<typeof openCircuits>[0], 'hosts'> {
  readonly now: number;
  readonly flows: readonly DeployedFlow[];
  readonly triggers: readonly PreparedTrigger[];
  /** Slugs that are shared by triggers which may not share them now. */
  readonly apart: ReturnType<TriggerTable['apart']>;
  /** Manifests of the folder that are not deployed as they are. */
  readonly unreadable: readonly UnreadableManifest[];
  /** Of flows with steps that wait for a secret, what the first one found lacks. */
  readonly lacking: readonly { readonly flowId: string; readonly runId: string; readonly why: string }[];
  readonly schedules: readonly Schedule[];
  /** Runs that ended in the last 24 hours, counted from a whole hour. */
  readonly ended: readonly RunCount[];
  /** Deliveries of the same hours; `recent` are those of this hour and the one before. */
  readonly deliveries: readonly DeliveryCount[];
  /** How many deliveries each flow holds. */
  readonly held: Awaited<ReturnType<Store['listHeld']>>;
  /** Steps that have been due for `LONG_SLOT_WAIT_MS`, and how many may run at once. */
  readonly slots: SlotWaits & { readonly concurrency: number };
  /** Steps that have run for `LONG_STEP_MS`. */
  readonly longSteps: readonly LongStep[];
  /** Empty where this process has the store for itself. */
  readonly replicas: readonly Replica[];
  readonly dead: readonly DeadReplica[];
  readonly storage: StorageMeasure;
  readonly keys: readonly KeyReport[];
  readonly drifts: readonly TriggerDrifts[];
  /** Keys that appeared in publishers' key sets, as this process knows them. */
  readonly newKeys: readonly NewKey[];
  /** When triggers had their last deliveries, and what was found unusual. */
  readonly rhythms: readonly RhythmRow[];
  /** What came of asking publishers for lost deliveries. */
  readonly reconciliations: readonly ReconciliationRow[];
  /** Times in which no process had the store. */
  readonly downtimes: readonly Downtime[];
  /** Deliveries of the last 24 hours of which an expression of their trigger could not be evaluated. */
  readonly unevaluated: readonly UnevaluatedCount[];
  /** Keys that failed runs hold, and runs of the last 24 hours without a key. */
  readonly orders: OrderReport;
  /** Answers of the last 24 hours that steps were to give, and gave none that fits. */
  readonly unfit: readonly UnfitAnswers[];
  /** Targets that are to be told. */
  readonly alertTargets: number;
}

export const LOOK_BACK_HOURS = 24;

export const RECENT_HOURS = 2;

/** A free slot takes a due step within milliseconds; what is due for this long waits for other steps to end. */
export const LONG_SLOT_WAIT_MS = 10_000;

/** A step that ran for less needs nobody. */
const LONG_STEP_MS = 60_000;

export async function readSituation(services: DashboardServices): Promise<Situation> {
  const { store, catalog, scheduler, triggers, clock, settings } = services;
  const now = clock.now();
  const since = now - LOOK_BACK_HOURS * HOUR_MS;
  const [
    ended,
    deliveries,
    held,
    schedules,
    waits,
    longSteps,
    hosts,
    replicas,
    keys,
    drifts,
    rhythms,
    reconciliations,
    downtimes,
    storage,
    lacking,
    unevaluated,
    orders,
  ] = await Promise.all([
    store.countEndedRuns(since),
    store.countDeliveries({ since, recentSince: now - (RECENT_HOURS - 1) * HOUR_MS }),
    store.listHeld(),
    scheduler.list(),
    store.listSlotWaits({ now, dueBefore: now - LONG_SLOT_WAIT_MS }),
    store.listLongSteps({ startedBefore: now - LONG_STEP_MS }),
    services.hosts.list(),
    sharingReplicas(services),
    reportKeys({ ...services, triggers: triggers() }),
    listDrifts(services),
    store.listRhythms(),
    store.listReconciliations(),
    store.listDowntimes(),
    store.measureStorage(),
    listSecretWaits(services),
    store.countUnevaluated(since),
    store.reportOrders({ since }),
  ]);
  const slots = { ...waits, concurrency: settings.stepConcurrency };
  const alertTargets = services.alerts()?.targets.length ?? 0;
  const dead = deadReplicas(services);
  const known = {
    unreadable: catalog.unreadable(),
    dead,
    storage,
    ended,
    deliveries,
    held,
    schedules,
    slots,
    longSteps,
    hosts,
    replicas,
    keys,
    drifts,
    newKeys: services.keySets.listNew(),
    rhythms,
    reconciliations,
    downtimes,
    lacking,
    unevaluated,
    orders,
    unfit: services.answers.unfit(since),
    alertTargets,
  };
  return { now, flows: catalog.list(), triggers: triggers().list(), apart: triggers().apart(), ...known };
}

/** Runs that are looked at for their flows. */
const SECRET_WAITS = 200;

async function listSecretWaits({
  store,
  clock,
}: Pick<DashboardServices, 'store' | 'clock'>): Promise<Situation['lacking']> {
  // One that is due again is about to look.
  const dueBefore = clock.now() - HOUR_MS;
  const { items } = await store.listRuns({ skip: 0, take: SECRET_WAITS, waiting: { kind: 'secret', dueBefore } });
  const firsts = new Map(items.map(({ id, flowId }) => [flowId, id]));
  if (firsts.size === 0) return [];
  const { waits } = await store.describeRuns({ running: [...firsts.values()], ended: [], dueBefore });
  return [...firsts].flatMap(([flowId, runId]) => {
    const wait = waits.find((each) => each.runId === runId && each.lacking !== null);
    return wait === undefined ? [] : [{ flowId, runId, why: `${wait.stepKey}: ${wait.lacking}` }];
  });
}

export const counted = (count: number, one: string, many = `${one}s`) =>
  count === 1 ? `1 ${one}` : `${count} ${many}`;

export function nameOf(flowId: string, flows: Situation['flows']): string {
  return flows.find(({ record }) => record.id === flowId)?.record.name ?? flowId;
}

/** The start of the hour so many hours ago: figures are counted by the hour. */
export function startOf(now: number, hoursAgo: number): string {
  return iso((Math.floor(now / HOUR_MS) - hoursAgo) * HOUR_MS);
}

export function iso(at: number): string {
  return new Date(at)
    .toISOString()
    .replace(/:00\.000Z$/, 'Z')
    .replace(/\.\d+Z$/, 'Z');
}

export function lasting(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}
