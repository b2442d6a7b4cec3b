import { z } from 'zod';
import { whatLacking, whatUnreadable } from '../../deploys/unreadable.ts';
import { StoreUnavailableError } from '../../errors.ts';
import { type DeployedFlow, startsRuns } from '../../flows/catalog.ts';
import { nextTicks, type Schedule } from '../../flows/scheduler.ts';
import { keptForIdle } from '../../flows/slots.ts';
import { type KeyReport, reportKeys } from '../../keys/key-report.ts';
import type { UnreadableManifest } from '../../manifest/load.ts';
import { ATTENTION, ATTENTION_KINDS, type AttentionKind, SEVERITIES, type Severity } from '../../model/attention.ts';
import { DAY_MS, HOUR_MS } from '../../model/clock.ts';
import type { Reason } from '../../model/delivery.ts';
import { ALERT_FLOW_ID, subFlowsOf } from '../../model/manifest.ts';
import { printable } from '../../model/text.ts';
import type {
  DeadReplica,
  DeliveryCount,
  LongStep,
  OrderReport,
  Replica,
  RunCount,
  SlotWait,
  SlotWaits,
  StorageMeasure,
  Store,
  UnevaluatedCount,
} from '../../store/store.ts';
import { presetConcerns } from '../../webhooks/checks.ts';
import { missingKey } from '../../webhooks/learned-keys.ts';
import type { PreparedTrigger, TriggerTable } from '../../webhooks/triggers.ts';
import { field } from '../answer.ts';
import { route } from '../route.ts';
import type { ApiRoutes, DashboardServices } from '../services.ts';
import { openCircuits } from './hosts.ts';
import { rotationConcerns } from './keys.ts';
import { driftItems, listDrifts, type TriggerDrifts } from './paths.ts';
import { deadReplicaItems, deadReplicas, replicaItems, sharingReplicas } from './replicas.ts';

/** What a rule found. */
interface Finding {
  readonly kind: AttentionKind;
  /** Where it is not the usual one of its kind. */
  readonly severity?: Severity;
  /** One sentence. */
  readonly message: string;
  /** Path of the page that shows it, with the filter and the time where it shows a list. */
  readonly link: string;
  /** That of the link where not given. */
  readonly flowId?: string | null;
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

export const attentionSchema = z
  .object({
    kind: z.enum(ATTENTION_KINDS),
    severity: z.enum(SEVERITIES),
    message: z.string(),
    link: z.string().describe('Path of the page that shows it.'),
    flowId: field.id().nullable().describe('The flow that it is about; null if it is about none, or several.'),
    triggerKey: z.string().nullable(),
  })
  .meta({ id: 'Attention' });

/** What the rules judge, read at one instant. */
interface Situation extends Pick<Parameters<typeof openCircuits>[0], 'hosts'> {
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
  /** Deliveries of the last 24 hours of which an expression of their trigger could not be evaluated. */
  readonly unevaluated: readonly UnevaluatedCount[];
  /** Keys that failed runs hold, and runs of the last 24 hours without a key. */
  readonly orders: OrderReport;
  /** Targets that are to be told. */
  readonly alertTargets: number;
}

const LOOK_BACK_HOURS = 24;

const RECENT_HOURS = 2;

/** A due schedule fires within seconds; after this long something is wrong. */
const OVERDUE_AFTER_MS = 120_000;

/** A free slot takes a due step within milliseconds; what is due for this long waits for other steps to end. */
const LONG_SLOT_WAIT_MS = 10_000;

/** A step that ran for less needs nobody; one that is unusual took this many times the longest of those known, of so many at least. */
const LONG_STEP_MS = 60_000;
const UNUSUAL_FACTOR = 3;
const LEAST_KNOWN = 5;

/** Between two steps a slot is free for a moment; with fewer taken of those for all, more slots would not help. */
const TAKEN_SHARE = 0.9;

/** Longer than a drain or an outage of what a flow calls. */
const LONG_HELD_MS = 7 * DAY_MS;

/** At least this many refusals in the recent hours, and this many times the usual number, need attention. */
const RISING_COUNT = 20;

const RISING_FACTOR = 5;

/** What an operator should look at now. */
export const attentionRoutes: ApiRoutes = (app, services) => {
  app.get(
    '/flows/api/attention',
    route('service', {
      operationId: 'listAttention',
      summary: 'What needs attention, most severe first',
      answer: z.array(attentionSchema),
    }),
    async () => listAttention(services),
  );
};

/** The same for those who tell people of it. */
export async function listAttention(services: DashboardServices): Promise<AttentionItem[]> {
  return [...(await notStored(services)), ...(await askStore(services))].map(itemOf);
}

/** The flow that a link leads to or filters by; the id of a run is none. */
const FLOW_OF_LINK = /(?:\/flows\/flows\/|flowId=)([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/;

function itemOf(found: Finding): AttentionItem {
  const { kind, severity = ATTENTION[kind], link, triggerKey = null } = found;
  const { flowId = FLOW_OF_LINK.exec(link)?.[1] ?? null } = found;
  return { ...found, severity, flowId, triggerKey };
}

/** If the store is unavailable, that is the answer. */
async function askStore(services: DashboardServices): Promise<Finding[]> {
  try {
    const [situation] = await Promise.all([situationOf(services), services.store.ping()]);
    return attentionTo(situation);
  } catch (error) {
    if (!(error instanceof StoreUnavailableError)) throw error;
    const message = 'The store is not writable. Deliveries get 503 until it is; the log says why';
    return [{ kind: 'store_unavailable', message, link: '/health/ready' }];
  }
}

async function situationOf(services: DashboardServices): Promise<Situation> {
  const { store, catalog, scheduler, triggers, clock, stepConcurrency: concurrency } = services;
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
    store.measureStorage(),
    listSecretWaits(services),
    store.countUnevaluated(since),
    store.reportOrders({ since }),
  ]);
  const slots = { ...waits, concurrency };
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
    lacking,
    unevaluated,
    orders,
    alertTargets,
  };
  return { now, flows: catalog.list(), triggers: triggers().list(), apart: triggers().apart(), ...known };
}

