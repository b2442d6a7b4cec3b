import { hash } from 'node:crypto';
import type { Span } from '@opentelemetry/api';
import { ArrivingBody } from '../expressions/trigger-body.ts';
import { type Catalog, startsRuns } from '../flows/catalog.ts';
import { type Engine, type RefreshFlow, START_TRIES } from '../flows/engine.ts';
import type { Clock } from '../model/clock.ts';
import type { Delivery } from '../model/delivery.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import type { Acceptance, AcceptResult, HoldResult, NonceClaim, Store } from '../store/store.ts';
import { inSpan, traceparentOf } from '../telemetry/tracing.ts';
import { handshakeAnswers, isHandshake } from './handshakes.ts';
import { runHeaders } from './headers.ts';
import {
  accepted,
  keepDelivery,
  methodNotAllowed,
  notStored,
  type OutcomeServices,
  type Reception,
  recordOf,
  refuse,
  refused,
  reportDelivery,
  type TriggeredReception,
  type WebhookAnswer,
} from './outcome.ts';
import { CLEAN, dryRunGates, runGates, withViolation } from './pipeline.ts';
import { hasSameGates, type PreparedTrigger, type TriggerTable } from './triggers.ts';

export interface ReceiverServices extends AcceptanceServices, OutcomeServices {
  readonly store: Store;
  /** The table in force; a deploy puts a new one in its place. */
  readonly triggers: () => TriggerTable;
  readonly refresh: RefreshFlow;
}

interface Receiver {
  /** Judges a delivery, accepts or refuses it, and says what to answer. */
  delivery(delivery: Delivery, idOrSlug: string, span: Span): Promise<WebhookAnswer>;
  /** The body did not fit: refused before any gate, in every mode. */
  tooLarge(delivery: Delivery, idOrSlug: string, span: Span): Promise<WebhookAnswer>;
  /** It arrived when a stop had begun: nothing new is taken, and its record says so. */
  stopping(delivery: Delivery, idOrSlug: string, span: Span): Promise<WebhookAnswer>;
  /** No memory is left for its body: it was not read to its end, so nothing can be kept. */
  overloaded(): WebhookAnswer;
}

/**
 * The walk of a delivery: find the trigger, run its gates, read the body, plan the run, commit it all at once, answer.
 * Each stage either hands the delivery on or refuses it; nothing is written before the one commit.
 */
export function receiver(services: ReceiverServices): Receiver {
  const concluding = { ...services, answerHandshake: handshakeAnswers(services) };
  return {
    async delivery(delivery, idOrSlug, span) {
      const startedAt = services.clock.monotonic();
      let judged: TriggeredReception | undefined;
      // The gates may take seconds. A deploy in that time counts, so the old trigger decides nothing.
      for (let left = START_TRIES; left > 0; left -= 1) {
        const triggers = services.triggers();
        const trigger = triggers.find(idOrSlug);
        const arrived: Reception = { delivery, trigger, span, judgement: CLEAN, startedAt };
        if (trigger === undefined) return refuse(arrived, 'unknown_flow', services);
        // Before any gate: what is not a delivery must not use up what deliveries may.
        if (delivery.method !== 'POST' && !isHandshake(delivery, trigger)) {
          return methodNotAllowed(trigger.handshakes.map(({ method }) => method));
        }
        if (admissionTo(trigger, services) === 'disabled') return refuse(arrived, 'flow_disabled', services);
        if (judged !== undefined && hasSameGates(judged.trigger, trigger)) judged = { ...judged, trigger };
        else {
          const judge = delivery.method === 'POST' ? runGates : dryRunGates;
          judged = { ...arrived, trigger, judgement: await judge(trigger.gates, delivery, trigger.mode) };
          if (services.triggers() !== triggers) continue;
        }
        const answer = await conclude(judged, concluding);
        if (answer !== undefined) return answer;
        try {
          await services.refresh(trigger.trigger.flowId);
        } catch (error) {
          return notStored(judged, error, services);
        }
      }
      const detail = 'the flow kept changing while a run was about to start';
      const arrived = { delivery, trigger: judged?.trigger, span, judgement: { ...CLEAN, detail }, startedAt };
      return refuse(arrived, 'store_unavailable', services);
    },
    tooLarge(delivery, idOrSlug, span) {
      const trigger = services.triggers().find(idOrSlug);
      const startedAt = services.clock.monotonic();
      const reception = { delivery, trigger, span, judgement: CLEAN, startedAt };
      return refuse(reception, 'body_too_large', services);
    },
    stopping(delivery, idOrSlug, span) {
      const trigger = services.triggers().find(idOrSlug);
      const startedAt = services.clock.monotonic();
      const judgement = { ...CLEAN, detail: 'the service was stopping' };
      return refuse({ delivery, trigger, span, judgement, startedAt }, 'store_unavailable', services);
    },
    overloaded() {
      services.metrics.webhookRejected.inc({ flow: 'none', reason: 'store_unavailable' });
      return refused('store_unavailable');
    },
  };
}

