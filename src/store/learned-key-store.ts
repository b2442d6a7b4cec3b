/** Keys of triggers that their publishers handed over in a handshake. */
export interface LearnedKeyStore {
  /** Keeps the key of a trigger that has none here, and leaves any other alone; yields the one that is kept. */
  learnKey(key: LearnedKey): Promise<LearnedKey>;
  /** In no particular order. */
  listLearnedKeys(): Promise<LearnedKey[]>;
  /** Yields whether there was one. */
  forgetKey(trigger: { flowId: string; triggerKey: string }): Promise<boolean>;
}

export interface LearnedKey {
  readonly flowId: string;
  readonly triggerKey: string;
  /** The scheme whose handshake brought it; it is no key of any other. */
  readonly scheme: string;
  /** Null where it is sealed with a key that this process has not. */
  readonly secret: Uint8Array | null;
  /** Names the key that the stored secret is sealed with; absent where it is plain, and so above the store. */
  readonly sealedWith?: string | undefined;
  readonly learnedAt: number;
}
