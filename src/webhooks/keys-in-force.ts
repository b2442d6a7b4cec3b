import type { LearnedKeys, WebhookInputs, WebhookTrigger } from './gate.ts';
import type { Conversation } from './schemes/spec.ts';

type Scheme = Conversation & { readonly name: string };

/** Whether the publisher hands the key over in a handshake. */
export function handsOverKey({ handshakes = [] }: Conversation): boolean {
  return handshakes.some(({ offeredKey }) => offeredKey !== undefined);
}

/**
 * Whether a trigger learns its key: only if its manifest says so, because the sender of the first handshake decides
 * which key the trigger trusts. A trigger with an empty key field was meant to have a key, so it learns none.
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