/** Deliveries that could not be stored have no record: only a counter of this process has them. */
async function notStored({ metrics }: DashboardServices): Promise<Finding[]> {
  const { values } = await metrics.webhookRejected.get();
  const count = values.reduce(
    (sum, { labels, value }) => (labels.reason === 'store_unavailable' ? sum + value : sum),
    0,
  );
  if (count === 0) return [];
  const message = `${count} deliveries got 503 since this process started because the store was unavailable`;
  return [{ kind: 'deliveries_not_stored', message, link: '/metrics' }];
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

/** The most severe first. */
export function attentionTo(situation: Situation): AttentionItem[] {
  const found: Finding[] = [
    ...alertsNotInForce(situation),
    ...failedRuns(situation),
    ...openCircuits(situation),
    ...slotWaits(situation),
    ...longSteps(situation),
    ...replicaItems(situation.replicas),
    ...deadReplicaItems(situation.dead),
    ...storageItems(situation.storage),
    ...schedules(situation),
    ...risingRefusals(situation),
    ...driftItems(situation.drifts),
    ...failedExpressions(situation),
    ...stoppedOrders(situation),
    ...keylessRuns(situation),
    ...disabledFlows(situation),
    ...heldDeliveries(situation),
    ...closedFlows(situation.flows),
    ...unreadableFlows(situation),
    ...situation.triggers.flatMap((trigger) => triggerItems(trigger, situation)),
    ...rotationConcerns(situation.keys),
  ];
  return found.map(itemOf).sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity));
}

