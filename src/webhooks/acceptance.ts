import { hash } from 'node:crypto';
import { UnfitClockError } from '../errors.ts';
import { type ArrivingBody, DOCUMENT_HEADER } from '../expressions/trigger-body.ts';
import type { Catalog, DeployedFlow } from '../flows/catalog.ts';
import type { Engine } from '../flows/engine.ts';
import type { Coalescing } from '../manifest/trigger-part.ts';
import type { ServiceClock } from '../model/clock.ts';
import type { Delivery } from '../model/delivery.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import type {
  Acceptance,
  AcceptResult,
  EventClaim,
  HoldResult,
  NonceClaim,
  SharedAcceptance,
  SharedResult,
} from '../store/store.ts';
import { inSpan, traceparentOf } from '../telemetry/tracing.ts';
import { signatureGate } from './gates/signature.ts';
import { keptHeaders } from './headers.ts';
import type { Holding } from './holding.ts';
import { recordOf, type TriggeredReception } from './record.ts';
import { type ExpressionResults, eventLifeMs } from './trigger-expressions.ts';
import { isOpen, type PreparedTrigger } from './triggers.ts';

/** A reception whose body can be read. */
export type ReadReception = TriggeredReception & { readonly body: ArrivingBody };

/** A reception at a slug that several triggers share. */
type SharedReception = ReadReception & { readonly sharing: readonly PreparedTrigger[] };

export interface AcceptanceServices {
  readonly engine: Engine;
  readonly catalog: Pick<Catalog, 'find'>;
  readonly holding: Holding;
  readonly clock: ServiceClock;
  readonly defaultMode: EnforcementMode;
  readonly newId: () => string;
}

/** Whether a delivery that passes the gates is accepted, held or refused now; flows can be disabled at any time. */
export function admissionTo(
  prepared: PreparedTrigger,
  { catalog, holding }: { catalog: Pick<Catalog, 'find'>; holding: Pick<Holding, 'counts' | 'takes'> },
): 'open' | 'held' | 'disabled' {
  const { flowId } = prepared.trigger;
  const flow = catalog.find(flowId);
  if (flow === undefined || prepared.trigger.isOff === true) return 'disabled';
  if (!isOpen(prepared, flow.record)) return holding.takes(prepared, flow.record) ? 'held' : 'disabled';
  return prepared.signals === undefined && (holding.counts.get(flowId) ?? 0) > 0 ? 'held' : 'open';
}

/** The store's result if the run must not start yet. */
type Held = Exclude<HoldResult, { kind: 'open' }>;

/**
 * Commits an accepted delivery, all or nothing: nonce, idempotency key, record, run and entry steps; if its flow
 * starts no runs now, what starts the run later. The result is durable once the promise resolves; only then may a 200
 * leave. 'outdated': the flow was deployed or closed while the gates ran, so the caller must look at the delivery
 * again.
 */
export function acceptDelivery(reception: ReadReception, services: AcceptanceServices): Promise<AcceptResult | Held> {
  const { trigger, span } = reception;
  const { trigger: definition } = trigger;
  // Check the clock again: the gates may have taken seconds.
  if (!services.clock.isFit()) return Promise.reject(new UnfitClockError());
  // Use the newest revision, even if it was deployed after the gates ran.
  const flow = services.catalog.find(definition.flowId) ?? trigger.flow;
  const parent = span === undefined ? null : traceparentOf(span);
  const attributes = { 'flow.id': flow.record.id, 'flow.trigger': definition.triggerKey };
  return inSpan<AcceptResult | Held>({ name: 'flow.trigger', parent, attributes }, (triggerSpan) => {
    const acceptance = acceptanceOf(reception, { flow, traceparent: traceparentOf(triggerSpan) }, services);
    const isHeld = reception.redelivery === undefined && admissionTo(trigger, services) === 'held';
    return isHeld ? holdDelivery(acceptance, services) : services.engine.accept(acceptance);
  });
}

async function holdDelivery(
  acceptance: Acceptance,
  { holding, engine }: Pick<AcceptanceServices, 'holding' | 'engine'>,
): Promise<AcceptResult | Held> {
  const held = await holding.hold(acceptance);
  // 'open': the flow starts runs again, so this one starts at once.
  return held.kind === 'open' ? engine.accept(acceptance) : held;
}

/**
 * Commits a delivery for all triggers that share the slug, all or nothing. Each gets the result of `acceptDelivery`,
 * but a nonce or idempotency key known to one is known to all. A `redelivery` starts no run of a closed flow.
 */
