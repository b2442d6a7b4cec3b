import type { Clock } from '../model/clock.ts';
import type { LearnedKey, LearnedKeyStore } from '../store/store.ts';
import type { KeyOwner, LearnedKeys } from './gate.ts';
import { isSameSecret } from './schemes/challenge.ts';

/**
 * The learned keys of the process: in memory for the gates, which must not wait for a disk, and durable in the store
 * before anybody hears of them.
 */
export async function openLearnedKeys(store: LearnedKeyStore, clock: Clock): Promise<LearnedKeys> {
  const keys = new Map<string, LearnedKey>();
  for (const key of await store.listLearnedKeys()) keys.set(nameOf(key), key);
  return {
    find(owner) {
      const key = keys.get(nameOf(owner));
      return key?.scheme === owner.scheme ? secretOf(key) : undefined;
    },
    isUnreadable(owner) {
      return keys.get(nameOf(owner))?.secret === null;
    },
    async learn(owner, secret) {
      const known = keys.get(nameOf(owner));
      if (known !== undefined) return isSame(known, owner, secret);
      const kept = await store.learnKey({ ...owner, secret: Buffer.from(secret), learnedAt: clock.now() });
      keys.set(nameOf(owner), kept);
      return isSame(kept, owner, secret);
    },
    async forget({ flowId, triggerKey }) {
      const wasKnown = await store.forgetKey({ flowId, triggerKey });
      keys.delete(nameOf({ flowId, triggerKey }));
      return wasKnown;
    },
  };
}

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
