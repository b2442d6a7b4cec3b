import { createHash, createHmac } from 'node:crypto';
import type { ChainKey } from '../../store/sealed-body.ts';

/** Both ends of the chain: the last row that retention removed, and the newest row. */
export interface ChainEnds {
  readonly removedSeq: number;
  readonly removedHash: string;
  readonly newestSeq: number;
  readonly newestHash: string;
  readonly keyId: string | null;
  readonly seal: string;
}

/** The content of a row; its place in the chain follows from the previous hash. */
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
  /** Id of the key that made the hash; null without one. */
  readonly keyId: string | null;
  readonly previousHash: string;
  readonly hash: string;
}

type HashedRow = ChainedContent & Pick<ChainedRow, 'keyId' | 'previousHash'>;

/**
 * The activity log is a chain: each row has a hash over its own content and the previous hash, so that changing,
 * removing or inserting a row breaks a link. With a key only its holder can make hashes; without one, the chain does
 * not reveal changes by someone who computes the hashes again.
 *
 * Hashes the UTF-8 of a JSON list, so that two different rows never have the same bytes.
 */
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

/** Without the key one can neither cut the chain at an end nor put an older end in place, unless it was once stored. */
export function sealOf(ends: Omit<ChainEnds, 'seal'>, key: ChainKey | undefined): string {
  const { removedSeq, removedHash, newestSeq, newestHash, keyId } = ends;
  return digest(key, ['sluice activity ends 1', keyId, removedSeq, removedHash, newestSeq, newestHash]);
}

function digest(key: ChainKey | undefined, fields: readonly (string | number | null)[]): string {
  const made = key === undefined ? createHash('sha256') : createHmac('sha256', key.key);
  return made.update(JSON.stringify(fields)).digest('hex');
}
