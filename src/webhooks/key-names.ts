import { createHash, randomBytes } from 'node:crypto';

/** A key as it is configured or was learnt. */
export interface NamedKey {
  readonly text: string;
  /** It is itself sent, as a token, or may be: of a verifier in code nothing is known. */
  readonly isSent: boolean;
}

/** Names keys so that the names can be stored and shown. Equal keys have equal names. */
export type NameKey = (key: NamedKey) => string;

/** The keys of publishers are longer; what is shorter was thought up by a person. */
const MIN_SHOWN_KEY_BYTES = 16;

/**
 * The first 8 hex digits of the SHA-256 of a key as configured, so that an operator can compare it with the key that the
 * publisher has. The key itself never leaves the process, and this does not give it away: of a random key of 16 bytes,
 * 32 of 128 bits become known, and which of the 2^96 keys that are left it is, no one can try. A shorter key could be
 * guessed and each guess checked against it, so it has none. Whoever may read it may also read deliveries with their
 * signatures, which check a guess better. A key that is itself sent has none either: a person chose it, and no signature
 * checks a guess.
 */
export function fingerprintOf({ text, isSent }: NamedKey): string | undefined {
  // Each two digits of hex are one byte of the key.
  const bytes = /^[0-9a-f]+$/i.test(text) ? text.length / 2 : Buffer.byteLength(text);
  if (isSent || bytes < MIN_SHOWN_KEY_BYTES) return undefined;
  return createHash('sha256').update(text).digest('hex').slice(0, 8);
}

/**
 * Makes what names keys for the figures about them. `digest` is one under the store key, which the database does not have,
 * so that a reader of the database can check no guess. Without it the name is the fingerprint; a key that may have none
 * gets a name by chance, which holds as long as the process: its figures start again with the next.
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
