import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { type Catalog, type DeployedFlow, startsRuns } from '../flows/catalog.ts';
import type { LoadedFlow, NamedManifest, UnservedTrigger } from '../manifest/load.ts';
import { coalescingOf, signalsOf } from '../manifest/trigger-objects.ts';
import { handshakesOfFields } from '../manifest/webhook-fields.ts';
import type { WebhookTrigger } from '../manifest/webhook-inputs.ts';
import { LARGEST_BODY_BYTES } from '../model/content.ts';
import type { Delivery } from '../model/delivery.ts';
import { asInert } from '../model/inert-content.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import type { FlowRecord, JudgedBy, KeyRole } from '../store/store.ts';
import { logEvent } from '../telemetry/events.ts';
import type { PreparedKeys } from './delivery-reader.ts';
import type { Gate } from './gate.ts';
import { type GatePreparer, gateNames } from './gates/index.ts';
import { type NameDelivery, prepareNames } from './gates/replay.ts';
import { calledUrl } from './gates/signature.ts';
import { headersRead } from './headers.ts';
import { type KeepBody, prepareKeptBody, readsContent } from './kept-body.ts';
import type { NamedKey, NameKey } from './key-names.ts';
import { keysInForce } from './keys-in-force.ts';
import { keySlot } from './learned-keys.ts';
import { prepareKeys } from './reading.ts';
import type { AcceptedResponse, Handshake } from './schemes/handshake.ts';
import { gradeOf, hasPart } from './schemes/layout.ts';
import { handshakesOf, namedScheme, type ResolvedScheme } from './schemes/resolve.ts';
import { signsWithSameKey } from './schemes/sign.ts';
import { GRADES, type Grade } from './schemes/spec.ts';
import { isSharedSecret } from './schemes/standards/sign.ts';
import { documentOf } from './schemes/values.ts';
import { isAnsweredByRun, knowledgeOf, sharingBy, type WhyApart } from './sharing.ts';
import {
  type EventIdentity,
  eventIdentityOf,
  type JudgeByExpressions,
  prepareExpressions,
} from './trigger-expressions.ts';

/** A webhook trigger of the deployed revision, ready to judge deliveries. */
export interface PreparedTrigger {
  readonly trigger: WebhookTrigger;
  readonly flow: DeployedFlow;
  readonly gates: readonly Gate[];
  /** Names of all gates, configured or not, in the order in which they judge this trigger's deliveries. */
  readonly chain: readonly string[];
  readonly mode: EnforcementMode;
  readonly nameDelivery: NameDelivery;
  /** Canonical name of the scheme that verifies; null if there is no signature gate. */
  readonly schemeName: string | null;
  /** What a captured delivery can be used for, from A to F; null if only a verifier's code knows. */
  readonly grade: Grade | null;
  /** The configured keys, or else the learned one; each read gives the current state. */
  readonly keys: WebhookTrigger['keys'];
  /** A current key: by its role, or one of the others in force by its index. Undefined if there is none. */
  readonly namedKey: (role: KeyRole, other?: number) => TriggerKey | undefined;
  /** Absent if the publisher does not hand over a key. */
  readonly keySlot: ReturnType<typeof keySlot>;
  /** The scheme verifies with a key, and the trigger has none now: nothing can be verified. */
  readonly lacksKey: boolean;
  /** `sluice send` can sign its deliveries with the keys that the trigger has now. */
  readonly canBeSigned: boolean;
  readonly handshakes: readonly Handshake[];
  /** The URL that the publisher was given, as far as the service knows it. */
  readonly endpointOf: (delivery: Pick<Delivery, 'path' | 'requestUrl'>) => string;
  /** Calls a URL that completes a handshake; absent if no URLs are called. */
  readonly visit: ((url: string) => Promise<unknown>) | undefined;
  readonly headersRead: ReturnType<typeof headersRead>;
  /** Absent if the whole body is kept, and flows read it as it came. */
  readonly keepBody: KeepBody | undefined;
  /** Whether the gates judge the content of an encoded body instead of its bytes. */
  readonly readsContent: boolean;
  /** Limit for a body, and for the content of an encoded body. */
  readonly maxBodyBytes: number;
  /** The body's field that holds the document for the flow; undefined if the flow reads the body itself. */
  readonly documentIn: (headers: Delivery['headers']) => string | undefined;
  /** Whether a delivery's signature may cover its query. */
  readonly mayReadQuery: boolean;
  /** The answer that the trigger or its publisher wants instead of the ids; undefined for the ids. */
  readonly acceptedResponse: AcceptedResponse | undefined;
  /** Whether the sender waits for an answer from the run. */
  readonly isAnsweredByRun: boolean;
  /** The steps that its deliveries answer; undefined if they start runs. */
  readonly signals: ReturnType<typeof signalsOf>;
  /** How its deliveries share runs; undefined if each has its own. */
  readonly coalescing: ReturnType<typeof coalescingOf>;
  /** Absent if it has no expressions that decide about a delivery. */
  readonly judgeByExpressions: JudgeByExpressions | undefined;
  /** Absent if repeated deliveries of an event are not recognised. */
  readonly eventIdentity: EventIdentity | undefined;
  /** Absent if its deliveries have no search keys. */
  readonly searchKeys: PreparedKeys | undefined;
}