/** What follows from the verdict of the gates; undefined where a deploy came in between. */
async function conclude(
  judged: TriggeredReception,
  services: ReceiverServices & { readonly answerHandshake: ReturnType<typeof handshakeAnswers> },
): Promise<WebhookAnswer | undefined> {
  const { delivery, judgement } = judged;
  const handshake = judged.trigger.handshakes.length === 0 ? undefined : await services.answerHandshake(judged);
  if (handshake !== undefined) return handshake;
  if (judgement.refusal !== null) return refuse(judged, judgement.refusal, services);
  if (delivery.method !== 'POST') return methodNotAllowed();
  const body = new ArrivingBody(delivery.body, delivery.headers['content-type']);
  if (body.isMalformed()) return refuse({ ...judged, body }, 'invalid_json', services);
  return accept({ ...judged, body }, services);
}

async function accept(reception: TriggeredReception, services: ReceiverServices): Promise<WebhookAnswer | undefined> {
  const { delivery, trigger, judgement } = reception;
  // The gates may have thought for a while: a drain that began meanwhile counts.
  if (admissionTo(trigger, services) === 'disabled') return refuse(reception, 'flow_disabled', services);
  let result: Awaited<ReturnType<typeof acceptDelivery>>;
  try {
    result = await acceptDelivery(reception, services);
  } catch (error) {
    return notStored(reception, error, services);
  }
  if (result.kind === 'outdated') return undefined;
  if (result.kind === 'replayed') return answerReplay(reception, result, services);
  const { runId, kind } = result;
  const known = result.isReplay ? withViolation(judgement, 'nonce_replayed') : judgement;
  reportDelivery({ ...reception, judgement: known }, runId, services);
  return accepted({ runId, deliveryId: delivery.id, kind }, trigger.acceptedResponse);
}

/** A nonce that was accepted before: 409, or the first run's id where the trigger acknowledges honest retries. */
async function answerReplay(
  reception: TriggeredReception,
  replay: Extract<AcceptResult, { kind: 'replayed' }>,
  services: ReceiverServices,
): Promise<WebhookAnswer> {
  const { delivery, trigger } = reception;
  const isAcknowledged = trigger.trigger.inputs.webhookDuplicateResponse === 'acknowledge' && replay.hasSameBody;
  if (!isAcknowledged) return refuse(reception, 'nonce_replayed', services);
  const { runId } = replay;
  const repeated = { ...reception, judgement: withViolation(reception.judgement, 'nonce_replayed') };
  await keepDelivery(repeated, { statusCode: 200, runId, isDuplicate: true }, services);
  reportDelivery(reception, null, services);
  return accepted({ runId, deliveryId: delivery.id, kind: 'duplicate' }, trigger.acceptedResponse);
}

/** The deliveries that wait until their flow may start runs again; deploys/holding.ts releases them. */
export interface HeldDeliveries {
  /** Held deliveries of a flow. While there are any, the next one waits behind them. */
  count(flowId: string): number;
  /** Stores a delivery as held, as the store does. */
  hold(acceptance: Acceptance): Promise<HoldResult>;
}

interface AcceptanceServices {
  readonly engine: Engine;
  readonly catalog: Pick<Catalog, 'find'>;
  readonly holding: HeldDeliveries;
  readonly clock: Clock;
  readonly defaultMode: EnforcementMode;
  readonly newId: () => string;
}

