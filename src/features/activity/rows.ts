import { storable } from '../../model/text.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { fixed, type Port, sql } from '../../store/decisions/port.ts';
import { type ChainEnds, type ChainedContent, hashOfRow, sealOf } from './hashes.ts';

export const CONTENT = fixed(`id, at, actor, client_ip AS "clientIp", action, target_type AS "targetType",
  target_id AS "targetId", details, reason, status_code AS "statusCode"`);
const ENDS = fixed(`removed_seq AS "removedSeq", removed_hash AS "removedHash", newest_seq AS "newestSeq",
  newest_hash AS "newestHash", key_id AS "keyId", seal`);

/** Ends of a chain without rows. */
export const NO_ENDS: ChainEnds = {
  removedSeq: 0,
  removedHash: '',
  newestSeq: 0,
  newestHash: '',
  keyId: null,
  seal: '',
};

/**
 * Adds a row to the chain. This blocks all other additions until the transaction ends, so do it last in a transaction.
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

/** The content as every store keeps it: the hash covers what will be read. */
function storableContent(content: ChainedContent): ChainedContent {
  const entries = Object.entries(content).map(([name, value]) => [
    name,
    typeof value === 'string' ? storable(value) : value,
  ]);
  return Object.fromEntries(entries);
}

/** Blocks all other additions of rows until the transaction ends. */
export function* lockEnds(port: Port): Decision<ChainEnds> {
  // Works even if there are none yet: one of several processes makes them, and the others wait for it.
  const ends = yield* port.get<ChainEnds>(sql`
    INSERT INTO sluice.intervention_ends (id, removed_seq, removed_hash, newest_seq, newest_hash, seal)
    VALUES (1, 0, '', 0, '', '') ON CONFLICT (id) DO UPDATE SET id = 1 RETURNING ${ENDS}`);
  return ends ?? NO_ENDS;
}

export function* keepEnds(port: Port, { keyId: _former, seal: _old, ...ends }: ChainEnds): Decision<void> {
  const keyId = port.chainKey?.id ?? null;
  const { removedSeq, removedHash, newestSeq, newestHash } = ends;
  yield* port.run(sql`
    UPDATE sluice.intervention_ends SET removed_seq = ${removedSeq}, removed_hash = ${removedHash},
      newest_seq = ${newestSeq}, newest_hash = ${newestHash}, key_id = ${keyId},
      seal = ${sealOf({ ...ends, keyId }, port.chainKey)}
    WHERE id = 1`);
}

export const findEnds = (port: Port) => port.get<ChainEnds>(sql`SELECT ${ENDS} FROM sluice.intervention_ends`);

/** Adds the present state of an intervention, if it was begun. */
export function* addState(port: Port, id: string | null, change: Change): Decision<void> {
  if ((yield* findEnds(port)) === undefined) return;
  const ends = yield* lockEnds(port);
  const found = yield* port.get<ChainedContent>(sql`
    SELECT ${CONTENT} FROM sluice.interventions WHERE id = ${id} ORDER BY seq DESC LIMIT 1`);
  if (found === undefined) return;
  yield* addAfter(port, ends, { ...found, ...change(found) });
}

type Change = (content: ChainedContent) => Partial<Pick<ChainedContent, 'details' | 'statusCode'>>;

/** Adds a row that reports a change of key, if the chain was last written with another key than now, or without. */
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
