import { createCipheriv, createDecipheriv, createHmac, randomBytes, scryptSync } from 'node:crypto';

/** With it only its holder can make the hashes of the activity log. */
export interface ChainKey {
  /** Distinguishes rows of this key from others; reveals nothing of the key. */
  readonly id: string;
  readonly key: Uint8Array;
}

/** Seals bodies for the store and opens them again. A sealed body opens only for its own delivery. */
export interface BodySealer {
  /** Distinguishes bodies sealed with this key from others; reveals nothing of the key. */
  readonly keyId: string;
  /** For the hashes of the activity log. */
  readonly chainKey: ChainKey;
  /** Equal for equal texts. Without the key it reveals nothing of a text, however short. */
  digest(text: string): string;
  seal(body: Uint8Array, deliveryId: string): Buffer;
  /** Undefined if the bytes are not those that were sealed. Opens the complete chunks of a truncated body. */
  open(sealed: Uint8Array, about: { readonly deliveryId: string; readonly bodyBytes: number }): Buffer | undefined;
}

const ALGORITHM = 'aes-256-gcm';
const PREFIX_BYTES = 8;
const TAG_BYTES = 16;
/** The size of the part of a body that a list shows: the first chunk can be opened and verified without the others. */
const CHUNK_BYTES = 65_536;
// A passphrase may be short, so each guess costs some 100 ms and 64 MiB. The service pays that once, at the start.
const SCRYPT = { N: 65_536, r: 8, p: 1, maxmem: 128 * 1024 * 1024 };

/** A key that Sluice made: 32 random bytes, which need no derivation. */
export const MADE_KEY = /^sluice-key-([0-9a-f]{64})$/;

export function newKey(): string {
  return `sluice-key-${randomBytes(32).toString('hex')}`;
}

/** Length of a sealed body. */
export function sealedBytes(bodyBytes: number): number {
  return PREFIX_BYTES + bodyBytes + TAG_BYTES * chunkCount(bodyBytes);
}

/**
 * AES-256-GCM in chunks, under a key derived from the operator's. Each chunk has its own nonce, and its tag covers the
 * delivery, the number of the chunk and the length of the body, so that no chunk can be cut, swapped or moved
 * unnoticed.
 */
export function bodySealer(secret: string): BodySealer {
  const [, made] = MADE_KEY.exec(secret) ?? [];
  const key = made === undefined ? scryptSync(secret, 'sluice delivery bodies', 32, SCRYPT) : Buffer.from(made, 'hex');
  const keyId = createHmac('sha256', key).update('key id').digest('hex').slice(0, 12);
  return {
    keyId,
    chainKey: { id: keyId, key: new Uint8Array(createHmac('sha256', key).update('activity').digest()) },
    digest: (text) => createHmac('sha256', key).update('digest of ').update(text).digest('hex').slice(0, 16),
    seal(body, deliveryId) {
      const prefix = randomBytes(PREFIX_BYTES);
      const parts: Buffer[] = [prefix];
      for (let index = 0; index < chunkCount(body.byteLength); index += 1) {
        const cipher = createCipheriv(ALGORITHM, key, nonceOf(prefix, index));
        cipher.setAAD(associated(deliveryId, index, body.byteLength));
        const chunk = body.subarray(index * CHUNK_BYTES, (index + 1) * CHUNK_BYTES);
        parts.push(cipher.update(chunk), cipher.final(), cipher.getAuthTag());
      }
      return Buffer.concat(parts);
    },
    open(sealed, { deliveryId, bodyBytes }) {
      const prefix = sealed.subarray(0, PREFIX_BYTES);
      const parts: Buffer[] = [];
      for (let index = 0; index < chunkCount(bodyBytes); index += 1) {
        const start = PREFIX_BYTES + index * (CHUNK_BYTES + TAG_BYTES);
        const length = Math.min(CHUNK_BYTES, bodyBytes - index * CHUNK_BYTES);
        if (index > 0 && sealed.byteLength < start + length + TAG_BYTES) break;
        const chunk = sealed.subarray(start, start + length + TAG_BYTES);
        const opened = openChunk(chunk, {
          key,
          nonce: nonceOf(prefix, index),
          aad: associated(deliveryId, index, bodyBytes),
        });
        if (opened === undefined) return undefined;
        parts.push(opened);
      }
      return Buffer.concat(parts);
    },
  };
}

function openChunk(
  chunk: Uint8Array,
  { key, nonce, aad }: { readonly key: Buffer; readonly nonce: Buffer; readonly aad: Buffer },
): Buffer | undefined {
  if (chunk.byteLength < TAG_BYTES) return undefined;
  const end = chunk.byteLength - TAG_BYTES;
  const decipher = createDecipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(aad);
  decipher.setAuthTag(chunk.subarray(end));
  try {
    return Buffer.concat([decipher.update(chunk.subarray(0, end)), decipher.final()]);
  } catch {
    // The tag does not match: these are not the bytes that were sealed.
    return undefined;
  }
}

/** Even an empty body has a chunk, so that it is verified too. */
function chunkCount(bodyBytes: number): number {
  return Math.max(1, Math.ceil(bodyBytes / CHUNK_BYTES));
}

function nonceOf(prefix: Uint8Array, index: number): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.set(prefix.subarray(0, PREFIX_BYTES));
  nonce.writeUInt32BE(index, PREFIX_BYTES);
  return nonce;
}

function associated(deliveryId: string, index: number, bodyBytes: number): Buffer {
  return Buffer.from(`${deliveryId}|${index}|${bodyBytes}`);
}