/** A flow that its own manifest limits waits on purpose; the others make one item, because one setting frees them. */
function slotWaits({ slots, flows, now }: Situation): Finding[] {
  const item = (severity: Severity, waits: readonly SlotWait[], why: string) => {
    const most = waits.reduce((one, other) => (other.count > one.count ? other : one));
    const name = nameOf(most.flowId, flows);
    const of = waits.length === 1 ? name : `${waits.length} flows, most of them of ${name},`;
    const oldestMs = now - Math.min(...waits.map(({ oldestDueAt }) => oldestDueAt));
    const wait = `for over ${LONG_SLOT_WAIT_MS / 1000} s (the oldest for ${lasting(oldestMs)})`;
    return {
      kind: 'steps_waiting_for_slot' as const,
      severity,
      message: `${stepsWait(waits, of)} ${wait}: ${why}`,
      link: `/flows/runs?status=Running&flowId=${most.flowId}`,
    };
  };
  const held = slots.waits.flatMap((wait) => {
    if (wait.limit === null) return [];
    const { stepType, concurrency } = wait.limit;
    const what = stepType === null ? 'the flow' : `its ${stepType} steps`;
    const why = `its manifest limits ${what} to ${concurrency} at once, as intended; raise \`concurrency\` there if that is too slow`;
    return [item('info', [wait], why)];
  });
  const others = slots.waits.filter(({ limit }) => limit === null);
  if (others.length === 0) return held;
  // One cause, whichever flow has most of them.
  return [{ ...item('warning', others, whyNoSlot(slots)), flowId: null, about: 'all flows' }, ...held];
}

/** Compared with what is known of the step: a flow of long steps is left alone. */
function longSteps({ longSteps: all, flows, now }: Situation): Finding[] {
  return all.flatMap(({ flowId, runId, stepKey, startedAt, known, longestMs }): Finding[] => {
    if (known < LEAST_KNOWN || now - startedAt < longestMs * UNUSUAL_FACTOR) return [];
    const usual = `in the ${known} newest runs in which it succeeded it took at most ${lasting(longestMs)}`;
    const message = `The step ${stepKey} of ${nameOf(flowId, flows)} has been running longer than usual, for ${lasting(now - startedAt)}: ${usual}`;
    const link = `/flows/runs/${runId}?step=${encodeURIComponent(stepKey)}`;
    return [{ kind: 'step_running_long', message, link, flowId, about: stepKey }];
  });
}

function stepsWait(waits: readonly SlotWait[], flow: string): string {
  const count = waits.reduce((sum, each) => sum + each.count, 0);
  if (waits.some(({ isMore }) => isMore)) return `More than ${count} steps of ${flow} have waited for a slot`;
  return count === 1 ? `1 step of ${flow} has waited for a slot` : `${count} steps of ${flow} have waited for a slot`;
}

function whyNoSlot({ running, concurrency, alone }: Situation['slots']): string {
  if (alone !== null) {
    return `the step ${alone.stepKey} of the run ${alone.runId} runs alone, because it was running when the process died`;
  }
  const taken = `${running} of ${concurrency} slots are taken`;
  const kept = keptForIdle(concurrency);
  if (running >= (concurrency - kept) * TAKEN_SHARE) {
    const others =
      kept > 0 && running < concurrency ? `, and the last ${kept} are kept for flows that run no step` : '';
    return `${taken}${others}; raise SLUICE_STEP_CONCURRENCY`;
  }
  return `only ${taken}, so more slots would not help; check the log and the load of CPU and disk`;
}

const GIB = 1_073_741_824;

/** Below this a flood of deliveries or a long backup fills the disk before anybody comes. */
const LOW_DISK_BYTES = GIB;

/** A database of a million runs with small bodies takes 2 to 3 GiB. */
const LARGE_DATABASE_BYTES = 20 * GIB;

/** What is told of the disk is what can be asked: PostgreSQL does not tell how much of its disk is free. */
function storageItems({ fileBytes, walBytes, freeBytes }: StorageMeasure): Finding[] {
  const taken = fileBytes + (walBytes ?? 0);
  const link = '/metrics';
  const items: Finding[] = [];
  if (freeBytes !== null && freeBytes < LOW_DISK_BYTES) {
    const message = `The disk of the database has ${inGib(freeBytes)} left: when it is full, deliveries get 503. Make room, or keep runs for fewer days`;
    items.push({ kind: 'disk_low', message, link });
  } else if (freeBytes !== null && freeBytes < taken) {
    const message = `The disk of the database has ${inGib(freeBytes)} left and the database takes ${inGib(taken)}: a backup next to it does not fit`;
    items.push({ kind: 'disk_low', severity: 'warning', message, link });
  }
  if (taken > LARGE_DATABASE_BYTES) {
    const message = `The database takes ${inGib(taken)}; SLUICE_RUN_RETENTION_DAYS and SLUICE_DELIVERY_RETENTION_DAYS say how long it keeps runs and deliveries`;
    items.push({ kind: 'database_large', message, link });
  }
  return items;
}

