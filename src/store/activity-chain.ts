import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { ActivityFault, ChainEnds, ChainPlace, ReadRow } from './store.ts';

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

/** Whether a row or the ends have the hash that they should; undefined where that takes a key that is not given. */
export function isOwnHash(row: ChainedRow, key: ChainKey | undefined): boolean | undefined {
  return isKnown(row, key) ? isSame(row.hash, hashOfRow(row, row.keyId === null ? undefined : key)) : undefined;
}

export function isOwnSeal(ends: ChainEnds, key: ChainKey | undefined): boolean | undefined {
  return isKnown(ends, key) ? isSame(ends.seal, sealOf(ends, ends.keyId === null ? undefined : key)) : undefined;
}

const isKnown = ({ keyId }: Pick<ChainedRow, 'keyId'>, key: ChainKey | undefined) =>
  keyId === null || keyId === key?.id;

function isSame(stored: string, computed: string): boolean {
  const [left, right] = [Buffer.from(stored), Buffer.from(computed)];
  return left.byteLength === right.byteLength && timingSafeEqual(left, right);
}

/** Where a chain begins: after what retention removed. */
export function placeAfter({ removedSeq, removedHash }: ChainEnds): ChainPlace {
  return {
    last: { seq: removedSeq, hash: removedHash, row: null, isOwn: true, isProven: true },
    beforeLast: null,
  };
}

/** Compares a row with those before it, and yields what is wrong with these. */
export function readRow(
  { last, beforeLast }: ChainPlace,
  row: ChainedRow,
  key: ChainKey | undefined,
): { place: ChainPlace; fault: ActivityFault | undefined } {
  const { seq, hash, id, at, actor, action } = row;
  const isOwn = isOwnHash(row, key);
  const isProven = isOwn === true && row.keyId !== null;
  const read: ReadRow = { seq, hash, row: { id, at, actor, action }, isOwn, isProven };
  const missing = seq - last.seq - 1;
  return { place: { last: read, beforeLast: last }, fault: faultOf() };

  function faultOf(): ActivityFault | undefined {
    if (row.previousHash === last.hash) {
      if (last.isOwn === false) return changed(last);
      return missing === 0 ? undefined : { ...changed(read), message: `row ${seq} was given another number` };
    }
    if (beforeLast !== null && row.previousHash === beforeLast.hash) return inserted(last);
    if (missing > 0) return removed(last.seq + 1, seq - 1);
    if (last.isOwn === false) return changed(last);
    // Its hash is the one that was made, so the next row is what is not there.
    if (last.isProven) {
      const place =
        last.row === null ? `before row ${seq}` : `between rows ${last.seq} and ${seq}, which were renumbered`;
      return { kind: 'removed', seq, row: null, message: `rows were removed ${place}` };
    }
    return {
      ...changed(last),
      message: `row ${last.seq} was changed and its hash made again, or rows after it were removed`,
    };
  }
}

/** What is wrong with the last rows, once there are no more. */
export function readEnds(
  { last, beforeLast }: ChainPlace,
  ends: ChainEnds,
  key: ChainKey | undefined,
): readonly ActivityFault[] {
  const faults: ActivityFault[] = [];
  const isNewest = last.hash === ends.newestHash;
  if (!isNewest && beforeLast?.hash === ends.newestHash) faults.push(inserted(last));
  else if (last.isOwn === false) faults.push(changed(last));
  else if (!isNewest && last.seq < ends.newestSeq) faults.push(removed(last.seq + 1, ends.newestSeq));
  else if (!isNewest) faults.push(last.seq > ends.newestSeq ? inserted(last) : changed(last));
  const isSealed = isOwnSeal(ends, key);
  if (isSealed === false || (key !== undefined && ends.keyId === null)) {
    const why = isSealed === false ? 'was changed' : 'was last written without the key';
    faults.push({ kind: 'ends', seq: null, row: null, message: `the record of the first and the last row ${why}` });
  }
  return faults;
}

const changed = ({ seq, row }: ReadRow): ActivityFault => ({
  kind: 'changed',
  seq,
  row,
  message: `row ${seq} was changed`,
});

const inserted = ({ seq, row }: ReadRow): ActivityFault => ({
  kind: 'inserted',
  seq,
  row,
  message: `row ${seq} was inserted`,
});

const removed = (from: number, to: number): ActivityFault => ({
  kind: 'removed',
  seq: from,
  row: null,
  message: from === to ? `row ${from} was removed` : `rows ${from} to ${to} were removed`,
});
