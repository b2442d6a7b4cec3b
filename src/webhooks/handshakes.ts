import type { WebhookInputs } from '../manifest/webhook-inputs.ts';
import type { Clock } from '../model/clock.ts';
import { DETAILS, type Delivery, type Reason } from '../model/delivery.ts';
import { triggerMapKey } from '../model/trigger-name.ts';
import { isUnverified, REASONS, refused, type WebhookAnswer } from './answers.ts';
import type { Evidence } from './gate.ts';
import { answerInTime, failureOf } from './gates/operator-gate.ts';
import { fullBucket, takePermit } from './gates/rate-limit.ts';
import { CLEAN, dryRunGates, refusedFor } from './pipeline.ts';
import {
  endWithoutRun,
  notStored,
  type OutcomeServices,
  refuse,
  reportDelivery,
  type TriggeredReception,
} from './record.ts';
import {
  findHandshake,
  type HandshakeRefusal,
  type HandshakeRequest,
  isSameSecret,
  type RecognisedHandshake,
  recogniseHandshake,
} from './schemes/handshake.ts';
import { PERMISSION_HANDSHAKES } from './schemes/publishers/index.ts';
import type { PreparedTrigger } from './triggers.ts';

// Publishers send a handshake once or twice. Anyone can send unsigned ones, and must not be able to fill the log.
const KEPT_HANDSHAKES = { permitsPerSecond: 1 / 60, burstSize: 10 };

/** Whether the delivery is a publisher's test of the endpoint, answered or not. */
export function isHandshake(delivery: Delivery, trigger: PreparedTrigger): boolean {
  return findHandshake(trigger.handshakes, handshakeRequest(delivery, trigger, {})) !== undefined;
}

type AnswerHandshake = (
  reception: TriggeredReception,
  isConfirmed: boolean,
  otherwise: () => WebhookAnswer | undefined | Promise<WebhookAnswer | undefined>,
) => Promise<WebhookAnswer | undefined>;

/**
 * Answers a publisher's test of the endpoint after its gates ran; other deliveries get the answer of `otherwise`.
 * Undefined until the store has confirmed the trigger: a deploy elsewhere may have made the request a delivery.
 */
export function handshakeAnswers(services: OutcomeServices): AnswerHandshake {
  const isWorthKeeping = handshakeLog(services.clock);
  return async (reception, isConfirmed, otherwise) => {
    const handshake = judgedHandshake(reception);
    if (handshake === undefined) return otherwise();
    return isConfirmed ? shakeHands(reception, handshake, { ...services, isWorthKeeping }) : undefined;
  };
}

/** Counts for deliveries only: some publishers do not sign handshakes, and none gives them the form of deliveries. */
function isOfDelivery(reason: Reason): boolean {
  return isUnverified(reason) || reason === 'body_schema';
}

/** The handshake in the request, if the gates allow it. If the publisher does not sign it, it needs no signature. */
function judgedHandshake({ delivery, trigger, judgement }: TriggeredReception): RecognisedHandshake | undefined {
  const { refusal, evidence } = judgement;
  if (refusal !== null && !isOfDelivery(refusal)) return undefined;
  return recogniseHandshake(trigger.handshakes, handshakeRequest(delivery, trigger, evidence));
}

type HandshakeServices = OutcomeServices & {
  readonly isWorthKeeping: (reception: TriggeredReception) => boolean;
};

/**
 * Answers a handshake and logs it; it starts no run and uses no nonce. One that must not be answered is refused in
 * every mode: it is not a delivery that a lenient mode could let in, and its answer would be made with the key.
 */
async function shakeHands(
  reception: TriggeredReception,
  handshake: RecognisedHandshake,
  services: HandshakeServices,
): Promise<WebhookAnswer> {
  const { judgement } = reception;
  const { name, answer, offer } = handshake;
  let { refusal } = handshake;
  if (offer !== undefined && refusal === undefined) {
    try {
      refusal = await takeKey(offer.key, reception);
    } catch (error) {
      return notStored(reception, error, services);
    }
  }
  if (handshake.visit !== undefined && refusal === undefined) {
    refusal = await visit(handshake.visit.url, reception.trigger.visit);
  }
  if (refusal !== undefined) return turnAway(reception, { name, ...refusal }, services);
  if (answer === undefined) {
    const reason = judgement.violations.find(isUnverified) ?? 'signature_malformed';
    const refusal = await refuse(reception, reason, services);
    return handshake.failsEmpty === true ? { ...refusal, contentType: 'text/plain', body: '' } : refusal;
  }
  if (offer !== undefined) {
    const { flowId, triggerKey } = reception.trigger.trigger;
    services.logger.info({ flowId, triggerKey, handshake: name }, 'a publisher sent the key of a trigger');
  }
  const { evidence, gateResults } = judgement;
  const greeted = {
    ...reception,
    judgement: { ...CLEAN, detail: `${DETAILS.handshake}${name}`, evidence, gateResults },
  };
  if (services.isWorthKeeping(reception)) return endWithoutRun(greeted, answer, services);
  reportDelivery(greeted, null, services);
  return answer;
}

