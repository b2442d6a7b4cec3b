import type { LearnedKeys, WebhookInputs, WebhookTrigger } from './gate.ts';
import type { Conversation } from './schemes/spec.ts';

type Scheme = Conversation & { readonly name: string };

/** Whether the publisher hands the key over in a handshake. */
export function handsOverKey({ handshakes = [] }: Conversation): boolean {
  return handshakes.some(({ offeredKey }) => offeredKey !== undefined);
}

/**
 * Whether a trigger leaves its key to be learnt: only where its manifest says so, because the sender of the first handshake
 * decides what the trigger believes. One whose key field is there but empty was meant to have a key.
 */
export function learnsKey(
  scheme: Conversation,
  { webhookLearnKey, webhookHmacKey, webhookSecret }: WebhookInputs,
): boolean {
  return (
    webhookLearnKey === true && handsOverKey(scheme) && webhookHmacKey === undefined && webhookSecret === undefined
  );
}

/** The keys that verify now: the configured keys, or else, if the trigger learns its key, the key learned so far. */
export function keysInForce(
  { flowId, triggerKey, inputs, keys }: WebhookTrigger,
  scheme: Scheme,
  learnedKeys: LearnedKeys | undefined,
): WebhookTrigger['keys'] {
  if (keys.current !== undefined || !learnsKey(scheme, inputs)) return keys;
  return { ...keys, current: learnedKeys?.find({ flowId, triggerKey, scheme: scheme.name }) };
}
