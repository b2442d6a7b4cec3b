import type { Delivery, Reason } from '../model/delivery.ts';
import type { WebhookInputs } from '../model/manifest.ts';
import { isUnverified, REASONS } from './answers.ts';
import type { Evidence } from './gate.ts';
import { type Judgement, rehearseGates } from './pipeline.ts';
import { type HandshakeRefusal, type HandshakeRequest, isSameSecret } from './schemes/handshake.ts';
import type { PreparedTrigger } from './triggers.ts';

/** A handshake that brings a key, and what the gates said about it. */
export interface KeyOffer {
  readonly key: string | undefined;
  readonly delivery: Delivery;
  readonly trigger: PreparedTrigger;
  readonly judgement: Judgement;
}

/**
 * Makes the key that a handshake brings the trigger's own, and says why where it does not. Resolves when the key is
 * durable; rejects where it cannot be stored.
 *
 * Whoever sends the first handshake decides what the trigger will believe, and for good. So every other gate has to let it
 * pass, whatever the mode, and no later one can change the key.
 */
export async function takeKey(offer: KeyOffer): Promise<HandshakeRefusal | undefined> {
  const { key, trigger } = offer;
  if (key === undefined) return refusal('signature_malformed', 'what it brings has not the form of a key');
  const objection = await objectionOf(offer);
  if (objection !== undefined) return refusal(objection, 'another gate does not let it pass');
  const configured = trigger.trigger.keys.current;
  if (configured !== undefined) {
    return isSameSecret(key, configured)
      ? undefined
      : refusal('signature_mismatch', 'it brings another key than the configured one');
  }
  if (trigger.keySlot?.isInUse !== true) {
    return refusal('key_not_configured', whyNotLearnt(trigger.trigger.inputs));
  }
  return (await trigger.keySlot.learn(key))
    ? undefined
    : refusal('signature_mismatch', 'it brings another key than the one that was learnt before');
}

/** What a gate other than the signature's has against it. Under Enforce those behind that one were not asked yet. */
async function objectionOf({ delivery, trigger, judgement }: KeyOffer): Promise<Reason | undefined> {
  const known = judgement.violations.find((reason) => !isUnverified(reason));
  if (known !== undefined || trigger.mode !== 'Enforce') return known;
  const signatureAt = trigger.gates.findIndex(({ name }) => name === 'signature');
  const later = await rehearseGates(trigger.gates.slice(signatureAt + 1), delivery, trigger.mode);
  return later.reason ?? undefined;
}

function whyNotLearnt({ webhookLearnKey }: WebhookInputs): string {
  return webhookLearnKey === true
    ? 'the key of the trigger is configured as empty: none is learnt'
    : 'the trigger has no key, and learns none without "webhookLearnKey": true';
}

function refusal(reason: Reason, detail: string): HandshakeRefusal {
  return { statusCode: REASONS[reason].statusCode, reason, detail };
}

/** A delivery as handshakes see it. */
export function handshakeRequest(
  { method, headers, path, body }: Delivery,
  { trigger, keys }: PreparedTrigger,
  { isVerified, usedPreviousKey }: Evidence,
): HandshakeRequest {
  return {
    method,
    headers,
    query: new URLSearchParams(path.split('?')[1] ?? ''),
    body,
    isVerified: isVerified === true,
    usedPreviousKey,
    keys,
    verifyToken: trigger.verifyToken,
  };
}