/** A key of a trigger with its name in the figures; without a name if no figures are kept. */
interface TriggerKey extends NamedKey {
  readonly name: string | undefined;
}

export interface TriggerTable {
  /** By slug or by the flow's GUID, in any case; a GUID means the flow's first webhook trigger in manifest order. */
  find(idOrSlug: string): PreparedTrigger | undefined;
  /** All triggers that get deliveries to this name, in the order of their flow ids; several if they share the slug. */
  findAll(idOrSlug: string): readonly PreparedTrigger[];
  /** The trigger that `find` would find if it were served here. */
  findUnserved(idOrSlug: string): UnservedAddress | undefined;
  /** Flow by flow, in manifest order. */
  list(): readonly PreparedTrigger[];
  /** What is known of flows when a delivery to a name is judged: the own flow's record, and others' revisions. */
  judgedBy(name: string): (own: FlowRecord) => JudgedBy;
  /** Triggers that have one slug but are not allowed to, or no longer. */
  apart(): readonly ApartTriggers[];
}

/** A trigger of the deployed revision, or of a manifest that cannot be deployed, that is not served here. */
export interface UnservedAddress extends UnservedTrigger {
  /** Null if the manifest does not say it. */
  readonly flowId: string | null;
}

/** The first of the triggers that have one slug but are not allowed to, or no longer. */
interface ApartTriggers extends UnservedAddress {
  readonly flowId: string;
  readonly slug: string;
}

interface TriggerTableOptions {
  readonly flows: readonly DeployedFlow[];
  readonly preparer: GatePreparer;
  /** The mode of triggers that set none. */
  readonly defaultMode: EnforcementMode;
  /** Manifests that cannot be deployed: their names that lead to no other trigger count as not served. */
  readonly unreadable?: (() => readonly (NamedManifest & { readonly why: string })[]) | undefined;
}

/**
 * Lists the webhook triggers of all flows. Two that may not have the same name are both not served by it, since neither
 * may get the other's deliveries. Throws `GateConfigurationError` if the fields of one make no sense.
 */
export function createTriggerTable({ flows, ...options }: TriggerTableOptions): TriggerTable {
  return tableOf(flows, preparerOf(options), options);
}

/** Prepares the triggers of a flow once per deploy: the catalog keeps the objects of flows that did not change. */
function preparerOf(options: Omit<TriggerTableOptions, 'flows'>) {
  const prepared = new WeakMap<DeployedFlow, readonly PreparedTrigger[]>();
  return (flow: DeployedFlow): readonly PreparedTrigger[] => {
    const triggers = prepared.get(flow) ?? servedOf(flow.loaded).map((trigger) => prepare(flow, trigger, options));
    prepared.set(flow, triggers);
    return triggers;
  };
}

