import { z } from 'zod';
import { field } from '../../dashboard/answer.ts';
import {
  type AttentionItem,
  type Finding,
  LONG_SLOT_WAIT_MS,
  LOOK_BACK_HOURS,
  nameOf as nameOfFlow,
  RECENT_HOURS,
  type Situation,
  startOf,
} from '../../dashboard/attention/finding.ts';
import { route } from '../../dashboard/route.ts';
import { type ApiRoutes, type DashboardServices, type LookedAt, servicePart } from '../../dashboard/services.ts';
import { type Sight, sightOf } from '../../dashboard/sight.ts';
import { StoreUnavailableError } from '../../errors.ts';
import { ATTENTION, ATTENTION_KINDS, type AttentionKind, SEVERITIES, type Severity } from '../../model/attention.ts';
import { HOUR_MS } from '../../model/clock.ts';
import { ALERT_FLOW_ID } from '../../model/manifest.ts';
import type { attentionAttention } from './attention.ts';
import { closedFlows, triggerItems, unreadableFlows } from './flows.ts';

export const attentionSchema = z
  .object({
    // An own kind that no rule yields does not compile. `rulesFor` checks those of other features.
    kind: z.enum(ATTENTION_KINDS satisfies readonly Given[]),
    severity: z.enum(SEVERITIES),
    message: field.content(z.string()),
    link: z.string().describe('Path of the page that shows it.'),
    flowId: field.id().nullable().describe('The flow that it is about; null if it is about none, or several.'),
    triggerKey: z.string().nullable(),
  })
  .meta({ id: 'Attention' });

/** Lists what an operator should look at now. */
const attentionRoutes: ApiRoutes = (app, services) => {
  app.get(
    '/flows/api/attention',
    route('service', {
      operationId: 'listAttention',
      limit: 'filtered',
      summary: 'What needs attention, most severe first',
      answer: z.array(attentionSchema),
    }),
    async (request) => listAttention(services, sightOf(request, services)),
  );
};

/** The last list of each service, and when it was requested. */
const lastLists = new WeakMap<DashboardServices, { readonly at: number; readonly items: Promise<AttentionItem[]> }>();

/** The list for features that report it, and for readers limited to some flows. */
export function listAttention(services: DashboardServices, sight?: Sight): Promise<AttentionItem[]> {
  if (sight !== undefined) return readAttentionIn(sight, services);
  const items = readAttention(services);
  lastLists.set(services, { at: services.clock.monotonic(), items });
  return items;
}

/** The list, at most `ms` milliseconds old; all callers share the last one. */
function listAttentionSince(services: DashboardServices, ms: number): Promise<AttentionItem[]> {
  const last = lastLists.get(services);
  return last === undefined || services.clock.monotonic() - last.at >= ms ? listAttention(services) : last.items;
}

async function readAttention(services: DashboardServices): Promise<AttentionItem[]> {
  return [...(await notStored(services)).map(itemOf), ...(await askStore(services))];
}

/** Whether an item is about a flow that a reader can see, or about the database, without which all see nothing. */
const isInSight = (
  { kind, flowId, callerId }: Pick<AttentionItem, 'kind' | 'flowId' | 'callerId'>,
  sight: Pick<Sight, 'has'>,
) => kind === 'store_unavailable' || (sight.has(flowId) && (callerId === undefined || sight.has(callerId)));

async function readAttentionIn(sight: Sight, services: DashboardServices): Promise<AttentionItem[]> {
  const found = await askStore(services, (situation) => narrowed(situation, sight));
  return found.filter((item) => isInSight(item, sight));
}

const ASK_WHO_SEES_ALL = 'whoever sees all flows is told why';

/** Removes other flows that items name: flows that start another one, and flows that share something. */
function narrowed(situation: Situation, sight: Sight): Situation {
  return {
    ...situation,
    flows: situation.flows.filter(({ record }) => sight.has(record.id)),
    apart: situation.apart.map((each) => ({ ...each, why: ASK_WHO_SEES_ALL })),
    unreadable: situation.unreadable.map((each) => ({ ...each, why: ASK_WHO_SEES_ALL })),
  };
}

