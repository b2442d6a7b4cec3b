import { setImmediate } from 'node:timers/promises';
import type { Span } from '@opentelemetry/api';
import type { Logger } from 'pino';
import { isMalformedJson } from '../expressions/trigger-body.ts';
import type { Catalog } from '../flows/catalog.ts';
import { type Engine, START_TRIES } from '../flows/engine.ts';
import type { Clock } from '../model/clock.ts';
import type { Delivery, DeliveryRecord, Reason } from '../model/delivery.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import type { AcceptResult, Store } from '../store/store.ts';
import { type LiveEvents, logEvent } from '../telemetry/events.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { acceptDelivery } from './acceptance.ts';
import { admissionTo, type HeldDeliveries } from './admission.ts';
import { type Answer, accepted, isUnverified, methodNotAllowed, refused } from './answers.ts';
import { type RecordedAnswer, recordOf } from './delivery-record.ts';
import { fullBucket, type RateLimit, type TokenBucket, takePermit } from './gates/rate-limit.ts';
import { handshakeRequest, takeKey } from './handshakes.ts';
import { type Judgement, rehearseGates, runGates } from './pipeline.ts';
import { report } from './report.ts';
import {
  type HandshakeRefusal,
  isHandshake,
  type RecognisedHandshake,
  recogniseHandshake,
} from './schemes/handshake.ts';
import { hasSameGates, type PreparedTrigger, type TriggerTable } from './triggers.ts';

export interface ReceiverServices {
  readonly store: Store;
  readonly engine: Engine;
  readonly catalog: Pick<Catalog, 'find'>;
  readonly holding: HeldDeliveries;
  /** The table in force; a deploy puts a new one in its place. */
  readonly triggers: () => TriggerTable;
  /** The mode of what belongs to no trigger. */
  readonly defaultMode: EnforcementMode;
  readonly newId: () => string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly live?: Pick<LiveEvents, 'emit'> | undefined;
}

export interface Receiver {
  /** Judges a delivery, accepts or refuses it, and says what to answer. */
  delivery(delivery: Delivery, idOrSlug: string, span: Span): Promise<Answer>;
  /** The body did not fit: refused before any gate, in every mode. */
  tooLarge(delivery: Delivery, idOrSlug: string, span: Span): Promise<Answer>;
  /** It arrived when a stop had begun: nothing new is taken, and its record says so. */
  stopping(delivery: Delivery, idOrSlug: string, span: Span): Promise<Answer>;
  /** No memory is left for its body: it was not read to its end, so nothing can be kept. */
  overloaded(): Answer;
}

/** One delivery on its way and what was found about it so far. */
export interface Reception {
  readonly delivery: Delivery;
  readonly trigger: PreparedTrigger | undefined;
  readonly span: Span | undefined;
  readonly judgement: Judgement;
  /** Monotonic milliseconds. */
  readonly startedAt: number;
  /** Set where a person delivers again what was refused: what its record says instead. */
  readonly redelivery?: Pick<DeliveryRecord, 'receivedAt' | 'redeliveredFrom' | 'detail'> | undefined;
}

/** A reception whose delivery found its trigger. */
export type TriggeredReception = Reception & { readonly trigger: PreparedTrigger };

/** How the walk ended. */
interface End {
  /** Why the answer is an error; null where it is a 200. */
  readonly refusal: Reason | null;
  readonly violations: readonly Reason[];
  readonly runId: string | null;
}

// A publisher sends a handshake once or twice; anybody may send one that is not signed, and must not fill the log with it.
const KEPT_HANDSHAKES: RateLimit = { permitsPerSecond: 1 / 60, burstSize: 10 };

const UNJUDGED: Judgement = { refusal: null, reason: null, violations: [], detail: null, evidence: {}, story: [] };

type ConcludingServices = ReceiverServices & {
  readonly isWorthKeeping: (reception: TriggeredReception) => boolean;
};

/**
 * The walk of a delivery: find the trigger, run its gates, read the body, plan the run, commit it all at once, answer.
 * Each stage either hands the delivery on or refuses it; nothing is written before the one commit.
 */
