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
import type { Gate } from './gate.ts';
import { type GatePreparer, gateNames } from './gates/index.ts';
import { type NameDelivery, prepareNames } from './gates/replay.ts';
import { calledUrl } from './gates/signature.ts';
import { headersRead } from './headers.ts';
import { type KeepBody, prepareKeptBody, readsContent } from './kept-body.ts';
import type { NamedKey, NameKey } from './key-names.ts';
import { keysInForce } from './keys-in-force.ts';
import { keySlot } from './learned-keys.ts';
import type { AcceptedResponse, Handshake } from './schemes/handshake.ts';
import { gradeOf, hasPart } from './schemes/layout.ts';
import { handshakesOf, namedScheme, type ResolvedScheme } from './schemes/resolve.ts';
import { signsWithSameKey } from './schemes/sign.ts';
import { GRADES, type Grade } from './schemes/spec.ts';
import { isSharedSecret } from './schemes/standards/sign.ts';
import { documentOf } from './schemes/values.ts';
import { type PreparedKeys, prepareSearchKeys } from './search-keys.ts';
import { knowledgeOf, sharingBy, type WhyApart } from './sharing.ts';
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
  /** Names of all gates there are, configured or not, in the order in which they judge this trigger's deliveries. */
  readonly chain: readonly string[];
  readonly mode: EnforcementMode;
  readonly nameDelivery: NameDelivery;
  /** Canonical name of the scheme that verifies; null where there is no signature gate. */
  readonly schemeName: string | null;
  /** What a captured delivery can be used for, from A to F; null where only a verifier's code knows. */
  readonly grade: Grade | null;
  /** Configured, or else learnt; as of the moment when it is read. */
  readonly keys: WebhookTrigger['keys'];
  /** One of its keys as it is now, or of the others in force by its place; undefined where there is none. */
  readonly namedKey: (role: KeyRole, other?: number) => TriggerKey | undefined;
  /** Absent where no publisher hands a key over. */
  readonly keySlot: ReturnType<typeof keySlot>;
  /** The scheme verifies with a key, and the trigger has none now: nothing can be verified. */
  readonly lacksKey: boolean;
  /** `sluice send` can sign its deliveries with what the trigger has now. */
  readonly canBeSigned: boolean;
  readonly handshakes: readonly Handshake[];
  /** The URL that the publisher was given, as far as the service knows it. */
  readonly endpointOf: (delivery: Pick<Delivery, 'path' | 'requestUrl'>) => string;
  /** Calls a URL that completes a handshake; absent where nothing is called. */
  readonly visit: ((url: string) => Promise<unknown>) | undefined;
  readonly headersRead: ReturnType<typeof headersRead>;
  /** Absent where all of a body is kept, and flows read it as it came. */
  readonly keepBody: KeepBody | undefined;
  /** Whether the gates judge what an encoded body holds, and not its bytes. */
  readonly readsContent: boolean;
  /** Of the content of an encoded body, as of a body. */
  readonly maxBodyBytes: number;
  /** The field of such a delivery that holds what its flow reads; undefined where the body is that. */
  readonly documentIn: (headers: Delivery['headers']) => string | undefined;
  /** Whether the query of a delivery may be part of what its signature covers. */
  readonly mayReadQuery: boolean;
  /** What the trigger or its publisher wants to read instead of the ids; undefined for the ids. */
  readonly acceptedResponse: AcceptedResponse | undefined;
  /** What its deliveries answer; undefined where they start runs. */
  readonly signals: ReturnType<typeof signalsOf>;
  /** How its deliveries share runs; undefined where each has one of its own. */
  readonly coalescing: ReturnType<typeof coalescingOf>;
  /** Absent where it has no expressions that decide about a delivery. */
  readonly judgeByExpressions: JudgeByExpressions | undefined;
  /** Absent where no second delivery of an event is told from the first. */
  readonly eventIdentity: EventIdentity | undefined;
  /** Absent where its deliveries have no search keys. */
  readonly searchKeys: PreparedKeys | undefined;
}