export function acceptShared(
  reception: SharedReception,
  services: AcceptanceServices & { readonly engine: Pick<Engine, 'acceptShared'> },
): Promise<SharedResult> {
  const { sharing, span, redelivery } = reception;
  if (!services.clock.isFit()) return Promise.reject(new UnfitClockError());
  const parent = span === undefined ? null : traceparentOf(span);
  const accept = (traceparents: readonly (string | null)[]) => {
    const members = sharing.map((trigger, at): SharedAcceptance => {
      const flow = services.catalog.find(trigger.trigger.flowId) ?? trigger.flow;
      const traceparent = traceparents[at] ?? null;
      const acceptance = acceptanceOf({ ...reception, trigger }, { flow, traceparent }, services);
      if (redelivery !== undefined) return { acceptance, start: isOpen(trigger, flow.record) ? 'now' : 'never' };
      return { acceptance, start: START[admissionTo(trigger, services)] };
    });
    // All flows were closed while the gates ran.
    const isClosed = redelivery === undefined && members.every(({ start }) => start === 'never');
    if (isClosed) return Promise.resolve<SharedResult>({ kind: 'outdated', flowId: sharing[0]?.trigger.flowId ?? '' });
    const held = members.flatMap(({ start, acceptance }) => (start === 'later' ? [acceptance.run.flowId] : []));
    return services.holding.holdShared(held, () => services.engine.acceptShared(members));
  };
  const inSpans = (traceparents: readonly (string | null)[]): Promise<SharedResult> => {
    const next = sharing[traceparents.length]?.trigger;
    if (next === undefined) return accept(traceparents);
    const attributes = { 'flow.id': next.flowId, 'flow.trigger': next.triggerKey };
    return inSpan({ name: 'flow.trigger', parent, attributes }, (triggerSpan) =>
      inSpans([...traceparents, traceparentOf(triggerSpan)]),
    );
  };
  return inSpans([]);
}

const START = { open: 'now', held: 'later', disabled: 'never' } as const;

/** Everything to store when one trigger accepts a delivery, including the run that it starts. */
function acceptanceOf(
  reception: ReadReception,
  { flow, traceparent }: { readonly flow: DeployedFlow; readonly traceparent: string | null },
  services: AcceptanceServices,
): Acceptance {
  const { delivery, trigger, body } = reception;
  const runId = services.newId();
  const expressions = judgeByExpressions(reception);
  const { names, secret } = trigger.headersRead;
  const { shown, ofRun } = keptHeaders(delivery.headers, names, secret);
  const headers = withDeclared(ofRun, reception);
  const record = recordOf({ ...reception, expressions, body, shown }, { statusCode: 200, runId }, services);
  const at = services.clock.now();
  const joining =
    expressions?.key === undefined ? undefined : joiningOf(reception, { key: expressions.key, at, headers });
  const key = trigger.trigger.triggerKey;
  const ordered = flow.prepared.readOrderKey?.({
    key,
    headers,
    body: () => body.exactValue(),
    envelope: () => body.envelope(),
  });
  // Only verified deliveries: anyone can guess the key of a future event.
  const sentKey = isTrusted(reception) ? idempotencyKey(delivery.headers['idempotency-key']) : undefined;
  // A key is stored with its run. A trigger that signals starts no run, so the key then serves as an event id.
  const eventId =
    expressions?.eventId ?? (trigger.signals && sentKey && hash('sha256', `${sentKey}\n${delivery.body}`));
  const run = services.engine.planRun({
    runId,
    flow,
    triggerType: 'webhook',
    trigger: { key, body: delivery.body, contentType: delivery.headers['content-type'] ?? null, headers },
    order: ordered && { ...ordered, isTrusted: isTrusted(reception) },
    deliveryId: delivery.id,
    sourceRunId: null,
    traceparent,
    at,
    dueAt: joining?.dueAt,
    searchKeys: record.searchKeys,
  });
  return {
    delivery: { ...record, ...reception.redelivery },
    nonce: nonceClaim(reception, services.clock),
    verifiedBy: verifyingKey(reception),
    idempotencyKey: sentKey,
    event: eventId === undefined ? undefined : eventClaim(eventId, reception, services.clock),
    isFiltered: expressions?.filteredBy === undefined ? undefined : true,
    signal: trigger.signals?.claim({ key: expressions?.key, body, run }),
    // The run of a flow without steps is complete already, so no delivery can join it.
    coalesce: run.completedAt === null ? joining?.claim : undefined,
    judgedBy: reception.judgedBy?.(flow.record),
    run,
  };
}

