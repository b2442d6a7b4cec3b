import { type BodySealer, sealedBytes } from './sealed-body.ts';
import type { LearnedKey, Store } from './store.ts';

/**
 * A store whose learned keys are sealed at rest. One that was sealed with another key, or tampered with, is shown as a
 * key without a secret: it verifies nothing, and still keeps others from taking its place.
 */
export function withSealedKeys(store: Store, sealer: BodySealer | undefined): Store {
  const opened = (key: LearnedKey): LearnedKey => {
    if (key.sealedWith === undefined || key.secret === null) return key;
    const about = { deliveryId: belongsTo(key), bodyBytes: key.secret.byteLength - sealedBytes(0) };
    const secret = sealer?.keyId === key.sealedWith ? sealer.open(key.secret, about) : undefined;
    return secret === undefined
      ? { ...key, secret: null }
      : { ...key, secret: new Uint8Array(secret), sealedWith: undefined };
  };
  return {
    ...store,
    async learnKey(key) {
      if (sealer === undefined || key.secret === null) return opened(await store.learnKey(key));
      const secret = sealer.seal(key.secret, belongsTo(key));
      return opened(await store.learnKey({ ...key, secret, sealedWith: sealer.keyId }));
    },
    async listLearnedKeys() {
      return (await store.listLearnedKeys()).map(opened);
    },
  };
}

/** A sealed key fits no other trigger, and is no body of a delivery. */
function belongsTo({ flowId, triggerKey, scheme }: LearnedKey): string {
  return `key of ${JSON.stringify([flowId, triggerKey, scheme])}`;
}