export function receiver(services: ReceiverServices): Receiver {
  const isWorthKeeping = handshakeLog(services.clock);
  return {
    async delivery(delivery, idOrSlug, span) {
      const startedAt = services.clock.monotonic();
      let judged: TriggeredReception | undefined;
      // The gates may think for seconds: what a deploy changed meanwhile counts, so nothing is decided by a trigger of before.
      for (let left = START_TRIES; left > 0; left -= 1) {
        const triggers = services.triggers();
        const trigger = triggers.find(idOrSlug);
        const arrived: Reception = { delivery, trigger, span, judgement: UNJUDGED, startedAt };
        if (trigger === undefined) return refuse(arrived, 'unknown_flow', services);
        // Before any gate: what is no delivery must not use up what deliveries may.
        if (delivery.method !== 'POST' && !isGreeting(delivery, trigger)) {
          return methodNotAllowed(trigger.handshakes.map(({ method }) => method));
        }
        if (admissionTo(trigger, services) === 'disabled') return refuse(arrived, 'flow_disabled', services);
        if (judged !== undefined && hasSameGates(judged.trigger, trigger)) judged = { ...judged, trigger };
        else {
          const judge = delivery.method === 'POST' ? runGates : rehearseGates;
          judged = { ...arrived, trigger, judgement: await judge(trigger.gates, delivery, trigger.mode) };
          if (services.triggers() !== triggers) continue;
        }
        const answer = await conclude(judged, { ...services, isWorthKeeping });
        if (answer !== undefined) return answer;
        // What outdated the run is stored already, and in the catalog by the next turn.
        await setImmediate();
      }
      const detail = 'the flow changed each time that a run of it was about to start';
      const arrived = { delivery, trigger: judged?.trigger, span, judgement: { ...UNJUDGED, detail }, startedAt };
      return refuse(arrived, 'store_unavailable', services);
    },
    tooLarge(delivery, idOrSlug, span) {
      const trigger = services.triggers().find(idOrSlug);
      const startedAt = services.clock.monotonic();
      const reception = { delivery, trigger, span, judgement: UNJUDGED, startedAt };
      return refuse(reception, 'body_too_large', services);
    },
    stopping(delivery, idOrSlug, span) {
      const trigger = services.triggers().find(idOrSlug);
      const startedAt = services.clock.monotonic();
      const judgement = { ...UNJUDGED, detail: 'the service was stopping' };
      return refuse({ delivery, trigger, span, judgement, startedAt }, 'store_unavailable', services);
    },
    overloaded() {
      services.metrics.webhookRejected.inc({ flow: 'none', reason: 'store_unavailable' });
      return refused('store_unavailable');
    },
  };
}

/** What follows from the verdict of the gates; undefined where a deploy came in between. */
async function conclude(judged: TriggeredReception, services: ConcludingServices): Promise<Answer | undefined> {
  const { delivery, judgement } = judged;
  const handshake = findHandshake(judged);
  if (handshake !== undefined) return shakeHands(judged, handshake, services);
  if (judgement.refusal !== null) return refuse(judged, judgement.refusal, services);
  if (delivery.method !== 'POST') return methodNotAllowed();
  if (isMalformedJson(delivery.body, delivery.headers['content-type'])) {
    return refuse(judged, 'invalid_json', services);
  }
  return accept(judged, services);
}

/** Whether a request that is no POST is a publisher's test of the endpoint. */
function isGreeting(delivery: Delivery, trigger: PreparedTrigger): boolean {
  return isHandshake(trigger.handshakes, handshakeRequest(delivery, trigger, {}));
}

/** A publisher's test of the endpoint; one that it does not sign passes without a signature. */
function findHandshake({ delivery, trigger, judgement }: TriggeredReception): RecognisedHandshake | undefined {
  const { refusal, evidence } = judgement;
  if (trigger.handshakes.length === 0 || (refusal !== null && !isUnverified(refusal))) return undefined;
  return recogniseHandshake(trigger.handshakes, handshakeRequest(delivery, trigger, evidence));
}

/**
 * A handshake is kept in the log; it starts no run and uses no nonce. One that must not be answered is refused under every
 * mode: it is no delivery that a lenient mode could let in, and its answer would be made with the key.
 */
async function shakeHands(
  reception: TriggeredReception,
  handshake: RecognisedHandshake,
  services: ConcludingServices,
): Promise<Answer> {
  const { judgement } = reception;
  const { name, answer, offer } = handshake;
  let { refusal } = handshake;
  if (offer !== undefined && refusal === undefined) {
    try {
      refusal = await takeKey({ ...reception, ...offer });
    } catch (error) {
      return notStored(reception, error, services);
    }
  }
  if (refusal !== undefined) return turnAway(reception, { name, ...refusal }, services);
  if (answer === undefined) {
    return refuse(reception, judgement.violations.find(isUnverified) ?? 'signature_malformed', services);
  }
  if (offer !== undefined) {
    const { flowId, triggerKey } = reception.trigger.trigger;
    services.logger.info({ flowId, triggerKey, handshake: name }, 'a publisher handed the key of a trigger over');
  }
  const clean = { ...UNJUDGED, detail: `handshake ${name}`, evidence: judgement.evidence, story: judgement.story };
  const greeted = { ...reception, judgement: clean };
  if (services.isWorthKeeping(reception)) {
    await keep(greeted, { statusCode: answer.statusCode, reason: null, runId: null }, services);
  }
  end(greeted, { refusal: null, violations: [], runId: null }, services);
  return answer;
}