/** A key of a trigger with its name in the figures; without a name where none are kept. */
interface TriggerKey extends NamedKey {
  readonly name: string | undefined;
}

export interface TriggerTable {
  /** By slug or by the flow's GUID, in any case; a GUID means the flow's first webhook trigger in manifest order. */
  find(idOrSlug: string): PreparedTrigger | undefined;
  /** All triggers that get what is sent there, in the order of their flows' ids: several where they share the slug. */
  findAll(idOrSlug: string): readonly PreparedTrigger[];
  /** The trigger that `find` would find by the name if it could judge deliveries here. */
  findUnserved(idOrSlug: string): UnservedAddress | undefined;
  /** Flow by flow, in manifest order. */
  list(): readonly PreparedTrigger[];
  /** What is known of flows while a delivery to a name is judged: of one that takes it everything, of others the revision. */
  judgedBy(name: string): (own: FlowRecord) => JudgedBy;
  /** Slugs that are shared by triggers which may not share them any more. */
  apart(): readonly ApartTriggers[];
}

/** A trigger of the deployed revision, or of a manifest that cannot be deployed, that judges nothing here. */
export interface UnservedAddress extends UnservedTrigger {
  /** Null where the manifest does not say it. */
  readonly flowId: string | null;
}

/** The first of triggers that share a slug and may not any more. */
interface ApartTriggers extends UnservedAddress {
  readonly flowId: string;
  readonly slug: string;
}

interface TriggerTableOptions {
  readonly flows: readonly DeployedFlow[];
  readonly preparer: GatePreparer;
  /** The mode of triggers that set none of their own. */
  readonly defaultMode: EnforcementMode;
  /** Manifests that cannot be deployed: what they name and leads nowhere else is not served. */
  readonly unreadable?: (() => readonly (NamedManifest & { readonly why: string })[]) | undefined;
}

/**
 * Lists the webhook triggers of all flows. Throws where two of them answer to one name, since neither may get the other's
 * deliveries, and `GateConfigurationError` where the fields of one make no sense.
 */
export function createTriggerTable({ flows, ...options }: TriggerTableOptions): TriggerTable {
  return tableOf(flows, preparerOf(options), options);
}