function tableOf(
  flows: readonly DeployedFlow[],
  triggersOf: ReturnType<typeof preparerOf>,
  { preparer, defaultMode, unreadable = () => [] }: Omit<TriggerTableOptions, 'flows'>,
): TriggerTable {
  const byFlow = flows.map(triggersOf);
  const byName = new Map<string, readonly PreparedTrigger[]>();
  const unserved = new Map<string, UnservedAddress>();
  for (const flow of flows) {
    for (const lost of unservedOf(flow.loaded)) {
      const address = { ...lost, flowId: flow.record.id };
      if (lost.slug !== undefined) unserved.set(lost.slug.toLowerCase(), address);
      if (isFirstWebhook(lost.triggerKey, flow)) unserved.set(address.flowId.toLowerCase(), address);
    }
  }
  for (const [index, flow] of flows.entries()) {
    const first = byFlow[index]?.[0];
    // The flow's id leads to its first webhook only, which may have lost its slug: a later one may have weaker gates.
    if (first === undefined || !isFirstWebhook(first.trigger.triggerKey, flow)) continue;
    const { flowId } = first.trigger;
    if (!unserved.has(flowId.toLowerCase())) byName.set(flowId.toLowerCase(), [first]);
  }
  const triggers = byFlow.flat();
  const apart: ApartTriggers[] = [];
  const whyApart = sharingBy({ preparer, defaultMode });
  for (const [slug, sharing] of bySlug(triggers)) {
    const lacking = unserved.get(slug);
    // Otherwise a delivery would be accepted, and lost to the trigger that is not served.
    if (lacking !== undefined && sharing.every(isShared)) continue;
    const why = byName.has(slug) ? 'the slug is the id of a flow' : whyNotTogether(sharing, whyApart);
    if (why === undefined) byName.set(slug, sharing);
    else
      apart.push(
        ...sharing.slice(0, 1).map(({ trigger: { flowId, triggerKey } }) => ({ flowId, triggerKey, slug, why })),
      );
  }
  for (const address of apart) unserved.set(address.slug, address);
  for (const { flowId = null, webhooks, why } of unreadable()) {
    for (const [index, { triggerKey, slug }] of webhooks.entries()) {
      for (const name of [slug, index === 0 ? flowId : undefined]) {
        const key = name?.toLowerCase();
        if (key === undefined || byName.has(key) || unserved.has(key)) continue;
        unserved.set(key, { flowId, triggerKey, slug, why });
      }
    }
  }
  const inForce = triggers.map(({ trigger }) => trigger);
  preparer.inForce(inForce);
  return {
    find: (idOrSlug) => byName.get(idOrSlug.toLowerCase())?.[0],
    findAll: (idOrSlug) => byName.get(idOrSlug.toLowerCase()) ?? [],
    findUnserved: (idOrSlug) => unserved.get(idOrSlug.toLowerCase()),
    list: () => triggers,
    judgedBy: knowledgeOf(flows),
    apart: () => apart,
  };
}

function servedOf({ webhooks, unreadable }: LoadedFlow): readonly WebhookTrigger[] {
  return unreadable === undefined ? webhooks : [];
}

/** Webhook triggers of a flow that are not served here: all of them if the flow cannot work. */
export function unservedOf({ webhooks, unserved = [], unreadable: why }: LoadedFlow): readonly UnservedTrigger[] {
  if (why === undefined) return unserved;
  const lost = webhooks.map(({ triggerKey, inputs }) => ({ triggerKey, slug: inputs.webhookSlug, why }));
  return [...lost, ...unserved];
}

/** The table of the flows that are deployed now. */
export interface TriggersInForce {
  /** A delivery keeps the table that it began with. */
  current(): TriggerTable;
  /** Rebuilds the table after flows were deployed, and calls the listeners. */
  renew(): void;
  /** Yields a function that removes the listener. */
  onRenewed(listener: () => void): () => void;
}