const inGib = (bytes: number) => `${(bytes / GIB).toFixed(1)} GiB`;

function lasting(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}

function alertsNotInForce({ alertTargets, flows }: Situation): Finding[] {
  const flow = flows.find(({ record }) => record.id === ALERT_FLOW_ID);
  if (alertTargets === 0 || (flow !== undefined && startsRuns(flow.record))) return [];
  const closed = flow?.record.isEnabled === false ? 'disabled; enable it' : 'being drained; resume it';
  const why =
    flow === undefined ? 'the flow that tells them is not deployed' : `the flow ${flow.record.name} is ${closed}`;
  const message = `Nobody is told of anything, though SLUICE_ALERTS names targets: ${why}`;
  return [{ kind: 'alerts_not_in_force', message, link: `/flows/flows/${ALERT_FLOW_ID}` }];
}

function nameOf(flowId: string, flows: Situation['flows']): string {
  return flows.find(({ record }) => record.id === flowId)?.record.name ?? flowId;
}

function failedRuns({ ended, flows, now }: Situation): Finding[] {
  const failed = ended.filter(({ status }) => status === 'Failed' || status === 'TimedOut');
  return [...new Set(failed.map(({ flowId }) => flowId))].map((flowId) => {
    const count = failed.reduce((sum, each) => sum + (each.flowId === flowId ? each.count : 0), 0);
    const since = startOf(now, LOOK_BACK_HOURS);
    const link = `/flows/runs?status=Failed&flowId=${flowId}&since=${since}`;
    if (flowId === ALERT_FLOW_ID) {
      const message = `${count === 1 ? '1 alert was' : `${count} alerts were`} not delivered since ${since}`;
      return { kind: 'alerts_not_delivered', message, link };
    }
    const message = `${runs(count)} of ${nameOf(flowId, flows)} failed since ${since}`;
    return { kind: 'failed_runs', message, link };
  });
}

function runs(count: number): string {
  return count === 1 ? '1 run' : `${count} runs`;
}

function schedules({ schedules: all, now }: Situation): Finding[] {
  return all.flatMap((schedule): Finding[] => {
    const name = `${schedule.flowName}/${schedule.triggerKey}`;
    const { nextAt, lastAt, isPaused, isDraining, flowId, triggerKey } = schedule;
    const where = { link: '/flows/schedules', flowId, triggerKey };
    // A flow that is being drained misses its ticks on purpose.
    if (isDraining) return [];
    if (isPaused) {
      const missed = lastAt === null ? undefined : nextTicks(schedule, lastAt, 1)[0];
      if (missed === undefined || missed > now) {
        return [{ kind: 'schedule_paused', message: `The schedule ${name} is paused`, ...where }];
      }
      const message = `The schedule ${name} is paused and would have fired at ${iso(missed)}`;
      return [{ kind: 'schedule_paused', severity: 'warning', message, ...where }];
    }
    if (nextAt === null || nextAt >= now - OVERDUE_AFTER_MS) return [];
    const message = `The schedule ${name} was due at ${iso(nextAt)} and has not fired`;
    return [{ kind: 'schedule_overdue', message, ...where }];
  });
}

/** What happened to these deliveries, refused or not, in words. */
const WHAT_HAPPENED = {
  body_too_large: 'were larger than the limit',
  unknown_flow: 'were sent to a URL that no webhook has',
  flow_unreadable: 'were sent to a trigger that is not served and got 503',
  flow_disabled: 'were refused because the flow is disabled or draining',
  invalid_json: 'claim to be JSON but are not',
  ip_not_allowed: 'came from an address that is not on the allow list',
  ip_denied: 'came from an address on the deny list',
  unverified_rate_limited: 'exceeded the rate limit of their address',
  rate_limited: 'exceeded the rate limit',
  signature_missing: 'had no signature',
  signature_malformed: 'had a signature that does not have the format of the scheme',
  signature_mismatch: 'had a signature that does not match',
  key_not_configured: 'could not be verified because their trigger has no key',
  sha1_not_allowed: 'could not be verified because SHA-1 is turned off',
  verifier_error: 'could not be checked because a verifier or gate failed',
  verification_unavailable: 'could not be verified because the certificate of the publisher could not be fetched',
  timestamp_missing: 'had no timestamp',
  timestamp_malformed: 'had a timestamp that cannot be read',
  timestamp_skew: 'had a timestamp that is too old or too far in the future',
  body_schema: 'had a body that does not match the schema',
  idempotency_conflict: 'used an Idempotency-Key again, with another body',
  nonce_replayed: 'repeated one that was already accepted',
  store_unavailable: 'could not be stored and got 503',
} as const satisfies Record<Reason, string>;

