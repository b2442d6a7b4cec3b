import type { WebhookTrigger } from '../manifest/webhook-inputs.ts';
import type { Store } from '../store/store.ts';
import type { KeyOwner, LearnedKeys } from './gate.ts';
import { handsOverKey, learnsKey } from './keys-in-force.ts';
import type { Conversation } from './schemes/spec.ts';

/** The learned keys of a process; gates are prepared with it before its store is open. */
export interface ProcessKeys extends LearnedKeys {
  /** Reads the keys that were learned earlier. Before that, no key is known and none can be learned. */
  open(store: Pick<Store, 'of'>): Promise<void>;
  /** Reads the keys of a flow again, which another process may have learned or forgotten. */
  refresh(flowId: string): Promise<void>;
}

/** Keeps the key that a trigger's publisher hands over in a handshake. */
interface KeySlot {
  /** Whether the trigger uses a learned key; a configured key takes precedence. */
  readonly isInUse: boolean;
  /** Whether a learned key cannot be read because it is sealed with another key than the process has. */
  isUnreadable(): boolean;
  read(): string | undefined;
  /** Resolves when a key is durable; true if it is this one. The first key stays. */
  learn(key: string): Promise<boolean>;
  /** Yields whether there was a key. The next handshake then counts as the first. */
  forget(): Promise<boolean>;
}

/** Undefined if the scheme's publisher does not hand over a key. */
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

/** Whether a trigger that learns its key has one. */
type LearnedKeyState = 'none' | 'learned' | 'unreadable';

export function stateOf(slot: KeySlot): LearnedKeyState {
  if (slot.isUnreadable()) return 'unreadable';
  return slot.read() === undefined ? 'none' : 'learned';
}

/** Says in words why a trigger has no key to verify with. */
export function missingKey(slot: KeySlot | undefined): string {
  if (slot === undefined) return 'no key';
  if (!slot.isInUse) {
    return stateOf(slot) === 'none' ? 'no key' : 'no key: a learned key is used only with "webhookLearnKey": true';
  }
  return slot.isUnreadable() ? 'a learned key that another SLUICE_STORE_KEY sealed' : 'no key learned yet';
}
