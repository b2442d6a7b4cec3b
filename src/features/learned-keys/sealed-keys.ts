import type { Members } from '../../store/part.ts';
import { type BodySealer, sealedBytes } from '../../store/sealed-body.ts';
import type { LearnedKey, learnedKeysStore } from './store.ts';

type KeyStore = Members<typeof learnedKeysStore>;

/**
 * Seals learned keys at rest. A key sealed with another key, or tampered with, reads as one without a secret: it
 * verifies nothing, and still prevents other keys from taking its place.
 */
export function withSealedKeys(store: KeyStore, sealer: BodySealer | undefined): KeyStore {
  const opened = (key: LearnedKey): LearnedKey => {
    if (key.sealedWith === undefined || key.secret === null) return key;
    const about = { deliveryId: belongsTo(key), bodyBytes: key.secret.byteLength - sealedBytes(0) };
    const secret = sealer?.keyId === key.sealedWith ? sealer.open(key.secret, about) : undefined;
    return secret === undefined
      ? { ...key, secret: null }
      : { ...key, secret: new Uint8Array(secret), sealedWith: undefined };
  };
  return {
    async learnKey(key) {
      if (sealer === undefined || key.secret === null) return opened(await store.learnKey(key));
      const secret = sealer.seal(key.secret, belongsTo(key));
      return opened(await store.learnKey({ ...key, secret, sealedWith: sealer.keyId }));
    },
    async listLearnedKeys() {
      return (await store.listLearnedKeys()).map(opened);
    },
    forgetKey: (trigger) => store.forgetKey(trigger),
  };
}

/** Binds a sealed key to its trigger: it opens for no other trigger, and not as the body of a delivery. */
function belongsTo({ flowId, triggerKey, scheme }: LearnedKey): string {
  return `key of ${JSON.stringify([flowId, triggerKey, scheme])}`;
}
