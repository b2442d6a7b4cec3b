import { type ServicePart, servicePart } from '../../dashboard/services.ts';
import type { Members } from '../../store/part.ts';
import { type BodySealer, sealedBytes } from '../../store/sealed-body.ts';
import type { KeyOwner } from '../../webhooks/gate.ts';
import { isSameSecret } from '../../webhooks/schemes/handshake.ts';
import { type LearnedKey, learnedKeysStore } from './store.ts';

type KeyStore = Members<typeof learnedKeysStore>;

/** Keeps keys in memory, since gates must not wait for a disk. A key is durable in the store before it is announced. */
export const createLearnedKeys: NonNullable<ServicePart['learnedKeys']> = ({ clock, sealer }) => {
  const keys = new Map<string, LearnedKey>();
  let opened: ReturnType<typeof withSealedKeys> | undefined;
  const openStore = () => {
    if (opened === undefined) throw new Error('the store of learned keys is not open yet');
    return opened;
  };
  return {
    async open(store) {
      const own = withSealedKeys(store.of(learnedKeysStore), sealer);
      for (const key of await own.listLearnedKeys()) keys.set(nameOf(key), key);
      opened = own;
    },
    async refresh(flowId) {
      const before = new Map(keys);
      const stored = new Map((await openStore().listLearnedKeys()).map((key) => [nameOf(key), key]));
      for (const [name, { flowId: owner }] of [...before, ...stored]) {
        // Keys that this process learned or forgot in the meantime are newer than those it read.
        if (owner !== flowId || keys.get(name) !== before.get(name)) continue;
        const key = stored.get(name);
        if (key === undefined) keys.delete(name);
        else keys.set(name, key);
      }
    },
    find(owner) {
      const key = keys.get(nameOf(owner));
      return key?.scheme === owner.scheme ? secretOf(key) : undefined;
    },
    isUnreadable(owner) {
      return keys.get(nameOf(owner))?.secret === null;
    },
    async learn(owner, secret) {
      // The store decides: another replica may have forgotten the key that this process knows.
      const kept = await openStore().learnKey({ ...owner, secret: Buffer.from(secret), learnedAt: clock.now() });
      keys.set(nameOf(owner), kept);
      return isSame(kept, owner, secret);
    },
    async forget({ flowId, triggerKey }) {
      const wasKnown = await openStore().forgetKey({ flowId, triggerKey });
      keys.delete(nameOf({ flowId, triggerKey }));
      return wasKnown;
    },
  };
};

function isSame(kept: LearnedKey, { scheme }: KeyOwner, secret: string): boolean {
  const text = secretOf(kept);
  return text !== undefined && kept.scheme === scheme && isSameSecret(secret, text);
}

function secretOf({ secret }: LearnedKey): string | undefined {
  return secret === null ? undefined : Buffer.from(secret).toString('utf8');
}

function nameOf({ flowId, triggerKey }: Pick<KeyOwner, 'flowId' | 'triggerKey'>): string {
  return `${flowId}/${triggerKey}`;
}

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

export const learnedKeys = servicePart({ name: 'learned-keys', learnedKeys: createLearnedKeys });
