import { z } from 'zod';
import { field, isoTime, isoTimeOrNull, listOf, toList, unknownId } from '../../dashboard/answer.ts';
import { BUILT_IN, ID_PARAMS, IN_ORDER, isWithin, PAGING, parseJsonBody, SPAN } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import {
  type ApiRoutes,
  baseUrlOf,
  type DashboardApp,
  type DashboardServices,
  type LastArrival,
  servicePart,
} from '../../dashboard/services.ts';
import { flowsIn, type Sight, sees, sightOf } from '../../dashboard/sight.ts';
import { viewedFields, viewOf } from '../../dashboard/trigger-views.ts';
import type { DeployedFlow } from '../../flows/catalog.ts';
import { type ObjectsOfTrigger, TRIGGER_OBJECTS } from '../../manifest/webhook-fields.ts';
import { DAY_MS, HOUR_MS } from '../../model/clock.ts';
import { ALERT_FLOW_ID, type Edge, ENFORCEMENT_MODES, type Graph, TRIGGER_TYPES } from '../../model/manifest.ts';
import { sameTrigger } from '../../model/trigger-name.ts';
import type { DeliveryCount, FlowRecord, RunCount } from '../../store/store.ts';
import { commandHere } from '../../version.ts';
import type { Holding } from '../../webhooks/holding.ts';
import { missingKey, stateOf } from '../../webhooks/learned-keys.ts';
import { CAPTURED, GRADES } from '../../webhooks/schemes/spec.ts';
import { type PreparedTrigger, pathOfWebhook, type TriggerTable } from '../../webhooks/triggers.ts';
import { closingBody, findFlow, flowControlRoutes } from './flow-control.ts';
import { createFlowSwitch } from './flow-switch.ts';
import { flowsStore } from './store.ts';

const objectsWithEvents = (Object.keys(TRIGGER_OBJECTS) as (keyof ObjectsOfTrigger)[]).filter(
  (name) => TRIGGER_OBJECTS[name]?.eventId !== undefined,
);

const triggerSchema = z.object({
  key: z.string(),
  type: z.enum(TRIGGER_TYPES),
  enabled: z.boolean().describe('false where the manifest switches it off.'),
  slug: z.string().nullable().optional(),
  url: z.string().nullable().optional().describe('null if neither a slug nor the id of the flow leads to it.'),
  scheme: z.string().nullable().optional().describe('null if no signature is checked.'),
  grade: z
    .enum(GRADES)
    .nullable()
    .optional()
    .describe(
      'What an attacker can do with a captured delivery, based on what is signed; null if a verifier in code decides.',
    ),
  captured: z.string().nullable().optional().describe('The grade in words.'),
  eventId: z
    .object({
      expression: z.string(),
      by: z
        .enum(['scheme', 'trigger', ...objectsWithEvents])
        .describe('Whether the scheme names it, the trigger, or the log that it is reconciled with.'),
      days: field.integer().describe('For how long an event is known.'),
      unsigned: z.array(z.string()).nullable().describe('What it reads that is not signed; null if only code knows.'),
    })
    .nullable()
    .optional()
    .describe(
      'What names the event of a delivery: a second one of the same event starts no run. null if nothing does.',
    ),
  ...viewedFields,
  mode: z.enum(ENFORCEMENT_MODES).optional().describe('The mode in force.'),
  holdsDeliveries: z
    .boolean()
    .optional()
    .describe(
      'Whether deliveries are accepted, and run later, while the flow is disabled or drained; if not, they get 403.',
    ),
  sharedWith: z
    .array(z.object({ flowId: field.id(), triggerKey: z.string(), name: z.string() }))
    .optional()
    .describe('Triggers of other flows that get the deliveries of its slug too; absent if there are none.'),
  lastDeliveryAt: field
    .time()
    .nullable()
    .optional()
    .describe('When the last delivery came that passed every gate, known within a minute; null if none ever did.'),
  toCheck: z
    .array(z.string())
    .optional()
    .describe('What to check at the publisher, for a trigger that never got such a delivery.'),
  learnedKey: z
    .enum(['none', 'learned', 'unreadable'])
    .optional()
    .describe('Whether the publisher has sent its key; only for triggers that learn their key.'),
  sendCommand: z
    .string()
    .nullable()
    .optional()
    .describe(
      'Sends a signed sample delivery; null if the webhook has no address, or no key that the command can sign with.',
    ),
});

