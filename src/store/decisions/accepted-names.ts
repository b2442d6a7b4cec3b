import type { AcceptedQuery, DeliveryNames, NonceClaim } from '../store.ts';
import type { NonceCall } from './nonce-names.ts';

/** Looks up a nonce of a delivery whose bytes are not known. Finds verified and unverified ones: both were accepted. */
export function askedNonce(
  { flowId, triggerKey, at }: Omit<AcceptedQuery, 'names'>,
  { nonce }: DeliveryNames,
): (NonceCall & { readonly nonce: NonceClaim }) | undefined {
  if (nonce === undefined) return undefined;
  const unknown = { digest: '', bodySha256: '', isTrusted: false, isAsked: true, isEnforced: false };
  return { flowId, triggerKey, nonce: { ...nonce, ...unknown, arrivedAt: at, expiresAt: at } };
}