export function createTriggersInForce({
  catalog,
  logger,
  ...options
}: Omit<TriggerTableOptions, 'flows'> & { catalog: Pick<Catalog, 'list'>; logger: Logger }): TriggersInForce {
  const triggersOf = preparerOf(options);
  const makeTable = () => tableOf(catalog.list(), triggersOf, options);
  const announceConflicts = conflictAnnouncer(logger);
  const listeners = new Set<() => void>();
  let table = makeTable();
  return {
    current: () => table,
    renew() {
      try {
        table = makeTable();
      } catch (error) {
        // Deliveries keep going to the previous triggers: better than to none, and never to those of another flow.
        logger.error(
          { err: error },
          'the triggers of the deployed flows cannot be prepared; keeping the previous ones',
        );
        return;
      }
      announceConflicts(table);
      for (const { slug, why, flowId } of table.apart()) logger.error({ flowId, slug }, `deliveries get 503: ${why}`);
      for (const listener of listeners) listener();
    },
    onRenewed(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** Logs once per flow that a legacy key is ignored: this matters equally for the first and the last delivery. */
function conflictAnnouncer(logger: Logger): (triggers: TriggerTable) => void {
  const announced = new Set<string>();
  return (triggers) => {
    for (const { trigger } of triggers.list()) {
      if (!trigger.hasConflictingKeys || announced.has(trigger.flowId)) continue;
      announced.add(trigger.flowId);
      const { flowId, triggerKey } = trigger;
      logEvent(logger, 'WebhookConflictingKeyFields', { flowId, triggerKey });
    }
  };
}

/** The path that publishers send to, below the base URL; null if neither a slug nor the flow's id leads to it. */
export function pathOfWebhook({ trigger }: PreparedTrigger, triggers: Pick<TriggerTable, 'find'>): string | null {
  const isReached = triggers.find(trigger.flowId)?.trigger === trigger;
  const name = trigger.inputs.webhookSlug ?? (isReached ? trigger.flowId : undefined);
  return name === undefined ? null : `/flows/api/webhook/${encodeURIComponent(name)}`;
}

/** Whether the verdicts of one hold for the other: both are the same trigger, with the same fields and keys. */
export function hasSameGates(one: PreparedTrigger, other: PreparedTrigger): boolean {
  const [ours, theirs] = [one, other].map(({ trigger: { flowName, ...rest }, mode }) => ({ ...rest, mode }));
  return one === other || isDeepStrictEqual(ours, theirs);
}

/** Whether its deliveries start runs now, or answer runs, which they also do while the flow drains. */
export function isOpen({ trigger, signals }: PreparedTrigger, flow: FlowRecord): boolean {
  return trigger.isOff !== true && (signals === undefined ? startsRuns(flow) : flow.isEnabled);
}

function isFirstWebhook(triggerKey: string, { loaded }: DeployedFlow): boolean {
  return Object.entries(loaded.manifest.triggers).find(([, { type }]) => type === 'webhook')?.[0] === triggerKey;
}

const isShared = ({ trigger }: PreparedTrigger) => trigger.inputs.webhookShared === true;

/** The triggers of each slug, in the same order in every service, regardless of the order of deploys. */
function bySlug(triggers: readonly PreparedTrigger[]): Map<string, PreparedTrigger[]> {
  const slugs = new Map<string, PreparedTrigger[]>();
  for (const prepared of triggers) {
    const slug = prepared.trigger.inputs.webhookSlug?.toLowerCase();
    if (slug !== undefined) slugs.set(slug, [...(slugs.get(slug) ?? []), prepared]);
  }
  for (const sharing of slugs.values())
    sharing.sort((one, other) => (one.trigger.flowId < other.trigger.flowId ? -1 : 1));
  return slugs;
}

/**
 * Why triggers that have one slug are not served now: their keys, which are read again, may differ since the deploy,
 * and a delivery that passes the gates of one must not start runs of another.
 */
function whyNotTogether(sharing: readonly PreparedTrigger[], whyApart: WhyApart): string | undefined {
  for (const [index, { trigger }] of sharing.entries()) {
    for (const other of sharing.slice(index + 1)) {
      const why = whyApart(trigger, other.trigger);
      if (why !== undefined) return `the slug ${why}; the triggers are ${sharing.map(nameOf).join(' and ')}`;
    }
  }
  return undefined;
}

const nameOf = ({ trigger: { flowName, triggerKey } }: PreparedTrigger) => `${flowName}/${triggerKey}`;

function prepare(
  flow: DeployedFlow,
  trigger: WebhookTrigger,
  { preparer, defaultMode }: Omit<TriggerTableOptions, 'flows'>,
): PreparedTrigger {
  const { chain, settings } = preparer;
  const { inputs, keys: own } = trigger;
  const { scheme: resolved, gates, mistakes } = preparer.prepare(trigger);
  if (mistakes[0] !== undefined) throw mistakes[0];
  const scheme = resolved && namedScheme(resolved);
  const keys = () => (scheme === undefined ? trigger.keys : keysInForce(trigger, scheme, settings.learnedKeys));
  const textOf = (role: KeyRole, at?: number) => (at === undefined ? own[role] : own.others?.[at]) ?? keys()[role];
  return {
    trigger,
    flow,
    gates,
    chain: gateNames(chain, trigger),
    mode: inputs.webhookEnforcementMode ?? defaultMode,
    nameDelivery: prepareNames(trigger, settings),
    schemeName: scheme?.name ?? null,
    grade: gradeOfScheme(resolved),
    get keys() {
      return keys();
    },
    namedKey: namedKeys(textOf, resolved, settings.nameKey),
    keySlot: keySlot(trigger, scheme, settings.learnedKeys),
    get lacksKey() {
      return resolved !== undefined && needsKey(resolved) && keys().current === undefined;
    },
    get canBeSigned() {
      const { current } = keys();
      if (resolved === undefined || resolved.kind === 'verifier') return resolved === undefined;
      if (resolved.kind === 'standard') return current !== undefined && isSharedSecret(resolved.standard, current);
      return signsWithSameKey(resolved.spec) && current !== undefined;
    },
    handshakes: [...handshakesOf(resolved), ...handshakesOfFields.flatMap((own) => own(inputs))],
    endpointOf: (delivery) => {
      const called = { configuredUrl: inputs.webhookPublicUrl, baseUrl: settings.publicUrl, ...delivery };
      const { url, sentQuery } = calledUrl(called);
      return url.slice(0, url.length - sentQuery.length);
    },
    visit: settings.visit,
    headersRead: headersRead(resolved, inputs, flow.loaded.manifest.steps),
    keepBody: prepareKeptBody(resolved),
    readsContent: readsContent(resolved),
    documentIn: (headers) => (resolved?.kind === 'spec' ? documentOf(resolved.spec.document, headers) : undefined),
    maxBodyBytes: settings.maxBodyBytes ?? LARGEST_BODY_BYTES,
    mayReadQuery: mayReadQuery(resolved),
    isAnsweredByRun: isAnsweredByRun(inputs),
    signals: signalsOf(trigger),
    coalescing: coalescingOf(trigger),
    // A revision may have been stored before active content types were refused.
    acceptedResponse: inputs.webhookResponse === undefined ? scheme?.acceptedResponse : asInert(inputs.webhookResponse),
    judgeByExpressions: prepareExpressions(trigger, resolved),
    eventIdentity: eventIdentityOf(trigger, resolved),
    searchKeys: prepareKeys(trigger, resolved),
  };
}

/** Remembers the name of each key, because every accepted delivery asks for it. A learned key may change. */
function namedKeys(
  textOf: (role: KeyRole, other?: number) => string | undefined,
  resolved: ResolvedScheme | undefined,
  nameKey: NameKey | undefined,
): PreparedTrigger['namedKey'] {
  const known: Record<string, TriggerKey> = {};
  return (role, other) => {
    const text = textOf(role, other);
    if (text === undefined || resolved === undefined) return undefined;
    const place = other ?? role;
    const before = known[place];
    if (before?.text === text) return before;
    const key = { text, isSent: isSent(resolved, role) };
    const named = { ...key, name: nameKey?.(key) };
    known[place] = named;
    return named;
  };
}

/** Whether the key itself is sent. Assumed for a verifier, because only its code knows what it compares. */
function isSent(resolved: ResolvedScheme, role: KeyRole): boolean {
  if (resolved.kind !== 'spec') return resolved.kind === 'verifier';
  const spec = role === 'previous' ? (resolved.previousSpec ?? resolved.spec) : resolved.spec;
  return spec.algorithm === 'token';
}

/** Whether nothing can be verified without a key of the trigger. A verifier in code may need none. */
function needsKey(resolved: ResolvedScheme): boolean {
  if (resolved.kind === 'standard') return resolved.standard.rule.keySetUrl === undefined;
  return resolved.kind === 'spec';
}

/** Assumed for operator code, because only the code knows what it reads. */
function mayReadQuery(resolved: ResolvedScheme | undefined): boolean {
  if (resolved === undefined) return false;
  if (resolved.kind === 'standard') return resolved.standard.readsUrl;
  return resolved.kind === 'verifier' || hasPart(resolved.spec.signs, 'built', 'url', 'query', 'target');
}

function gradeOfScheme(resolved: ResolvedScheme | undefined): Grade | null {
  if (resolved === undefined) return 'F';
  if (resolved.kind === 'verifier') return null;
  if (resolved.kind === 'standard') return resolved.standard.grade;
  // Both keys open the trigger, so the weaker form counts.
  const grades = [resolved.spec, resolved.previousSpec ?? resolved.spec].map(gradeOf);
  return GRADES.findLast((grade) => grades.includes(grade)) ?? null;
}