/** Adds how the run reads the body. A sender could crowd that out with other headers, or fake the document header. */
function withDeclared(ofRun: Delivery['headers'], { delivery, trigger }: TriggeredReception): Delivery['headers'] {
  const document = trigger.documentIn(delivery.headers);
  const encoding = delivery.content && delivery.headers['content-encoding'];
  if (encoding === undefined && document === undefined && !Object.hasOwn(ofRun, DOCUMENT_HEADER)) return ofRun;
  const { [DOCUMENT_HEADER]: _, ...others } = ofRun;
  return {
    ...others,
    ...(encoding !== undefined && { 'content-encoding': encoding }),
    ...(document !== undefined && { [DOCUMENT_HEADER]: document }),
  };
}

/** Results of the trigger's expressions for a delivery that may start a run; undefined if it has no expressions. */
export function judgeByExpressions(
  reception: Pick<TriggeredReception, 'delivery' | 'trigger' | 'judgement'> & { readonly body: ArrivingBody },
): ExpressionResults | undefined {
  const { delivery, trigger, judgement, body } = reception;
  const { verifiedHeaders } = judgement.evidence;
  return trigger.judgeByExpressions?.(delivery.headers, body, { verifiedHeaders, isTrusted: isTrusted(reception) });
}

/** The signature gate passed, or there is none. Claims of an unverified delivery never count against a verified one. */
function isTrusted({ judgement }: Pick<TriggeredReception, 'judgement'>): boolean {
  const verdict = judgement.gateResults.find(({ gate }) => gate === signatureGate.name);
  return verdict === undefined || verdict.outcome === 'passed';
}

/** The name of the key that verified the delivery; undefined for redeliveries: they say nothing about the publisher. */
function verifyingKey({ trigger, judgement, redelivery }: TriggeredReception): string | undefined {
  const { isVerified, usedPreviousKey, otherKey } = judgement.evidence;
  if (isVerified !== true || redelivery !== undefined) return undefined;
  return trigger.namedKey(usedPreviousKey === true ? 'previous' : 'current', otherKey)?.name;
}

/** Arrival in ledger time; gates may have taken seconds since. A redelivery arrives when it is delivered again. */
function arrivalOf({ startedAt }: TriggeredReception, clock: ServiceClock): number {
  return Math.floor(clock.ledger() - (clock.monotonic() - startedAt));
}

/** Redeliveries and deliveries without a key are not coalesced. */
function joiningOf(
  reception: TriggeredReception,
  claimed: { readonly key: string; readonly at: number; readonly headers: Delivery['headers'] },
): ReturnType<Coalescing['claim']> | undefined {
  const { trigger, delivery, redelivery } = reception;
  if (redelivery !== undefined) return undefined;
  return trigger.coalescing?.claim({ ...claimed, isTrusted: isTrusted(reception), body: delivery.body });
}

function eventClaim(id: string, reception: TriggeredReception, clock: ServiceClock): EventClaim {
  const arrivedAt = arrivalOf(reception, clock);
  return { id, arrivedAt, expiresAt: arrivedAt + eventLifeMs(reception.trigger.trigger.inputs) };
}

/** Every accepted delivery gets a nonce, so that a later revision that checks nonces does not take it for a new one. */
function nonceClaim(reception: TriggeredReception, clock: ServiceClock): NonceClaim {
  const { delivery, trigger, judgement } = reception;
  const { evidence } = judgement;
  const { header, value, digest, covers, lifeMs } = trigger.nameDelivery(delivery, evidence);
  const arrivedAt = arrivalOf(reception, clock);
  return {
    header,
    value,
    digest,
    arrivedAt,
    expiresAt: arrivedAt + lifeMs,
    // The gates saw the whole body, which may hold more than the kept one.
    bodySha256:
      covers !== undefined && trigger.keepBody === undefined ? covers.bodySha256 : hash('sha256', delivery.body),
    covers,
    isTrusted: isTrusted(reception),
    isAsked: evidence.nonce !== undefined,
    isEnforced: trigger.mode === 'Enforce',
  };
}

// Keys of any length are honoured; a very long one is stored as its digest.
function idempotencyKey(sent: string | undefined): string | undefined {
  if (sent === undefined || sent.trim() === '') return undefined;
  const key = sent.trim();
  return key.length <= 255 ? key : `sha256:${hash('sha256', key)}`;
}