/**
 * What becomes of a delivery that passes the gates: its run starts, or starts later, or the delivery is refused. To be
 * asked each time: the flow may have been disabled or drained since its triggers were prepared.
 */
export function admissionTo(
  prepared: PreparedTrigger,
  { catalog, holding }: { catalog: Pick<Catalog, 'find'>; holding: Pick<HeldDeliveries, 'count'> },
): 'open' | 'held' | 'disabled' {
  const { flowId } = prepared.trigger;
  const flow = catalog.find(flowId);
  if (flow === undefined) return 'disabled';
  if (!startsRuns(flow.record)) return prepared.holdsDeliveries ? 'held' : 'disabled';
  return prepared.holdsDeliveries && holding.count(flowId) > 0 ? 'held' : 'open';
}

/** What the store says where the run may not start yet. */
type Held = Exclude<HoldResult, { kind: 'open' }>;

/**
 * Commits an accepted delivery: nonce, idempotency key, record, run and entry steps, all of it or nothing; where its flow
 * starts no runs now, what starts the run later. What the store says is durable when the promise resolves, and only then
 * may a 200 leave. 'outdated' where the flow has changed on the way: then the gates may have too, and are to be looked at.
 */
export function acceptDelivery(
  reception: TriggeredReception,
  services: AcceptanceServices,
): Promise<AcceptResult | Held> {
  const { delivery, trigger, span } = reception;
  const { trigger: definition } = trigger;
  // The newest, whatever was deployed when the gates were asked.
  const flow = services.catalog.find(definition.flowId) ?? trigger.flow;
  const parent = span === undefined ? null : traceparentOf(span);
  const attributes = { 'flow.id': flow.record.id, 'flow.trigger': definition.triggerKey };
  return inSpan({ name: 'flow.trigger', parent, attributes }, async (triggerSpan) => {
    const runId = services.newId();
    const record = recordOf(reception, { statusCode: 200, runId }, services);
    const run = services.engine.planRun({
      runId,
      flow,
      triggerType: 'webhook',
      trigger: {
        key: definition.triggerKey,
        body: delivery.body,
        contentType: delivery.headers['content-type'] ?? null,
        headers: runHeaders(delivery.headers),
      },
      deliveryId: delivery.id,
      sourceRunId: null,
      traceparent: traceparentOf(triggerSpan),
      at: services.clock.now(),
      searchKeys: record.searchKeys,
    });
    const acceptance: Acceptance = {
      delivery: { ...record, ...reception.redelivery },
      nonce: nonceClaim(reception),
      verifiedBy: verifyingKey(reception),
      idempotencyKey: idempotencyKey(delivery.headers['idempotency-key']),
      run,
    };
    if (reception.redelivery === undefined && admissionTo(trigger, services) === 'held') {
      const held = await services.holding.hold(acceptance);
      // Otherwise the run is to start at once after all.
      if (held.kind !== 'open') return held;
    }
    return services.engine.accept(acceptance);
  });
}

/** The name of the key that verified the delivery. One that a person delivers again says nothing of the publisher. */
function verifyingKey({ trigger, judgement, redelivery }: TriggeredReception): string | undefined {
  const { isVerified, usedPreviousKey } = judgement.evidence;
  if (isVerified !== true || redelivery !== undefined) return undefined;
  return trigger.namedKey(usedPreviousKey === true ? 'previous' : 'current')?.name;
}

function nonceClaim({ delivery, trigger, judgement, redelivery }: TriggeredReception): NonceClaim | undefined {
  const { nonce } = judgement.evidence;
  if (nonce === undefined) return undefined;
  const bodySha256 = hash('sha256', delivery.body);
  // One that was received long ago lives as long from now on as it would have from then on.
  const lateMs = redelivery === undefined ? 0 : redelivery.receivedAt - delivery.receivedAt;
  return { ...nonce, expiresAt: nonce.expiresAt + lateMs, bodySha256, isEnforced: trigger.mode === 'Enforce' };
}

// A key of any length is honoured; a very long one is kept as its digest.
function idempotencyKey(sent: string | undefined): string | undefined {
  if (sent === undefined || sent.trim() === '') return undefined;
  const key = sent.trim();
  return key.length <= 255 ? key : `sha256:${hash('sha256', key)}`;
}
