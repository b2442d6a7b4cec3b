import type { Clock } from '../model/clock.ts';
import type { LearnedKey, Store } from '../store/store.ts';
import type { KeyOwner, LearnedKeys } from './gate.ts';
import { isSameSecret } from './schemes/handshake.ts';

type KeyStore = Pick<Store, 'listLearnedKeys' | 'learnKey' | 'forgetKey'>;

/** The learned keys of the process; gates are prepared with it before its store is open. */
interface ProcessKeys extends LearnedKeys {
  /** Reads the keys that were learned earlier. Before that, no key is known and none can be learned. */
  open(store: KeyStore): Promise<void>;
  /** Reads the keys of a flow again, which another process may have learned or forgotten. */
  refresh(flowId: string): Promise<void>;
}

/** Keeps keys in memory, since gates must not wait for a disk. A key is durable in the store before it is announced. */
export function createLearnedKeys(clock: Clock): ProcessKeys {
  const keys = new Map<string, LearnedKey>();
  let opened: KeyStore | undefined;
  const openStore = () => {
    if (opened === undefined) throw new Error('the store of learned keys is not open yet');
    return opened;
  };
  return {
    async open(store) {
      for (const key of await store.listLearnedKeys()) keys.set(nameOf(key), key);
      opened = store;
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
      const known = keys.get(nameOf(owner));
      if (known !== undefined) return isSame(known, owner, secret);
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