/** What happens to a delivery for these is the same in every mode; the other reasons come from gates. */
const IN_EVERY_MODE: readonly Reason[] = [
  'body_too_large',
  'unknown_flow',
  'flow_unreadable',
  'flow_disabled',
  'invalid_json',
  'idempotency_conflict',
  'store_unavailable',
];

function risingRefusals({ deliveries, triggers, flows, now }: Situation): Finding[] {
  const since = startOf(now, RECENT_HOURS - 1);
  return countRefusals(deliveries).flatMap(({ flowId, triggerKey, reason, recent, before }): Finding[] => {
    const usual = Math.round((before / (LOOK_BACK_HOURS - RECENT_HOURS + 1)) * RECENT_HOURS);
    if (recent < RISING_COUNT || recent < usual * RISING_FACTOR) return [];
    const place = flowId === null ? '' : `${nameOf(flowId, flows)}${triggerKey === null ? '' : `/${triggerKey}`}`;
    const to = place === '' ? '' : ` to ${place}`;
    const found = triggers.find(({ trigger }) => trigger.flowId === flowId && trigger.triggerKey === triggerKey);
    const mode = IN_EVERY_MODE.includes(reason) ? undefined : found?.mode;
    const isChosen = mode !== undefined && mode !== 'Enforce';
    const passed = isChosen ? `; all were accepted, because its mode is ${mode}` : '';
    const ofFlow = flowId === null ? '' : `flowId=${flowId}&`;
    return [
      {
        kind: 'refusals_rising',
        ...(isChosen && { severity: 'info' }),
        message: `${recent} deliveries${to} ${WHAT_HAPPENED[reason]} (since ${since}; normally ${usual})${passed}`,
        link: `/flows/deliveries?${ofFlow}reason=${reason}&since=${since}`,
        flowId,
        triggerKey,
      },
    ];
  });
}

function failedExpressions({ unevaluated, flows, now }: Situation): Finding[] {
  return unevaluated.map(({ flowId, triggerKey, count }) => {
    const [deliveries, their] = count === 1 ? ['1 delivery', 'its run'] : [`${count} deliveries`, 'their runs'];
    const message =
      `An expression of the trigger ${nameOf(flowId, flows)}/${triggerKey} could not be evaluated for ${deliveries} ` +
      `(since ${iso(now - LOOK_BACK_HOURS * HOUR_MS)}): ${their} started all the same, and the records say why`;
    const link = `/flows/deliveries?flowId=${flowId}&outcome=unevaluated`;
    return { kind: 'expression_failed', message, link, triggerKey };
  });
}

function stoppedOrders({ orders, flows }: Situation): Finding[] {
  return orders.stopped.map(({ runId, flowId, key, waiting }) => {
    const of = key === null ? 'of runs without a key' : `“${printable(key)}”`;
    const waits = waiting === 0 ? 'the next one will wait' : `${counted(waiting, 'run')} wait`;
    const message =
      `A failed run of ${nameOf(flowId, flows)} holds the key ${of}, so no other run of it starts: ${waits}. ` +
      'Retry the run, or release its order';
    return { kind: 'order_stopped', message, link: `/flows/runs/${runId}`, flowId, about: runId };
  });
}

function keylessRuns({ orders, flows, now }: Situation): Finding[] {
  return orders.keyless.map(({ flowId, count, runId, problem }) => {
    const message =
      `${counted(count, 'run')} of ${nameOf(flowId, flows)} got no key from \`serialize\` ` +
      `(since ${iso(now - LOOK_BACK_HOURS * HOUR_MS)}), and all of them run one at a time. The newest: ${printable(problem)}`;
    return { kind: 'order_keyless', message, link: `/flows/runs/${runId}`, flowId, about: 'keyless' };
  });
}

