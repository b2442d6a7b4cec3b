import type { WebhookInputs } from '../../model/manifest.ts';
import type { Conversation } from './spec.ts';

/** Whether the publisher hands the key over in a handshake. */
export function handsOverKey({ handshakes = [] }: Conversation): boolean {
  return handshakes.some(({ offeredKey }) => offeredKey !== undefined);
}

/** Whether a trigger leaves its key to be learnt. One whose key field is there but empty was meant to have a key. */
export function learnsKey(scheme: Conversation, { webhookHmacKey, webhookSecret }: WebhookInputs): boolean {
  return handsOverKey(scheme) && webhookHmacKey === undefined && webhookSecret === undefined;
}
