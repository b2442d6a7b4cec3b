import { timingSafeEqual } from 'node:crypto';
import type { Decision } from '../../store/decisions/decision.ts';
import { fixed, type Port, sql } from '../../store/decisions/port.ts';
import type { ChainKey } from '../../store/sealed-body.ts';
import { type ChainEnds, type ChainedRow, hashOfRow, sealOf } from './hashes.ts';
import { CONTENT, findEnds, keepEnds, lockEnds, NO_ENDS } from './rows.ts';

interface PurgedInterventions {
  readonly rows: number;
  /** The first row that is not as it was written; null if none was found. */
  readonly brokenAt: number | null;
}

export interface CheckedInterventions {
  readonly rows: number;
  /** Rows that were written without a key. Anyone who can write to the database can compute their hashes. */
  readonly withoutKey: number;
  /** Rows with a key that this store does not have: they cannot be checked. */
  readonly otherKey: number;
  readonly faults: readonly ActivityFault[];
  /** Where to go on; null once all rows are checked. */
  readonly next: ChainPlace | null;
  /** Null if nothing was ever written. */
  readonly ends: ChainEnds | null;
}

/** A place where the log is not as it was written. */
export interface ActivityFault {
  readonly kind: 'changed' | 'removed' | 'inserted' | 'ends';
  /** The row, or the first missing row; null if the record of the two ends was changed. */
  readonly seq: number | null;
  /** The row as it is now; null if there is none. */
  readonly row: { readonly id: string; readonly at: number; readonly actor: string; readonly action: string } | null;
  readonly message: string;
}

/** A row that was read: the facts that the check of the next rows needs. */
interface ReadRow {
  readonly seq: number;
  readonly hash: string;
  readonly row: ActivityFault['row'];
  /** Whether its hash is right; undefined if that takes a key that was not given. */
  readonly isOwn: boolean | undefined;
  /** Only the holder of the key can have made its hash. */
  readonly isProven: boolean;
}

/** How far a check has come; plain data. */
export interface ChainPlace {
  readonly last: ReadRow;
  readonly beforeLast: ReadRow | null;
}

const ROW = fixed(`seq, key_id AS "keyId", previous_hash AS "previousHash", hash, ${CONTENT.text}`);

const readRows = (port: Port, { after, limit }: { after: number; limit: number }) =>
  port.all<ChainedRow>(sql`SELECT ${ROW} FROM sluice.interventions WHERE seq > ${after} ORDER BY seq LIMIT ${limit}`);

export function* purgeRows(
  port: Port,
  { before, limit }: { before: number; limit: number },
): Decision<PurgedInterventions> {
  const [first] = yield* readRows(port, { after: 0, limit: 1 });
  if (first === undefined || first.at >= before) return { rows: 0, brokenAt: null };
  const ends = yield* lockEnds(port);
  // One row more: the next row confirms a row's hash.
  const rows = yield* readRows(port, { after: ends.removedSeq, limit: limit + 1 });
  const sound = soundRows(port, ends, rows);
  const brokenAt = sound.length < rows.length ? (sound.at(-1)?.seq ?? ends.removedSeq) + 1 : null;
  const young = sound.findIndex(({ at }) => at >= before);
  const old = sound.slice(0, Math.min(limit, young === -1 ? sound.length : young));
  // The time in a row of an unavailable key is not proven: the row is old only if a checked row after it is old.
  const oldest = old.findLastIndex((row) => isOwnHash(row, port.chainKey) === true) + 1;
  const count = oldest > 0 || old.length < limit ? oldest : (yield* hasOldAfter(port, old, before)) ? old.length : 0;
  const last = old[count - 1];
  if (last === undefined) return { rows: 0, brokenAt };
  yield* port.run(sql`DELETE FROM sluice.interventions WHERE seq <= ${last.seq}`);
  yield* keepEnds(port, { ...ends, removedSeq: last.seq, removedHash: last.hash });
  return { rows: count, brokenAt };
}

