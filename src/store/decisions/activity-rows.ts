import { storable } from '../../model/text.ts';
import {
  type ChainedContent,
  type ChainedRow,
  hashOfRow,
  isOwnHash,
  isOwnSeal,
  placeAfter,
  readEnds,
  readRow,
  sealOf,
} from '../activity-chain.ts';
import type { ChainEnds, CheckedInterventions, PurgedInterventions } from '../store.ts';
import type { Decision } from './decision.ts';
import { fixed, type Port, sql } from './port.ts';

const CONTENT = fixed(`id, at, actor, client_ip AS "clientIp", action, target_type AS "targetType",
  target_id AS "targetId", details, reason, status_code AS "statusCode"`);
const ROW = fixed(`seq, key_id AS "keyId", previous_hash AS "previousHash", hash, ${CONTENT.text}`);
const ENDS = fixed(`removed_seq AS "removedSeq", removed_hash AS "removedHash", newest_seq AS "newestSeq",
  newest_hash AS "newestHash", key_id AS "keyId", seal`);

/** Ends of a chain without rows. */
const NONE: ChainEnds = { removedSeq: 0, removedHash: '', newestSeq: 0, newestHash: '', keyId: null, seal: '' };

/**
 * Adds a row to the chain. Whoever adds keeps all others from adding until its transaction ends: let it be the last thing that
 * a transaction does.
 */
export function* addRow(port: Port, content: ChainedContent): Decision<void> {
  const ends = yield* lockEnds(port);
  yield* addAfter(port, ends, content);
}

function* addAfter(port: Port, ends: ChainEnds, given: ChainedContent): Decision<void> {
  const keyId = port.chainKey?.id ?? null;
  const content = storableContent(given);
  const { id, at, actor, clientIp, action, targetType, targetId, details, reason, statusCode } = content;
  const [seq, previousHash] = [ends.newestSeq + 1, ends.newestHash];
  const hash = hashOfRow({ ...content, keyId, previousHash }, port.chainKey);
  yield* port.run(sql`
    INSERT INTO sluice.interventions (seq, id, at, actor, client_ip, action, target_type, target_id, details, reason,
      status_code, key_id, previous_hash, hash)
    VALUES (${seq}, ${id}, ${at}, ${actor}, ${clientIp}, ${action}, ${targetType}, ${targetId}, ${details}, ${reason},
      ${statusCode}, ${keyId}, ${previousHash}, ${hash})`);
  yield* keepEnds(port, { ...ends, newestSeq: seq, newestHash: hash });
}

/** As every store keeps it: the hash is of what will be read. */
function storableContent(content: ChainedContent): ChainedContent {
  const entries = Object.entries(content).map(([name, value]) => [
    name,
    typeof value === 'string' ? storable(value) : value,
  ]);
  return Object.fromEntries(entries);
}

function* lockEnds(port: Port): Decision<ChainEnds> {
  // Whether or not there are any: of several processes one makes them, and the others wait for it.
  const ends = yield* port.get<ChainEnds>(sql`
    INSERT INTO sluice.intervention_ends (id, removed_seq, removed_hash, newest_seq, newest_hash, seal)
    VALUES (1, 0, '', 0, '', '') ON CONFLICT (id) DO UPDATE SET id = 1 RETURNING ${ENDS}`);
  return ends ?? NONE;
}

function* keepEnds(port: Port, { keyId: _former, seal: _old, ...ends }: ChainEnds): Decision<void> {
  const keyId = port.chainKey?.id ?? null;
  const { removedSeq, removedHash, newestSeq, newestHash } = ends;
  yield* port.run(sql`
    UPDATE sluice.intervention_ends SET removed_seq = ${removedSeq}, removed_hash = ${removedHash},
      newest_seq = ${newestSeq}, newest_hash = ${newestHash}, key_id = ${keyId},
      seal = ${sealOf({ ...ends, keyId }, port.chainKey)}
    WHERE id = 1`);
}

const findEnds = (port: Port) => port.get<ChainEnds>(sql`SELECT ${ENDS} FROM sluice.intervention_ends`);