const counted = (count: number, what: string) => (count === 1 ? `1 ${what}` : `${count} ${what}s`);

interface Refusals extends Pick<DeliveryCount, 'flowId' | 'triggerKey'> {
  readonly reason: Reason;
  recent: number;
  before: number;
}

/** For each trigger and reason; what belongs to no flow is counted for the reason alone. */
function countRefusals(deliveries: Situation['deliveries']): Refusals[] {
  const counted = new Map<string, Refusals>();
  for (const { flowId, triggerKey, reason, rejected, count, recent } of deliveries) {
    if (reason === null || !rejected) continue;
    const key = `${reason} ${flowId} ${triggerKey}`;
    const known = counted.get(key) ?? { flowId, triggerKey, reason, recent: 0, before: 0 };
    known.recent += recent;
    known.before += count - recent;
    counted.set(key, known);
  }
  return [...counted.values()];
}

function disabledFlows({ deliveries, flows, now }: Situation): Finding[] {
  return flows.flatMap(({ record }): Finding[] => {
    const count = deliveries.reduce(
      (sum, each) => sum + (each.flowId === record.id && each.reason === 'flow_disabled' ? each.count : 0),
      0,
    );
    if (record.isEnabled || count === 0) return [];
    const refused = count === 1 ? `1 delivery to ${record.name} was` : `${count} deliveries to ${record.name} were`;
    const since = startOf(now, LOOK_BACK_HOURS);
    const message = `${refused} refused because the flow is disabled (since ${since})`;
    const link = `/flows/deliveries?flowId=${record.id}&reason=flow_disabled&since=${since}`;
    return [{ kind: 'deliveries_to_disabled_flow', message, link }];
  });
}

/** Nothing starts or deletes them by itself. */
function heldDeliveries({ held: all, flows, now }: Situation): Finding[] {
  return all.map(({ flowId, held, oldestAt }) => {
    const count = held === 1 ? '1 accepted delivery' : `${held} accepted deliveries`;
    const message =
      `${count} of ${nameOf(flowId, flows)} ${held === 1 ? 'waits' : 'wait'} for the flow to be enabled or resumed, the oldest since ${iso(oldestAt)}; ` +
      'start their runs, or discard them with a reason';
    const link = `/flows/deliveries?flowId=${flowId}&outcome=held`;
    return { kind: oldestAt < now - LONG_HELD_MS ? 'deliveries_held_long' : 'deliveries_held', message, link };
  });
}

/** One for each manifest of the folder, for each other flow that lacks something, and for each trigger of the rest. */
function unreadableFlows({ flows, unreadable, lacking, apart }: Situation): Finding[] {
  const item = (message: string, link: string, about: Pick<Finding, 'flowId' | 'triggerKey' | 'about'> = {}) =>
    ({ kind: 'manifest_unreadable', message, link, ...about }) as const;
  const ofFolder = unreadable.map((manifest) => {
    const flow = flows.find(({ record }) => record.id === manifest.flowId);
    // The file tells two of them apart that have no page.
    const link =
      flow === undefined ? `/flows/flows#${encodeURIComponent(manifest.file)}` : `/flows/flows/${flow.record.id}`;
    return item(whatUnreadable(manifest, flow), link, { about: manifest.file });
  });
  const told = new Set(unreadable.map(({ flowId }) => flowId));
  const others = flows.flatMap(({ record: { id, name }, loaded }) => {
    if (loaded.unreadable !== undefined)
      return told.has(id) ? [] : [item(whatLacking(name, loaded.unreadable), `/flows/flows/${id}`)];
    return (loaded.unserved ?? []).map(({ triggerKey, why }) =>
      item(`${name}/${triggerKey} answers every delivery with 503: ${why}`, `/flows/flows/${id}`, { triggerKey }),
    );
  });
  // Of a revision that is no longer in force, too.
  const ofSteps = lacking.flatMap(({ flowId, runId, why }) => {
    const isTold = flows.find(({ record }) => record.id === flowId)?.loaded.unreadable !== undefined;
    return isTold
      ? []
      : [
          item(`Steps of ${nameOf(flowId, flows)} wait for a secret: ${why}`, `/flows/runs/${runId}`, {
            flowId,
            about: 'secret',
          }),
        ];
  });
  const ofSlugs = apart.map(({ slug, flowId, triggerKey, why }) =>
    item(`Every delivery to ${slug} gets 503: ${why}`, `/flows/flows/${flowId}`, { triggerKey, about: slug }),
  );
  return [...ofFolder, ...others, ...ofSteps, ...ofSlugs];
}