const runCountsSchema = z.object({
  running: field.integer().describe('In flight now.'),
  since: field
    .time()
    .describe('The counts below are of runs that ended since then: the last 24 hours, rounded up to a whole hour.'),
  succeeded: field.integer(),
  failed: field.integer().describe('Includes runs that timed out.'),
  cancelled: field.integer(),
  skipped: field.integer(),
});

const flowSchema = z
  .object({
    id: field.id(),
    name: z.string(),
    version: z.string(),
    revision: field.integer(),
    isEnabled: z.boolean(),
    builtIn: z.boolean().describe('The flow that sends alerts: lists leave it out unless it is asked for.'),
    createdAt: field.time(),
    updatedAt: field.time(),
    drainingSince: field
      .time()
      .nullable()
      .describe('When the drain of the flow began; null if it is not being drained.'),
    held: field.integer().describe('Accepted deliveries whose runs start once the flow is enabled or resumed.'),
    triggers: z
      .array(triggerSchema)
      .describe(
        'In manifest order; only webhooks have slug, url, scheme, grade, eventId, coalesce, reconcile, mode and sendCommand.',
      ),
    runs: runCountsSchema,
  })
  .meta({ id: 'Flow' });

const flowDetailSchema = flowSchema
  .extend({ manifest: field.declared().describe('The deployed revision, secrets masked.') })
  .meta({ id: 'FlowDetail' });

/** Answers of these operations. */
export interface FlowAnswers {
  readonly Flow: z.output<typeof flowSchema>;
  readonly FlowDetail: z.output<typeof flowDetailSchema>;
}

/** Lists deployed flows, and switches them on and off. */
const flowRoutes: ApiRoutes = (app, services) => {
  app.get(
    '/flows/api/flows',
    route('flows', {
      operationId: 'listFlows',
      limit: 'filtered',
      summary: 'Deployed flows, newest first',
      description: '`since` and `until` apply to `updatedAt`.',
      query: z.strictObject({ ...BUILT_IN, ...SPAN, ...PAGING }).refine(...IN_ORDER),
      answer: listOf(flowSchema),
    }),
    async (request) => {
      const { query } = request;
      const sight = sightOf(request, services);
      const flows = flowsIn(sight, services)
        .filter(({ record }) => query.includeBuiltIn || record.id !== ALERT_FLOW_ID)
        .filter(({ record }) => isWithin(record.updatedAt, query))
        .sort(newestFirst);
      const context = await viewContext(app, services, sight);
      const page = flows.slice(query.skip, query.skip + query.take);
      return toList(
        page.map((flow) => flowView(flow, context)),
        { total: flows.length },
        query,
      );
    },
  );

  app.get(
    '/flows/api/flows/:id',
    route('flows', {
      operationId: 'getFlow',
      limit: 'flow',
      summary: 'One flow with its manifest',
      params: ID_PARAMS,
      answer: flowDetailSchema,
      refusals: [404],
    }),
    async (request) => {
      const flow = findFlow(request.params.id, services);
      const context = await viewContext(app, services, sightOf(request, services));
      return { ...flowView(flow, context), manifest: flow.loaded.snapshot };
    },
  );

  app.get(
    '/flows/api/flows/:id/mermaid',
    route('flows', {
      operationId: 'getFlowMermaid',
      limit: 'flow',
      summary: 'The steps of a flow as a Mermaid flowchart',
      params: ID_PARAMS,
      answer: z.object({ mermaid: z.string() }),
      refusals: [404],
    }),
    async (request) => ({ mermaid: mermaidOf(findFlow(request.params.id, services).loaded.manifest.steps) }),
  );

  switchRoute(app, services, { verb: 'enable', isEnabled: true });
  switchRoute(app, services, { verb: 'disable', isEnabled: false });
};