/** Finds the flow that a link leads to or filters by; does not match the id of a run. */
const FLOW_OF_LINK = /(?:\/flows\/flows\/|flowId=)([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/;

function itemOf(found: Finding): AttentionItem {
  const { kind, severity = ATTENTION[kind], link, triggerKey = null } = found;
  const { flowId = FLOW_OF_LINK.exec(link)?.[1] ?? null } = found;
  return { ...found, severity, flowId, triggerKey };
}

const storeAway = ({ message }: StoreUnavailableError) =>
  ({
    kind: 'store_unavailable',
    message: `The store is not writable: ${message}. Deliveries get 503 until it is`,
    link: '/health/ready',
  }) as const satisfies Finding;

/** If the store is unavailable, that is the answer. */
async function askStore(
  services: DashboardServices,
  narrow: (situation: Situation) => Situation = (whole) => whole,
): Promise<AttentionItem[]> {
  try {
    const [situation] = await Promise.all([readSituation(services), services.store.ping()]);
    return await attentionTo(narrow(situation), services);
  } catch (error) {
    if (!(error instanceof StoreUnavailableError)) throw error;
    return [itemOf(storeAway(error))];
  }
}

async function readSituation(services: DashboardServices): Promise<Situation> {
  const { store, catalog, triggers, clock, settings } = services;
  const now = clock.now();
  const since = now - LOOK_BACK_HOURS * HOUR_MS;
  const [ended, deliveries, waits, storage, lacking] = await Promise.all([
    store.countEndedRuns(since),
    store.countDeliveries({ since, recentSince: now - (RECENT_HOURS - 1) * HOUR_MS }),
    store.listSlotWaits({ now, dueBefore: now - LONG_SLOT_WAIT_MS }),
    store.measureStorage(),
    listSecretWaits(services),
  ]);
  return {
    now,
    since,
    flows: catalog.list(),
    triggers: triggers().list(),
    apart: triggers().apart(),
    unreadable: catalog.unreadable(),
    isServed: (slug) => triggers().find(slug) !== undefined,
    storage,
    ended,
    deliveries,
    slots: { ...waits, concurrency: settings.stepConcurrency },
    newKeys: services.keySets.listNew(),
    lacking,
  };
}

/** How many runs are examined for their flows. */
const SECRET_WAITS = 200;

async function listSecretWaits({
  store,
  clock,
}: Pick<DashboardServices, 'store' | 'clock'>): Promise<Situation['lacking']> {
  // A step that is due again is about to look.
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

/** Deliveries that could not be stored have no record: only a counter of this process has them. */
async function notStored({ metrics }: DashboardServices): Promise<Finding<'deliveries_not_stored'>[]> {
  const { values } = await metrics.webhookRejected.get();
  const count = values.reduce(
    (sum, { labels, value }) => (labels.reason === 'store_unavailable' ? sum + value : sum),
    0,
  );
  if (count === 0) return [];
  const why = 'the store was unavailable or a bound was full, as the log says of each';
  const message = `${count} deliveries got 503 since this process started: ${why}`;
  return [{ kind: 'deliveries_not_stored', message, link: '/metrics' }];
}

function failedRuns({ ended, flows, now }: Situation): Finding<'failed_runs' | 'alerts_not_delivered'>[] {
  const failed = ended.filter(({ status }) => status === 'Failed' || status === 'TimedOut');
  return [...new Set(failed.map(({ flowId }) => flowId))].map((flowId) => {
    const count = failed.reduce((sum, each) => sum + (each.flowId === flowId ? each.count : 0), 0);
    const since = startOf(now, LOOK_BACK_HOURS);
    const link = `/flows/runs?status=Failed&flowId=${flowId}&since=${since}`;
    if (flowId === ALERT_FLOW_ID) {
      const message = `${count === 1 ? '1 alert was' : `${count} alerts were`} not delivered in the last 24 hours`;
      return { kind: 'alerts_not_delivered', message, link };
    }
    const message = `${runs(count)} of ${nameOfFlow(flowId, flows)} failed in the last 24 hours`;
    return { kind: 'failed_runs', message, link };
  });
}

function runs(count: number): string {
  return count === 1 ? '1 run' : `${count} runs`;
}

/** Among items of one severity, those of an earlier rule come first, and those of the parts last. */
const RULES = [
  failedRuns,
  ({ flows }: Situation) => closedFlows(flows),
  unreadableFlows,
  (situation: Situation) => situation.triggers.flatMap((trigger) => triggerItems(trigger, situation)),
] as const satisfies readonly ((situation: Situation) => readonly Finding[])[];

type Rule = (typeof RULES)[number] | typeof notStored;
type Given =
  | Awaited<ReturnType<Rule>>[number]['kind']
  | ReturnType<typeof storeAway>['kind']
  | Exclude<AttentionKind, keyof typeof attentionAttention>;

/** Equal for findings of one kind about one trigger. */
const nameOf = (kind: AttentionKind, { flowId, triggerKey }: Pick<AttentionItem, 'flowId' | 'triggerKey'>) =>
  JSON.stringify([kind, flowId, triggerKey]);

/** Most severe first. */
export async function attentionTo(situation: Situation, services: DashboardServices): Promise<AttentionItem[]> {
  const own = RULES.flatMap((rule): readonly Finding[] => rule(situation));
  const ofParts = await Promise.all(services.parts.map(({ attention: find }) => find?.(situation, services) ?? []));
  const found = [...own, ...ofParts.flat()].map(itemOf);
  const replaced = new Set(found.flatMap((each) => (each.insteadOf === undefined ? [] : nameOf(each.insteadOf, each))));
  return found
    .filter((each) => !replaced.has(nameOf(each.kind, each)))
    .sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity));
}

/** Several queries; none of the rules needs to be reported sooner. */
const WATCHED_EVERY_MS = 5000;

/** The counts change with time alone, so they are sent each time. Readers ask again, or later if that fails. */
async function watchAttention(services: DashboardServices): Promise<LookedAt | undefined> {
  try {
    const items = await listAttentionSince(services, WATCHED_EVERY_MS);
    return { data: countsOf(items), dataIn: (sight) => countsOf(items.filter((item) => isInSight(item, sight))) };
  } catch (error) {
    services.logger.error({ err: error }, 'what needs attention could not be told');
    return undefined;
  }
}

function countsOf(items: readonly AttentionItem[]): LookedAt['data'] {
  const count = (severity: Severity) => items.filter((item) => item.severity === severity).length;
  return { errors: count('error'), warnings: count('warning') };
}

export const attention = servicePart({
  name: 'attention',
  routes: [attentionRoutes],
  watched: { type: 'attention.changed', everyMs: WATCHED_EVERY_MS, look: watchAttention },
});