/** The rows before the first one that is not as it was written. */
function soundRows(port: Port, ends: ChainEnds, rows: readonly ChainedRow[]): readonly ChainedRow[] {
  if (isOwnSeal(ends, port.chainKey) === false) return [];
  let place = placeAfter(ends);
  for (const [index, row] of rows.entries()) {
    const read = readRow(place, row, port.chainKey);
    if (read.fault !== undefined) return rows.slice(0, Math.max(0, index - 1));
    if (read.place.last.isOwn === false) return rows.slice(0, index);
    place = read.place;
  }
  const { seq, hash } = place.last;
  return seq < ends.newestSeq || hash === ends.newestHash ? rows : rows.slice(0, -1);
}

function* hasOldAfter(port: Port, rows: readonly ChainedRow[], before: number): Decision<boolean> {
  const keyId = port.chainKey?.id ?? '';
  const row = yield* port.get<ChainedRow>(sql`
    SELECT ${ROW} FROM sluice.interventions
    WHERE seq > ${rows.at(-1)?.seq ?? 0} AND at < ${before} AND coalesce(key_id, '') = ${keyId} ORDER BY seq LIMIT 1`);
  return row !== undefined && isOwnHash(row, port.chainKey) === true;
}

export function* checkRows(
  port: Port,
  { from, limit }: { from?: CheckedInterventions['next'] | undefined; limit: number },
): Decision<CheckedInterventions> {
  const key = port.chainKey;
  const ends = (yield* findEnds(port)) ?? null;
  let place = from ?? placeAfter(ends ?? NO_ENDS);
  // Retention may have removed rows since the last ones were read.
  if (ends !== null && ends.removedSeq > place.last.seq) place = placeAfter(ends);
  const rows = yield* readRows(port, { after: place.last.seq, limit });
  const faults: CheckedInterventions['faults'][number][] = [];
  for (const row of rows) {
    const read = readRow(place, row, key);
    if (read.fault !== undefined) faults.push(read.fault);
    place = read.place;
  }
  const isDone = rows.length < limit;
  // A service with a key writes a row before anything else, so an empty log is a fault too.
  if (isDone && (ends !== null || place.last.seq > 0 || key !== undefined)) {
    faults.push(...readEnds(place, ends ?? NO_ENDS, key));
  }
  return {
    rows: rows.length,
    withoutKey: rows.filter(({ keyId }) => keyId === null).length,
    otherKey: rows.filter(({ keyId }) => keyId !== null && keyId !== key?.id).length,
    faults,
    next: isDone ? null : place,
    ends,
  };
}

/** Whether the hash of a row is right; undefined if that takes a key that was not given. */
function isOwnHash(row: ChainedRow, key: ChainKey | undefined): boolean | undefined {
  return isKnown(row, key) ? isSame(row.hash, hashOfRow(row, row.keyId === null ? undefined : key)) : undefined;
}

function isOwnSeal(ends: ChainEnds, key: ChainKey | undefined): boolean | undefined {
  return isKnown(ends, key) ? isSame(ends.seal, sealOf(ends, ends.keyId === null ? undefined : key)) : undefined;
}

const isKnown = ({ keyId }: Pick<ChainedRow, 'keyId'>, key: ChainKey | undefined) =>
  keyId === null || keyId === key?.id;

function isSame(stored: string, computed: string): boolean {
  const [left, right] = [Buffer.from(stored), Buffer.from(computed)];
  return left.byteLength === right.byteLength && timingSafeEqual(left, right);
}

/** A chain begins after the last row that retention removed. */
function placeAfter({ removedSeq, removedHash }: ChainEnds): ChainPlace {
  return {
    last: { seq: removedSeq, hash: removedHash, row: null, isOwn: true, isProven: true },
    beforeLast: null,
  };
}

/** Compares a row with the rows before it, and returns the fault that this shows. */
function readRow(
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
    // The hash of the last row is proven right, so rows after it are missing.
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

/** Faults at the end of the log; called when all rows have been read. */
function readEnds(
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