/** Adds the route that enables or disables a flow; it is idempotent. */
function switchRoute(
  app: DashboardApp,
  services: DashboardServices,
  { verb, isEnabled }: { verb: 'enable' | 'disable'; isEnabled: boolean },
): void {
  app.post(
    `/flows/api/flows/:id/${verb}`,
    route('flows', {
      operationId: `${verb}Flow`,
      limit: 'flow',
      summary: isEnabled ? 'Lets a flow start runs again' : 'Stops a flow from starting runs; runs in flight continue',
      params: ID_PARAMS,
      ...(isEnabled ? {} : { command: [closingBody, { hold: true, reason: 'the shop is being moved' }] as const }),
      answer: flowSchema,
      refusals: [404],
    }),
    async (request) => {
      const flow = findFlow(request.params.id, services);
      const { hold } = isEnabled ? {} : parseJsonBody(request, closingBody);
      const record = await createFlowSwitch(services).setEnabled(flow.record.id, isEnabled, hold);
      if (record === undefined) throw unknownId('flow', flow.record.id);
      return flowView({ ...flow, record }, await viewContext(app, services, sightOf(request, services)));
    },
  );
}

// Flows deployed at the same start are equally old and are sorted by name.
function newestFirst({ record: a }: DeployedFlow, { record: b }: DeployedFlow): number {
  return b.createdAt - a.createdAt || a.name.localeCompare(b.name, 'en');
}

/** Input of a view besides the flow: `baseUrl` is the address that publishers call. */
interface FlowViewContext {
  readonly baseUrl: string;
  readonly triggers: TriggerTable;
  /** The flows that the answer can show; all if undefined. */
  readonly sight: Sight | undefined;
  readonly runs: RunCounts;
  readonly holding: Pick<Holding, 'counts' | 'takes'>;
  readonly arrivals: readonly LastArrival[];
  /** Deliveries of the last hours. */
  readonly deliveries: readonly DeliveryCount[];
}

/** Stored runs, and runs that ended since a time. */
interface RunCounts {
  readonly kept: readonly RunCount[];
  readonly ended: readonly RunCount[];
  readonly since: number;
}

async function viewContext(
  app: DashboardApp,
  services: DashboardServices,
  sight: Sight | undefined,
): Promise<FlowViewContext> {
  const { store, clock, holding } = services;
  const since = Math.floor((clock.now() - DAY_MS) / HOUR_MS) * HOUR_MS;
  const [kept, ended, arrivals, deliveries] = await Promise.all([
    store.of(flowsStore).countRuns(),
    store.countEndedRuns(since),
    Promise.all(services.parts.map((part) => part.arrivals?.(services) ?? [])),
    store.countDeliveries({ since, recentSince: since }),
  ]);
  return {
    triggers: services.triggers(),
    sight,
    holding,
    baseUrl: baseUrlOf(app, services),
    runs: { kept, ended, since },
    arrivals: arrivals.flat(),
    deliveries,
  };
}

function flowView({ record, loaded }: DeployedFlow, context: FlowViewContext): z.output<typeof flowSchema> {
  return {
    id: record.id,
    name: record.name,
    version: record.version,
    revision: record.revision,
    isEnabled: record.isEnabled,
    builtIn: record.id === ALERT_FLOW_ID,
    createdAt: isoTime(record.createdAt),
    updatedAt: isoTime(record.updatedAt),
    drainingSince: isoTimeOrNull(record.drainingSince ?? null),
    held: context.holding.counts.get(record.id) ?? 0,
    triggers: Object.entries(loaded.manifest.triggers).map(([key, { type, enabled = true }]) => ({
      key,
      type,
      enabled,
      ...(type === 'webhook' && webhookView(record, key, context)),
    })),
    runs: runCountsView(record.id, context.runs),
  };
}