/** Calls the URL that completes a handshake. If the call fails, 503: the publisher may send the handshake again. */
async function visit(url: string | undefined, call: PreparedTrigger['visit']): Promise<HandshakeRefusal | undefined> {
  if (url === undefined) return refusal('signature_malformed', 'its URL is not the publisher’s');
  try {
    if (call === undefined) throw new Error('no URL can be called here');
    await answerInTime(() => call(url));
    return undefined;
  } catch (error) {
    return { statusCode: 503, reason: 'verifier_error', detail: failureOf('the call of its URL', error) };
  }
}

/** Refuses a handshake for the given reason; the gates' failures, which are about deliveries, do not count here. */
function turnAway(
  reception: TriggeredReception,
  { name, statusCode, reason, message, detail }: HandshakeRefusal & Pick<RecognisedHandshake, 'name'>,
  services: OutcomeServices,
): Promise<WebhookAnswer> {
  const { evidence, gateResults } = reception.judgement;
  const judgement = { ...CLEAN, detail: `${DETAILS.handshake}${name}: ${detail}`, evidence, gateResults };
  const turnedAway = { ...reception, judgement: refusedFor(judgement, reason) };
  return endWithoutRun(turnedAway, refused(reason, { statusCode, message }), services);
}

/** Decides which handshakes are kept: all verified ones, and a limited number of the others for each trigger. */
function handshakeLog(clock: Clock): HandshakeServices['isWorthKeeping'] {
  const buckets = new Map<string, ReturnType<typeof fullBucket>>();
  return ({ trigger: { trigger }, judgement }) => {
    if (judgement.evidence.isVerified === true) return true;
    const key = triggerMapKey(trigger);
    const now = clock.monotonic();
    const known = buckets.get(key) ?? fullBucket(KEPT_HANDSHAKES, now);
    const { bucket, retryAfterMs } = takePermit(known, KEPT_HANDSHAKES, now);
    buckets.set(key, bucket);
    return retryAfterMs === 0;
  };
}

/**
 * Stores the key that a handshake sends as the key of the trigger, or says why not. Resolves when the key is durable;
 * rejects if it cannot be stored.
 *
 * The sender of the first handshake decides the key of the trigger for good. So the handshake must pass every other
 * gate, in every mode, and no later handshake can change the key.
 */
export async function takeKey(
  key: string | undefined,
  reception: Pick<TriggeredReception, 'delivery' | 'trigger' | 'judgement'>,
): Promise<HandshakeRefusal | undefined> {
  const { trigger } = reception;
  if (key === undefined) return refusal('signature_malformed', 'what it brings does not have the form of a key');
  const objection = await objectionOf(reception);
  if (objection !== undefined) return refusal(objection, 'another gate refuses it');
  const configured = trigger.trigger.keys.current;
  if (configured !== undefined) {
    return [configured, ...(trigger.trigger.keys.others ?? [])].some((each) => isSameSecret(key, each))
      ? undefined
      : refusal('signature_mismatch', 'its key is not the configured key');
  }
  if (trigger.keySlot?.isInUse !== true) {
    return refusal('key_not_configured', whyNotLearnt(trigger.trigger.inputs));
  }
  return (await trigger.keySlot.learn(key))
    ? undefined
    : refusal('signature_mismatch', 'its key is not the one that was learned before');
}

/** A failure that counts for handshakes too. Under Enforce, the gates after the signature gate have not run yet. */
async function objectionOf({
  delivery,
  trigger,
  judgement,
}: Pick<TriggeredReception, 'delivery' | 'trigger' | 'judgement'>): Promise<Reason | undefined> {
  const known = judgement.violations.find((reason) => !isOfDelivery(reason));
  if (known !== undefined || trigger.mode !== 'Enforce') return known;
  const signatureAt = trigger.gates.findIndex(({ name }) => name === 'signature');
  const later = await dryRunGates(trigger.gates.slice(signatureAt + 1), delivery, trigger.mode);
  return later.violations.find((reason) => !isOfDelivery(reason));
}

function whyNotLearnt({ webhookLearnKey }: WebhookInputs): string {
  return webhookLearnKey === true
    ? 'the key of the trigger is configured as empty: none is learned'
    : 'the trigger has no key, and learns none without "webhookLearnKey": true';
}

function refusal(reason: Reason, detail: string): HandshakeRefusal {
  return { statusCode: REASONS[reason].statusCode, reason, detail };
}

/** The answer to a request that asks whether deliveries may be sent; undefined for other requests. */
export function permissionFor(headers: Delivery['headers']): WebhookAnswer | undefined {
  const asked = { method: 'OPTIONS', headers, query: new URLSearchParams(), body: Buffer.alloc(0) };
  const keys = { current: undefined, previous: undefined };
  return recogniseHandshake(PERMISSION_HANDSHAKES, { ...asked, isVerified: false, keys })?.answer;
}

/** A delivery as handshakes see it. */
function handshakeRequest(
  delivery: Delivery,
  { trigger, keys, endpointOf }: PreparedTrigger,
  { isVerified, usedPreviousKey, otherKey }: Evidence,
): HandshakeRequest {
  const { method, headers, path, body } = delivery;
  return {
    method,
    headers,
    publicUrl: endpointOf(delivery),
    query: new URLSearchParams(path.split('?')[1] ?? ''),
    body,
    isVerified: isVerified === true,
    usedPreviousKey,
    keys: otherKey === undefined ? keys : { ...keys, current: keys.others?.[otherKey] },
    verifyToken: trigger.verifyToken,
  };
}
