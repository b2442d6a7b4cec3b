import { setImmediate } from 'node:timers/promises';
import type { Span } from '@opentelemetry/api';
import { isMalformedJson } from '../expressions/trigger-body.ts';
import { START_TRIES } from '../flows/engine.ts';
import type { Delivery } from '../model/delivery.ts';
import type { AcceptResult, Store } from '../store/store.ts';
import { type AcceptanceServices, acceptDelivery, admissionTo } from './acceptance.ts';
import { type Answer, accepted, methodNotAllowed, refused } from './answers.ts';
import { type HandshakeServices, handshakeLog, isHandshake, judgedHandshake, shakeHands } from './handshakes.ts';
import {
  keepDelivery,
  notStored,
  type OutcomeServices,
  type Reception,
  refuse,
  reportDelivery,
  type TriggeredReception,
} from './outcome.ts';
import { CLEAN, dryRunGates, runGates } from './pipeline.ts';
import { hasSameGates, type TriggerTable } from './triggers.ts';

export interface ReceiverServices extends AcceptanceServices, OutcomeServices {
  readonly store: Store;
  /** The table in force; a deploy puts a new one in its place. */
  readonly triggers: () => TriggerTable;
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
        const answer = await conclude(judged, { ...services, isWorthKeeping });
        if (answer !== undefined) return answer;
        // What outdated the run is stored already, and in the catalog by the next turn.
        await setImmediate();
      }
      const detail = 'the flow changed each time that a run of it was about to start';
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
  services: ReceiverServices & HandshakeServices,
): Promise<Answer | undefined> {
  const { delivery, judgement } = judged;
  const handshake = judgedHandshake(judged);
  if (handshake !== undefined) return shakeHands(judged, handshake, services);
  if (judgement.refusal !== null) return refuse(judged, judgement.refusal, services);
  if (delivery.method !== 'POST') return methodNotAllowed();
  if (isMalformedJson(delivery.body, delivery.headers['content-type'])) {
    return refuse(judged, 'invalid_json', services);
  }
  return accept(judged, services);
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
  const { runId, kind } = result;
  const reason = result.isReplay ? 'nonce_replayed' : judgement.reason;
  reportDelivery(reception, { statusCode: 200, reason, runId }, services);
  return accepted({ runId, deliveryId: delivery.id, kind }, trigger.acceptedResponse);
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
  const outcome = { statusCode: 200, reason: 'nonce_replayed' as const, runId };
  await keepDelivery(reception, outcome, services);
  reportDelivery(reception, { ...outcome, runId: null }, services);
  return accepted({ runId, deliveryId: delivery.id, kind: 'duplicate' }, trigger.acceptedResponse);
}