function runCountsView(flowId: string, { kept, ended, since }: RunCounts): z.output<typeof runCountsSchema> {
  const own = (counts: readonly RunCount[]) => counts.filter((each) => each.flowId === flowId);
  return {
    running: sumOf(own(kept), 'Running'),
    since: isoTime(since),
    succeeded: sumOf(own(ended), 'Succeeded'),
    failed: sumOf(own(ended), 'Failed', 'TimedOut'),
    cancelled: sumOf(own(ended), 'Cancelled'),
    skipped: sumOf(own(ended), 'Skipped'),
  };
}

/** The text for the grade; the trigger decides whether a retry with a new signature is recognizable. */
function capturedOf({ grade, eventIdentity, trigger: { inputs } }: PreparedTrigger): string | null {
  if (grade === null) return null;
  const isTold = grade !== 'B' || eventIdentity !== undefined || inputs.webhookNonceHeader !== undefined;
  return isTold ? CAPTURED[grade] : `${CAPTURED[grade]} A retry with a new signature counts as a new delivery.`;
}

/**
 * Reads the prepared trigger that answers deliveries, so that the view shows what the service does, not what the
 * manifest intended.
 */
function webhookView(record: FlowRecord, triggerKey: string, context: FlowViewContext) {
  const { baseUrl, triggers } = context;
  const { id: flowId } = record;
  const isThis = ({ trigger }: PreparedTrigger) => sameTrigger(trigger, { flowId, triggerKey });
  const prepared = triggers.list().find(isThis);
  if (prepared === undefined) return undefined;
  const slug = prepared.trigger.inputs.webhookSlug ?? null;
  const path = pathOfWebhook(prepared, triggers);
  return {
    slug,
    url: path === null ? null : `${baseUrl}${path}`,
    scheme: prepared.schemeName,
    grade: prepared.grade,
    captured: capturedOf(prepared),
    eventId: eventIdView(prepared),
    ...viewOf(prepared),
    mode: prepared.mode,
    holdsDeliveries: context.holding.takes(prepared, record),
    ...sharedWith(prepared, context),
    ...arrivalView(prepared, path === null ? null : `${baseUrl}${path}`, context),
    ...(prepared.keySlot?.isInUse === true && { learnedKey: stateOf(prepared.keySlot) }),
    sendCommand: path === null || !prepared.canBeSigned ? null : sendCommand(slug ?? flowId, baseUrl),
  };
}

/** Triggers of other flows that get the same deliveries. */
function sharedWith({ trigger: { flowId, inputs } }: PreparedTrigger, { triggers, sight }: FlowViewContext) {
  const found = inputs.webhookSlug === undefined ? [] : triggers.findAll(inputs.webhookSlug);
  const others = found.flatMap(({ trigger: other }) =>
    other.flowId === flowId || !sees(sight, other.flowId)
      ? []
      : [{ flowId: other.flowId, triggerKey: other.triggerKey, name: other.flowName }],
  );
  return others.length === 0 ? {} : { sharedWith: others };
}

/** A new delivery is counted before it appears among the arrivals. */
function arrivalView(prepared: PreparedTrigger, url: string | null, { arrivals, deliveries }: FlowViewContext) {
  const { trigger } = prepared;
  const lastAt = arrivals.find((each) => sameTrigger(each, trigger))?.lastAt ?? null;
  if (lastAt !== null) return { lastDeliveryAt: isoTime(lastAt) };
  const own = deliveries.filter((each) => sameTrigger(each, trigger));
  if (own.some(({ rejected }) => !rejected)) return {};
  const refused = own.reduce((sum, { count }) => sum + count, 0);
  return { lastDeliveryAt: null, toCheck: whatToCheck(prepared, { url, refused }) };
}