function triggerItems(prepared: PreparedTrigger, { now }: Situation): Finding[] {
  const { trigger, mode } = prepared;
  const { flowId, triggerKey } = trigger;
  const name = `${trigger.flowName}/${triggerKey}`;
  const where = { link: `/flows/flows/${flowId}`, flowId, triggerKey };
  const open = whyOpen(prepared);
  // A mode is chosen; that a trigger enforces and still verifies nothing may be a mistake.
  const severity: Severity = mode === 'Enforce' ? ATTENTION.trigger_not_enforced : 'info';
  return [
    ...(open === undefined
      ? []
      : [{ kind: 'trigger_not_enforced' as const, severity, message: `${name} ${open}`, ...where }]),
    ...presetConcerns(trigger.inputs, now).map(({ field, concern }) => ({
      kind: 'preset_doubtful' as const,
      message: `${name}: ${concern}`,
      ...where,
      about: field,
    })),
  ];
}

/** The problem of a trigger that does not refuse unverified deliveries; undefined if there is none. */
function whyOpen({ trigger, mode, schemeName, lacksKey, keySlot }: PreparedTrigger): string | undefined {
  const named = trigger.inputs.webhookSignatureScheme;
  const unsigned = named === undefined ? 'it checks no signature' : `its scheme "${named}" is unknown`;
  const lack = schemeName === null ? unsigned : lacksKey ? `it has ${missingKey(keySlot)}` : undefined;
  if (mode !== 'Enforce') {
    const more = lack === undefined ? '' : `, and ${lack}`;
    return `accepts every delivery, even if a gate fails, because its mode is ${mode}${more}`;
  }
  if (lack === undefined) return undefined;
  return schemeName === null ? `does not verify who sends its deliveries: ${lack}` : `refuses every delivery: ${lack}`;
}

/** The start of the hour so many hours ago: figures are counted by the hour. */
function startOf(now: number, hoursAgo: number): string {
  return iso((Math.floor(now / HOUR_MS) - hoursAgo) * HOUR_MS);
}

function iso(at: number): string {
  return new Date(at)
    .toISOString()
    .replace(/:00\.000Z$/, 'Z')
    .replace(/\.\d+Z$/, 'Z');
}

type Flows = readonly Pick<DeployedFlow, 'record' | 'loaded'>[];

/** Flows that other flows start, and that start no runs now: told before a run needs them. */
export function closedFlows(flows: Flows) {
  return [...closedFailureFlows(flows), ...closedSubFlows(flows)];
}

function closedFailureFlows(flows: Flows) {
  return flows.flatMap(({ record: { name }, loaded }) => {
    const { onFailure } = loaded.manifest;
    const target = flows.find(({ record }) => record.id === onFailure)?.record;
    if (onFailure === undefined || (target !== undefined && startsRuns(target))) return [];
    const state = target === undefined ? 'not deployed' : target.isEnabled ? 'draining' : 'disabled';
    const message = `If a run of ${name} fails, nothing starts: its failure flow ${target?.name ?? onFailure} is ${state}`;
    return [{ kind: 'failure_flow_closed' as const, message, link: `/flows/flows/${onFailure}`, about: name }];
  });
}

/** A flow that is drained is opened again soon, and what is in flight may still run it. */
function closedSubFlows(flows: Flows) {
  return flows.flatMap(({ record: { name }, loaded }) =>
    subFlowsOf(loaded.manifest.steps).flatMap((flowId) => {
      const target = flows.find(({ record }) => record.id === flowId)?.record;
      if (target?.isEnabled === true) return [];
      const state = target === undefined ? 'not deployed' : 'disabled';
      const message = `Runs of ${name} fail at steps that run ${target?.name ?? flowId}: that flow is ${state}`;
      return [{ kind: 'sub_flow_closed' as const, message, link: `/flows/flows/${flowId}`, about: name }];
    }),
  );
}