const readRows = (port: Port, { after, limit }: { after: number; limit: number }) =>
  port.all<ChainedRow>(sql`SELECT ${ROW} FROM sluice.interventions WHERE seq > ${after} ORDER BY seq LIMIT ${limit}`);

/** Adds what is said of an intervention now, if it was begun. */
export function* addState(port: Port, id: string | null, change: Change): Decision<void> {
  if ((yield* findEnds(port)) === undefined) return;
  const ends = yield* lockEnds(port);
  const found = yield* port.get<ChainedContent>(sql`
    SELECT ${CONTENT} FROM sluice.interventions WHERE id = ${id} ORDER BY seq DESC LIMIT 1`);
  if (found === undefined) return;
  yield* addAfter(port, ends, { ...found, ...change(found) });
}

type Change = (content: ChainedContent) => Partial<Pick<ChainedContent, 'details' | 'statusCode'>>;

/** See `Store.changeActivityKey`. */
export function* changeKey(port: Port, { id, at }: { id: string; at: number }): Decision<void> {
  const keyId = port.chainKey?.id ?? null;
  const known = yield* findEnds(port);
  if ((known?.keyId ?? null) === keyId) return;
  const ends = yield* lockEnds(port);
  if (ends.keyId === keyId) return;
  yield* addAfter(port, ends, {
    id,
    at,
    actor: 'sluice',
    clientIp: null,
    action: 'changeActivityKey',
    targetType: null,
    targetId: null,
    details: JSON.stringify({ key: keyId ?? 'none', formerKey: ends.keyId ?? 'none' }),
    reason: null,
    statusCode: 200,
  });
}

/** See `Store.purgeInterventions`. */
export function* purgeRows(
  port: Port,
  { before, limit }: { before: number; limit: number },
): Decision<PurgedInterventions> {
  const [first] = yield* readRows(port, { after: 0, limit: 1 });
  if (first === undefined || first.at >= before) return { rows: 0, brokenAt: null };
  const ends = yield* lockEnds(port);
  // One more: the hash of a row is confirmed by the next one.
  const rows = yield* readRows(port, { after: ends.removedSeq, limit: limit + 1 });
  const sound = soundRows(port, ends, rows);
  const brokenAt = sound.length < rows.length ? (sound.at(-1)?.seq ?? ends.removedSeq) + 1 : null;
  const young = sound.findIndex(({ at }) => at >= before);
  const old = sound.slice(0, Math.min(limit, young === -1 ? sound.length : young));
  // What a key that is gone proved may say any time: it is old if something after it is.
  const oldest = old.findLastIndex((row) => isOwnHash(row, port.chainKey) === true) + 1;
  const count = oldest > 0 || old.length < limit ? oldest : (yield* hasOldAfter(port, old, before)) ? old.length : 0;
  const last = old[count - 1];
  if (last === undefined) return { rows: 0, brokenAt };
  yield* port.run(sql`DELETE FROM sluice.interventions WHERE seq <= ${last.seq}`);
  yield* keepEnds(port, { ...ends, removedSeq: last.seq, removedHash: last.hash });
  return { rows: count, brokenAt };
}

/** The first rows, up to one that is not what was written. */
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

/** See `Store.checkInterventions`. */
export function* checkRows(
  port: Port,
  { from, limit }: { from?: CheckedInterventions['next'] | undefined; limit: number },
): Decision<CheckedInterventions> {
  const key = port.chainKey;
  const ends = (yield* findEnds(port)) ?? null;
  let place = from ?? placeAfter(ends ?? NONE);
  // Retention may have come by since the last rows were read.
  if (ends !== null && ends.removedSeq > place.last.seq) place = placeAfter(ends);
  const rows = yield* readRows(port, { after: place.last.seq, limit });
  const faults: CheckedInterventions['faults'][number][] = [];
  for (const row of rows) {
    const read = readRow(place, row, key);
    if (read.fault !== undefined) faults.push(read.fault);
    place = read.place;
  }
  const isDone = rows.length < limit;
  // A service with a key writes a row before anything else.
  if (isDone && (ends !== null || place.last.seq > 0 || key !== undefined)) {
    faults.push(...readEnds(place, ends ?? NONE, key));
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