/** Checks in the order of likely causes for missing deliveries. */
function whatToCheck(
  { schemeName, lacksKey, keySlot }: PreparedTrigger,
  { url, refused }: { readonly url: string | null; readonly refused: number },
): string[] {
  const isLocal = url !== null && /^https?:\/\/(localhost|127\.|\[::1\]|0\.0\.0\.0)/.test(url);
  return [
    ...(refused === 0
      ? []
      : [
          `${refused === 1 ? '1 delivery' : `${refused} deliveries`} came in the last 24 hours and failed a gate: open them to see which.`,
        ]),
    ...(url === null ? ['The trigger has no address: give it a webhookSlug.'] : []),
    ...(isLocal
      ? ['This address leads nowhere from outside: set SLUICE_PUBLIC_URL to what publishers can reach.']
      : []),
    ...(url === null ? [] : [`The webhook at the publisher is on, sends POST and has exactly this address: ${url}`]),
    ...(schemeName === null
      ? []
      : lacksKey
        ? [`Nothing can be verified: the trigger has ${missingKey(keySlot)}.`]
        : [`The secret at the publisher is the one of this trigger; it signs as ${schemeName}.`]),
    'The kinds of events that you need are selected there, and one has happened since: most publishers can send a test.',
    'The publisher’s own log of deliveries says what became of its attempts. None means that it sends nothing; an error of connection, TLS or DNS means that it does not reach this service.',
  ];
}

function eventIdView({ eventIdentity }: PreparedTrigger) {
  if (eventIdentity === undefined) return null;
  const { expression, by, days, unsigned } = eventIdentity;
  return { expression, by, days, unsigned: unsigned === undefined ? null : [...unsigned] };
}

/** Quotes words that a shell would interpret. */
function sendCommand(path: string, baseUrl: string): string {
  const quoted = (word: string) => (/^[\w.:/@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
  return `${commandHere()} send ${quoted(path)} --to ${quoted(baseUrl)}`;
}

/** Node ids are the steps' numbers: a step key can be a word that Mermaid reserves, such as `end`. */
function mermaidOf(graph: Graph): string {
  return ['flowchart TD', ...linesOf(graph, 'n', '  ')].join('\n');
}

function linesOf(graph: Graph, prefix: string, indent: string): string[] {
  const keys = Object.keys(graph);
  const idOf = (key: string) => `${prefix}${keys.indexOf(key)}`;
  return Object.entries(graph).flatMap(([key, { type, runAfter, steps }]) => {
    const label = `"${text(key)}<br/>${text(type)}"`;
    const node =
      steps === undefined
        ? [`${indent}${idOf(key)}[${label}]`]
        : [
            `${indent}subgraph ${idOf(key)}[${label}]`,
            ...linesOf(steps, `${idOf(key)}_`, `${indent}  `),
            `${indent}end`,
          ];
    const edges = Object.entries(runAfter).map(
      ([upstream, edge]) => `${indent}${idOf(upstream)} -->${labelOf(edge)} ${idOf(key)}`,
    );
    return [...node, ...edges];
  });
}

function labelOf({ statuses, when }: Edge): string {
  const isPlain = statuses.length === 1 && statuses[0] === 'Succeeded';
  const parts = [...(isPlain ? [] : [statuses.join(' or ')]), ...(when === undefined ? [] : [`when ${when}`])];
  return parts.length === 0 ? '' : `|"${text(parts.join(', '))}"|`;
}

/** Escapes characters by code, in Mermaid's own syntax. */
function text(raw: string): string {
  return raw.replace(/[^\w .,()/=+-]/g, (character) => `#${character.codePointAt(0)};`);
}

export function sumOf(counts: readonly RunCount[], ...statuses: RunCount['status'][]): number {
  return counts.reduce((sum, { status, count }) => (statuses.includes(status) ? sum + count : sum), 0);
}

export const flows = servicePart({
  name: 'flows',
  routes: [flowRoutes, flowControlRoutes],
});
