import type { WebhookTrigger } from '../manifest/webhook-inputs.ts';
import type { Clock } from '../model/clock.ts';
import type { LearnedKey, Store } from '../store/store.ts';
import type { KeyOwner, LearnedKeys } from './gate.ts';
import { handsOverKey, learnsKey } from './keys-in-force.ts';
import { isSameSecret } from './schemes/handshake.ts';
import type { Conversation } from './schemes/spec.ts';

/** Where the key goes that the publisher of a trigger hands over in a handshake. */
interface KeySlot {
  /** Whether the trigger leaves its key to be learnt: a configured one goes before any that was. */
  readonly isInUse: boolean;
  /** Whether a key was learnt that cannot be read, for it is sealed with another key than the process has. */
  isUnreadable(): boolean;
  read(): string | undefined;
  /** Resolves when the key is durable, with whether it is the one that is kept: the first one stays. */
  learn(key: string): Promise<boolean>;
  /** Yields whether there was a key; from then on the next handshake is the first. */
  forget(): Promise<boolean>;
}

/** Undefined where the scheme's publisher hands no key over. */
export function keySlot(
  { flowId, triggerKey, inputs }: WebhookTrigger,
  scheme: (Conversation & { readonly name: string }) | undefined,
  learnedKeys: LearnedKeys | undefined,
): KeySlot | undefined {
  if (scheme === undefined || learnedKeys === undefined || !handsOverKey(scheme)) return undefined;
  const owner: KeyOwner = { flowId, triggerKey, scheme: scheme.name };
  return {
    isInUse: learnsKey(scheme, inputs),
    isUnreadable: () => learnedKeys.isUnreadable(owner),
    read: () => learnedKeys.find(owner),
    learn: (key) => learnedKeys.learn(owner, key),
    forget: () => learnedKeys.forget(owner),
  };
}

/** Whether the key of a trigger that leaves it to be learnt is there. */
type LearnedKeyState = 'none' | 'learned' | 'unreadable';

export function stateOf(slot: KeySlot): LearnedKeyState {
  if (slot.isUnreadable()) return 'unreadable';
  return slot.read() === undefined ? 'none' : 'learned';
}

/** What a trigger has that nothing can be verified with, in words. */
export function missingKey(slot: KeySlot | undefined): string {
  if (slot === undefined) return 'no key';
  if (!slot.isInUse) {
    return stateOf(slot) === 'none' ? 'no key' : 'no key: a learned key is used only with "webhookLearnKey": true';
  }
  return slot.isUnreadable() ? 'a learned key that another SLUICE_STORE_KEY sealed' : 'no key learned yet';
}

type KeyStore = Pick<Store, 'listLearnedKeys' | 'learnKey' | 'forgetKey'>;

/** The learned keys of the process; gates are prepared with it before its store is open. */
interface ProcessKeys extends LearnedKeys {
  /** Reads the keys that were learned before. Until then none is known, and none is learned. */
  open(store: KeyStore): Promise<void>;
  /** Reads the keys of a flow again, which another process may have learned or forgotten. */
  refresh(flowId: string): Promise<void>;
}

/** Keeps keys in memory for the gates, which must not wait for a disk, and in the store before anyone is told of them. */
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