/** Prepares the triggers of a flow once for each deploy of it: the catalog keeps what did not change. */
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
    // The next trigger of the flow may judge by less than the first one, which may have lost its slug to another flow.
    if (first === undefined || !isFirstWebhook(first.trigger.triggerKey, flow)) continue;
    const { flowId } = first.trigger;
    if (!unserved.has(flowId.toLowerCase())) register(byName, flowId, [first]);
  }
  const triggers = byFlow.flat();
  const apart: ApartTriggers[] = [];
  const whyApart = sharingBy({ preparer, defaultMode });
  for (const [slug, sharing] of bySlug(triggers)) {
    const lacking = unserved.get(slug);
    // What is sent there would be taken, and lost to the one that is not served.
    if (lacking !== undefined && sharing.every(isShared)) continue;
    const why = whyNotTogether(sharing, whyApart);
    if (why === undefined) register(byName, slug, sharing);
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

/** Webhook triggers of a flow that judge nothing here: all of them where the flow cannot work. */
export function unservedOf({ webhooks, unserved = [], unreadable: why }: LoadedFlow): readonly UnservedTrigger[] {
  if (why === undefined) return unserved;
  const lost = webhooks.map(({ triggerKey, inputs }) => ({ triggerKey, slug: inputs.webhookSlug, why }));
  return [...lost, ...unserved];
}

/** The table of the flows that are deployed now. */
export interface TriggersInForce {
  /** A delivery keeps the table that it began with. */
  current(): TriggerTable;
  /** Makes the table again after flows were deployed, and tells who listens. */
  renew(): void;
  /** Yields the function that ends it. */
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
        // Deliveries go on to the triggers that they went to: better than to none, and never to those of another flow.
        logger.error({ err: error }, 'deployed triggers conflict with each other; keeping the previous ones');
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

/** Once per flow: that a legacy key is ignored matters at the first delivery as much as at the last. */
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

/** Where publishers send, below the base URL of the service; null if neither a slug nor the id of the flow leads to it. */
export function pathOfWebhook({ trigger }: PreparedTrigger, triggers: Pick<TriggerTable, 'find'>): string | null {
  const isReached = triggers.find(trigger.flowId)?.trigger === trigger;
  const name = trigger.inputs.webhookSlug ?? (isReached ? trigger.flowId : undefined);
  return name === undefined ? null : `/flows/api/webhook/${encodeURIComponent(name)}`;
}

/** Whether what the gates of one said holds for the other: the same trigger, with the same fields and keys. */
export function hasSameGates(one: PreparedTrigger, other: PreparedTrigger): boolean {
  const [ours, theirs] = [one, other].map(({ trigger: { flowName, ...rest }, mode }) => ({ ...rest, mode }));
  return one === other || isDeepStrictEqual(ours, theirs);
}

/** Whether its deliveries start runs now; or answer them, also while its flow drains and waits for answers. */
export function isOpen({ trigger, signals }: PreparedTrigger, flow: FlowRecord): boolean {
  return trigger.isOff !== true && (signals === undefined ? startsRuns(flow) : flow.isEnabled);
}

function isFirstWebhook(triggerKey: string, { loaded }: DeployedFlow): boolean {
  return Object.entries(loaded.manifest.triggers).find(([, { type }]) => type === 'webhook')?.[0] === triggerKey;
}

type ByName = Map<string, readonly PreparedTrigger[]>;

/** Throws where the triggers may not have the name together, or others have it. */
function register(byName: ByName, name: string, sharing: readonly PreparedTrigger[]): void {
  const known = byName.get(name.toLowerCase()) ?? [];
  const [one, other] = [...known, ...sharing];
  if (one !== undefined && other !== undefined && (known.length > 0 || !sharing.every(isShared))) {
    const slug = other.trigger.inputs.webhookSlug ?? name;
    throw new Error(`webhooks of "${one.trigger.flowName}" and "${other.trigger.flowName}" share the name "${slug}"`);
  }
  byName.set(name.toLowerCase(), sharing);
}

const isShared = ({ trigger }: PreparedTrigger) => trigger.inputs.webhookShared === true;

/** Every service has those of a slug in the same order, whatever it deployed first. */
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
 * Why triggers that share a slug judge nothing now: keys that are read again may differ since they were deployed, and what
 * the gates of one let pass must not start runs of another.
 */
function whyNotTogether([first, ...others]: readonly PreparedTrigger[], whyApart: WhyApart): string | undefined {
  if (first === undefined || ![first, ...others].every(isShared)) return undefined;
  for (const { trigger } of others) {
    const why = whyApart(first.trigger, trigger);
    if (why !== undefined)
      return `the slug ${why}; the others are ${others.map((each) => each.trigger.flowName).join(', ')}`;
  }
  return undefined;
}

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
    nameDelivery: prepareNames(inputs, settings),
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
    signals: signalsOf(trigger),
    coalescing: coalescingOf(trigger),
    // A revision may have been stored before active types were refused.
    acceptedResponse: inputs.webhookResponse === undefined ? scheme?.acceptedResponse : asInert(inputs.webhookResponse),
    judgeByExpressions: prepareExpressions(trigger, resolved),
    eventIdentity: eventIdentityOf(trigger, resolved),
    searchKeys: prepareSearchKeys(trigger, resolved),
  };
}

/** Each key is named once: every delivery that is accepted asks. A learned key may change. */
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

/** What a verifier in code compares, it alone knows. */
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

/** What an operator's code reads, it alone knows. */
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