/** Says which handshakes are kept: those that are signed, and of the others so many of each trigger. */
function handshakeLog(clock: Clock): (reception: TriggeredReception) => boolean {
  const buckets = new Map<string, TokenBucket>();
  return ({ trigger: { trigger }, judgement }) => {
    if (judgement.evidence.isVerified === true) return true;
    const key = `${trigger.flowId}|${trigger.triggerKey}`;
    const now = clock.monotonic();
    const known = buckets.get(key) ?? fullBucket(KEPT_HANDSHAKES, now);
    const { bucket, retryAfterMs } = takePermit(known, KEPT_HANDSHAKES, now);
    buckets.set(key, bucket);
    return retryAfterMs === 0;
  };
}

/** Refuses a handshake for a reason of its own; what the gates say about a delivery does not count here. */
async function turnAway(
  reception: TriggeredReception,
  { name, statusCode, reason, detail }: HandshakeRefusal & Pick<RecognisedHandshake, 'name'>,
  services: ReceiverServices,
): Promise<Answer> {
  const { evidence, story } = reception.judgement;
  const violations = [reason];
  const judgement = { ...UNJUDGED, reason, violations, detail: `handshake ${name}: ${detail}`, evidence, story };
  const turnedAway = { ...reception, judgement };
  await keep(turnedAway, { statusCode, reason, runId: null }, services);
  end(turnedAway, { refusal: reason, violations, runId: null }, services);
  return refused(reason, statusCode);
}

async function accept(reception: TriggeredReception, services: ReceiverServices): Promise<Answer | undefined> {
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
  const violations = result.isReplay ? [...judgement.violations, 'nonce_replayed' as const] : judgement.violations;
  end(reception, { refusal: null, violations, runId: result.runId }, services);
  const { runId, kind } = result;
  return accepted({ runId, deliveryId: delivery.id, kind }, trigger.acceptedResponse);
}

/** 503, not 4xx: the publisher did nothing wrong, and what it sends again with the same nonce is accepted. */
function notStored(reception: TriggeredReception, error: unknown, services: ReceiverServices): Answer {
  const { delivery, judgement } = reception;
  services.logger.error({ err: error, deliveryId: delivery.id }, 'a delivery could not be stored');
  end(reception, { refusal: 'store_unavailable', violations: judgement.violations, runId: null }, services);
  return refused('store_unavailable');
}

/** A nonce that was accepted before: 409, or the first run's id where the trigger acknowledges honest retries. */
async function answerReplay(
  reception: TriggeredReception,
  replay: Extract<AcceptResult, { kind: 'replayed' }>,
  services: ReceiverServices,
): Promise<Answer> {
  const { delivery, trigger } = reception;
  const isAcknowledged = trigger.trigger.inputs.webhookDuplicateResponse === 'acknowledge' && replay.hasSameBody;
  if (!isAcknowledged) return refuse(reception, 'nonce_replayed', services);
  const { runId } = replay;
  await keep(reception, { statusCode: 200, reason: 'nonce_replayed', runId }, services);
  end(reception, { refusal: null, violations: ['nonce_replayed'], runId: null }, services);
  return accepted({ runId, deliveryId: delivery.id, kind: 'duplicate' }, trigger.acceptedResponse);
}

async function refuse(reception: Reception, reason: Reason, services: ReceiverServices): Promise<Answer> {
  const answer = refused(reason);
  await keep(reception, { statusCode: answer.statusCode, reason, runId: null }, services);
  end(reception, { refusal: reason, violations: reception.judgement.violations, runId: null }, services);
  return answer;
}

/** Keeps what started no run. The answer stands even where the log cannot be written: refusing needs no disk. */
async function keep(reception: Reception, answer: RecordedAnswer, services: ReceiverServices): Promise<void> {
  try {
    await services.store.recordDelivery(recordOf(reception, answer, services));
  } catch (error) {
    const about = { deliveryId: reception.delivery.id, reason: answer.reason };
    logEvent(services.logger, 'WebhookRejectionStoreFailed', { err: error, ...about });
  }
}

function end(reception: Reception, ending: End, services: ReceiverServices): void {
  const { delivery, span, trigger, judgement } = reception;
  report(
    {
      ...ending,
      delivery,
      span,
      flowId: trigger?.flow.record.id ?? null,
      triggerKey: trigger?.trigger.triggerKey ?? null,
      mode: trigger?.mode ?? services.defaultMode,
      scheme: trigger?.schemeName ?? null,
      evidence: judgement.evidence,
      detail: judgement.detail,
      processingMs: services.clock.monotonic() - reception.startedAt,
    },
    services,
  );
}
