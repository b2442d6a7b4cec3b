import { createHash, createHmac } from 'node:crypto';
import type { ChainEnds } from './store.ts';

/** How long interventions are kept. Longer than deliveries and runs: who did something last year may be asked. */
export const ACTIVITY_DAYS = 365;

/**
 * The activity log is a chain: each row has a hash of what it says and of the hash before it, so that no row can be changed,
 * removed or put in between without breaking a link. With a key only its holder can make hashes; without one the chain
 * shows changes by those who do not compute it again.
 */
export interface ChainKey {
  /** Tells rows of this key from others; reveals nothing of the key. */
  readonly id: string;
  readonly key: Uint8Array;
}

/** What a row says; its place in the chain follows from the hash before it. */
export interface ChainedContent {
  readonly id: string;
  readonly at: number;
  readonly actor: string;
  readonly clientIp: string | null;
  readonly action: string;
  readonly targetType: string | null;
  readonly targetId: string | null;
  /** JSON text, as it is stored. */
  readonly details: string;
  readonly reason: string | null;
  readonly statusCode: number | null;
}

export interface ChainedRow extends ChainedContent {
  readonly seq: number;
  /** Of the key that its hash was made with; null without one. */
  readonly keyId: string | null;
  readonly previousHash: string;
  readonly hash: string;
}

type HashedRow = ChainedContent & Pick<ChainedRow, 'keyId' | 'previousHash'>;

/** The bytes are UTF-8 of a JSON list, so that no two rows have the same ones. */
export function hashOfRow(row: HashedRow, key: ChainKey | undefined): string {
  return digest(key, [
    'sluice activity 1',
    row.previousHash,
    row.keyId,
    row.id,
    row.at,
    row.actor,
    row.clientIp,
    row.action,
    row.targetType,
    row.targetId,
    row.details,
    row.reason,
    row.statusCode,
  ]);
}

/** Who has no key can neither cut the chain at an end nor put an older end in its place, unless it was once stored. */
export function sealOf(ends: Omit<ChainEnds, 'seal'>, key: ChainKey | undefined): string {
  const { removedSeq, removedHash, newestSeq, newestHash, keyId } = ends;
  return digest(key, ['sluice activity ends 1', keyId, removedSeq, removedHash, newestSeq, newestHash]);
}

function digest(key: ChainKey | undefined, fields: readonly (string | number | null)[]): string {
  const made = key === undefined ? createHash('sha256') : createHmac('sha256', key.key);
  return made.update(JSON.stringify(fields)).digest('hex');
}
