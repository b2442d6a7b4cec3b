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

/** Whether a delivery that passes the gates is acted on, held or refused now: its flow may be disabled or drained at any time. */
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

/** What the store says where the run may not start yet. */
type Held = Exclude<HoldResult, { kind: 'open' }>;

/**
 * Commits an accepted delivery: nonce, idempotency key, record, run and entry steps, all of it or nothing; where its flow
 * starts no runs now, what starts the run later. What the store says is durable when the promise resolves, and only then
 * may a 200 leave. 'outdated' where the flow was deployed or closed while the gates thought: the caller looks at it again.
 */
export function acceptDelivery(reception: ReadReception, services: AcceptanceServices): Promise<AcceptResult | Held> {
  const { trigger, span } = reception;
  const { trigger: definition } = trigger;
  // Asked again, because the gates may have taken seconds.
  if (!services.clock.isFit()) return Promise.reject(new UnfitClockError());
  // The newest, whatever was deployed when the gates were asked.
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
  // Otherwise the run is to start at once after all.
  return held.kind === 'open' ? engine.accept(acceptance) : held;
}

/**
 * The same for all triggers that share the slug, all of it or nothing: each is what `acceptDelivery` makes of it, except that what
 * one has accepted is known to all. `redelivery` starts no run of a closed flow.
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
      const acceptance = acceptanceOf(
        { ...reception, trigger },
        { flow, traceparent: traceparents[at] ?? null },
        services,
      );
      if (redelivery !== undefined) return { acceptance, start: isOpen(trigger, flow.record) ? 'now' : 'never' };
      return { acceptance, start: START[admissionTo(trigger, services)] };
    });
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

/** What is stored of a delivery, and the run that it starts at one trigger. */
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
  // Anyone can guess the key of an event that is still to come.
  const sentKey = isTrusted(reception) ? idempotencyKey(delivery.headers['idempotency-key']) : undefined;
  // A key is kept as long as its run: without one, it names an event.
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
    // A flow without steps waits for nothing.
    coalesce: run.completedAt === null ? joining?.claim : undefined,
    judgedBy: reception.judgedBy?.(flow.record),
    run,
  };
}

/** How its run reads the body: the sender may hide it behind other headers, or say it of the document. */
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

/** What the expressions of its trigger say of a delivery that may start a run; undefined where it has none. */
export function judgeByExpressions(
  reception: Pick<TriggeredReception, 'delivery' | 'trigger' | 'judgement'> & { readonly body: ArrivingBody },
): ExpressionResults | undefined {
  const { delivery, trigger, judgement, body } = reception;
  const { verifiedHeaders } = judgement.evidence;
  return trigger.judgeByExpressions?.(delivery.headers, body, { verifiedHeaders, isTrusted: isTrusted(reception) });
}

/** The signature gate passed, or there is none: what an unverified delivery claims stands against no verified one. */
function isTrusted({ judgement }: Pick<TriggeredReception, 'judgement'>): boolean {
  const verdict = judgement.gateResults.find(({ gate }) => gate === signatureGate.name);
  return verdict === undefined || verdict.outcome === 'passed';
}

/** The name of the key that verified the delivery. One that a person delivers again says nothing of the publisher. */
function verifyingKey({ trigger, judgement, redelivery }: TriggeredReception): string | undefined {
  const { isVerified, usedPreviousKey, otherKey } = judgement.evidence;
  if (isVerified !== true || redelivery !== undefined) return undefined;
  return trigger.namedKey(usedPreviousKey === true ? 'previous' : 'current', otherKey)?.name;
}

/** By the ledger. A gate may have thought about it for seconds. One that is delivered again by hand lives from then on. */
function arrivalOf({ startedAt }: TriggeredReception, clock: ServiceClock): number {
  return Math.floor(clock.ledger() - (clock.monotonic() - startedAt));
}

/** What a person delivers again has a run of its own, as what has no key. */
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

/** Every accepted delivery is named, so that no deploy that asks for its name later takes it for a new one. */
function nonceClaim(reception: TriggeredReception, clock: ServiceClock): NonceClaim {
  const { delivery, trigger, judgement } = reception;
  const { evidence } = judgement;
  const { header, value, digest, isOfBody, lifeMs } = trigger.nameDelivery(delivery, evidence);
  const arrivedAt = arrivalOf(reception, clock);
  return {
    header,
    value,
    digest,
    arrivedAt,
    expiresAt: arrivedAt + lifeMs,
    // The gates saw a body that may hold more than is kept.
    bodySha256: isOfBody && trigger.keepBody === undefined ? digest : hash('sha256', delivery.body),
    isTrusted: isTrusted(reception),
    isAsked: evidence.nonce !== undefined,
    isEnforced: trigger.mode === 'Enforce',
  };
}

// A key of any length is honoured; a very long one is kept as its digest.
function idempotencyKey(sent: string | undefined): string | undefined {
  if (sent === undefined || sent.trim() === '') return undefined;
  const key = sent.trim();
  return key.length <= 255 ? key : `sha256:${hash('sha256', key)}`;
}
