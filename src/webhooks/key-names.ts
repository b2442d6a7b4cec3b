import { createHash, randomBytes } from 'node:crypto';

/** A key as it was configured or learned. */
export interface NamedKey {
  readonly text: string;
  /** The key itself is sent, as a token, or may be: nothing is known of a verifier in code. */
  readonly isSent: boolean;
}

/** Names keys so that the names can be stored and shown. Equal keys have equal names. */
export type NameKey = (key: NamedKey) => string;

/** Publishers' keys are longer; a person thought up any shorter one. */
const MIN_SHOWN_KEY_BYTES = 16;

/**
 * The first 8 hex digits of the SHA-256 of a key as configured, so that an operator can compare it with the key that
 * the publisher has. The key never leaves the process, and this does not give it away: of a random key of 16 bytes,
 * 32 of 128 bits become known, and 2^96 remaining keys are too many to try. A shorter key has no fingerprint, because
 * it could be guessed and each guess checked. Readers of fingerprints may also read deliveries with signatures, which
 * check a guess better. A key that is itself sent has none either: a person chose it, and no signature checks a
 * guess.
 */
export function fingerprintOf({ text, isSent }: NamedKey): string | undefined {
  // Two hex digits are one byte of the key.
  const bytes = /^[0-9a-f]+$/i.test(text) ? text.length / 2 : Buffer.byteLength(text);
  if (isSent || bytes < MIN_SHOWN_KEY_BYTES) return undefined;
  return createHash('sha256').update(text).digest('hex').slice(0, 8);
}

/**
 * Names keys for the figures about them. `digest` uses the store key, which the database does not have, so a reader of
 * the database cannot check guesses. Without `digest`, the name is the fingerprint. A key that may not have a
 * fingerprint gets a random name for the life of the process: its figures start again with the next process.
 */
export function createKeyNames(digest: ((text: string) => string) | undefined): NameKey {
  const byChance = new Map<string, string>();
  return (key) => {
    if (digest !== undefined) return digest(JSON.stringify(['key of a trigger', key.text]));
    const name = fingerprintOf(key) ?? byChance.get(key.text) ?? randomBytes(8).toString('hex');
    if (fingerprintOf(key) === undefined) byChance.set(key.text, name);
    return name;
  };
}
