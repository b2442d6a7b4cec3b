import type { Database } from 'better-sqlite3';
import { DAY_MS, HOUR_MS } from '../../model/clock.ts';
import type { KeyFigures, NotedKey } from '../store.ts';
import { prepareCounter } from './batch.ts';
import type { SqlValue } from './columns.ts';
import type { Member } from './messages.ts';

export const keyOperations = {
  noteKeys: { thread: 'writer', prepare: prepareNote },
  listKeyFigures: { thread: 'reader', prepare: prepareList },
  listKeyUsers: { thread: 'reader', readsLog: true, prepare: prepareListUsers },
  tidyKeys: { thread: 'writer', prepare: prepareTidy },
} as const;

const hourOf = (at: number) => Math.floor(at / HOUR_MS);

interface KeyUse {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly keyName: string;
  readonly hour: number;
  count: number;
  lastAt: number;
  lastId: string;
}

/** A delivery that is accepted, and the name of the key that verified it. */
interface VerifiedDelivery extends Pick<KeyUse, 'flowId' | 'triggerKey' | 'keyName'> {
  readonly id: string;
  readonly at: number;
}

/** Makes the function that counts uses of keys, in the batch of the acceptances that they belong to. */
export function prepareCountKey(db: Database): (delivery: VerifiedDelivery) => void {
  const count = prepareCount(db);
  return ({ id, at, ...key }) => count({ ...key, hour: hourOf(at), count: 1, lastAt: at, lastId: id });
}

function prepareCount(db: Database): (use: KeyUse) => void {
  const add = db.prepare<SqlValue[]>(`
    INSERT INTO key_hours (flow_id, trigger_key, key_name, hour, count, last_at, last_id) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET count = count + excluded.count, last_at = max(last_at, excluded.last_at),
      last_id = max(last_id, excluded.last_id)`);
  return prepareCounter<KeyUse>(db, {
    // The key of a trigger may be any text, the others have no blanks.
    keyOf: ({ flowId, triggerKey, keyName, hour }) => `${flowId} ${hour} ${keyName} ${triggerKey}`,
    merge(into, { count, lastAt, lastId }) {
      into.count += count;
      if (lastAt > into.lastAt) into.lastAt = lastAt;
      if (lastId > into.lastId) into.lastId = lastId;
    },
    write: ({ flowId, triggerKey, keyName, hour, count, lastAt, lastId }) =>
      add.run(flowId, triggerKey, keyName, hour, count, lastAt, lastId),
  });
}

function prepareNote(db: Database): Member<'noteKeys'> {
  const note = db.prepare<[NotedKey & { readonly at: number }]>(`
    INSERT INTO trigger_keys (flow_id, trigger_key, key_name, role, role_since, first_noted_at, noted_at)
    VALUES (@flowId, @triggerKey, @keyName, @role, @at, @at, @at)
    ON CONFLICT DO UPDATE SET noted_at = excluded.noted_at,
      role_since = iif(role = excluded.role AND (role = 'current' OR noted_at >= excluded.noted_at - ${DAY_MS}),
        role_since, excluded.noted_at),
      role = excluded.role`);
  const drop = db.prepare<[number]>('UPDATE trigger_keys SET role = NULL WHERE role IS NOT NULL AND noted_at <> ?');
  return ({ keys, at }) => {
    for (const key of keys) note.run({ ...key, at });
    drop.run(at);
  };
}

function prepareList(db: Database): Member<'listKeyFigures'> {
  const list = (flow: string) =>
    db.prepare<[{ recentHour: number; flowId?: string | undefined }], KeyFigures>(`
      WITH used AS (
        SELECT flow_id, trigger_key, key_name, sum(count) AS count, sum(iif(hour >= @recentHour, count, 0)) AS recent,
          max(last_at) AS last_at, max(last_id) AS last_id
        FROM key_hours ${flow} GROUP BY flow_id, trigger_key, key_name
      ), known AS (
        SELECT flow_id, trigger_key, key_name FROM trigger_keys ${flow} UNION SELECT flow_id, trigger_key, key_name FROM used
      )
      SELECT k.flow_id AS flowId, k.trigger_key AS triggerKey, k.key_name AS keyName, t.role, t.role_since AS roleSince,
        t.first_noted_at AS firstNotedAt, t.noted_at AS notedAt, coalesce(u.count, 0) AS count, coalesce(u.recent, 0) AS recent,
        u.last_at AS lastAt, u.last_id AS lastId,
        iif(t.role = 'previous', coalesce((
          SELECT sum(o.count) FROM key_hours o
          WHERE o.flow_id = k.flow_id AND o.trigger_key = k.trigger_key AND o.key_name <> k.key_name
            AND o.hour > max(coalesce(u.last_at, 0), t.role_since) / ${HOUR_MS}
        ), 0), 0) AS othersSince
      FROM known k LEFT JOIN trigger_keys t USING (flow_id, trigger_key, key_name)
      LEFT JOIN used u USING (flow_id, trigger_key, key_name)
      ORDER BY k.flow_id, k.trigger_key, k.key_name`);
  const ofAll = list('');
  const ofFlow = list('WHERE flow_id = @flowId');
  return ({ flowId, recentSince }) => {
    const recentHour = hourOf(recentSince);
    return flowId === undefined ? ofAll.all({ recentHour }) : ofFlow.all({ recentHour, flowId });
  };
}

/** At most this many deliveries of a flow are read: only their short columns, except for matches. */
const LOOKED_AT = 1000;

function prepareListUsers(db: Database): Member<'listKeyUsers'> {
  const list = db.prepare<SqlValue[], { clientIp: string; headers: string; receivedAt: number }>(`
    SELECT client_ip AS clientIp, (SELECT headers FROM deliveries d WHERE d.id = newest.id) AS headers,
      received_at AS receivedAt
    FROM (
      SELECT id, trigger_key, client_ip, received_at, used_previous_key, run_id, redelivered_from FROM deliveries
      WHERE flow_id = ? AND id <= ? ORDER BY id DESC LIMIT ${LOOKED_AT}
    ) newest
    WHERE trigger_key = ? AND received_at >= ? AND used_previous_key = 1 AND run_id IS NOT NULL
      AND redelivered_from IS NULL
    ORDER BY id DESC LIMIT ?`);
  return ({ flowId, triggerKey, upTo, since, limit }) =>
    list
      .all(flowId, upTo, triggerKey, since, limit)
      .map(({ headers, ...user }) => ({ ...user, headers: JSON.parse(headers) }));
}

function prepareTidy(db: Database): Member<'tidyKeys'> {
  const take = db.prepare<[{ firstHour: number; limit: number }], KeyUse>(`
    DELETE FROM key_hours WHERE (flow_id, trigger_key, key_name, hour) IN (
      SELECT flow_id, trigger_key, key_name, hour FROM key_hours WHERE hour > 0 AND hour < @firstHour LIMIT @limit
    ) RETURNING flow_id AS flowId, trigger_key AS triggerKey, key_name AS keyName, hour, count, last_at AS lastAt,
      last_id AS lastId`);
  const forget = db.prepare<[{ before: number; limit: number }]>(`
    DELETE FROM trigger_keys WHERE (flow_id, trigger_key, key_name) IN (
      SELECT flow_id, trigger_key, key_name FROM trigger_keys t WHERE noted_at < @before AND NOT EXISTS (
        SELECT 1 FROM key_hours h WHERE h.flow_id = t.flow_id AND h.trigger_key = t.trigger_key
          AND h.key_name = t.key_name AND h.last_at >= @before
      ) LIMIT @limit)`);
  const forgetUses = db.prepare<[{ before: number; limit: number }]>(`
    DELETE FROM key_hours WHERE (flow_id, trigger_key, key_name, hour) IN (
      SELECT flow_id, trigger_key, key_name, hour FROM key_hours h WHERE hour = 0 AND last_at < @before AND NOT EXISTS (
        SELECT 1 FROM key_hours n WHERE n.flow_id = h.flow_id AND n.trigger_key = h.trigger_key
          AND n.key_name = h.key_name AND n.hour > 0
      ) AND NOT EXISTS (
        SELECT 1 FROM trigger_keys t WHERE t.flow_id = h.flow_id AND t.trigger_key = h.trigger_key
          AND t.key_name = h.key_name
      ) LIMIT @limit)`);
  const add = prepareCount(db);
  return ({ before, limit }) => {
    const rows = take.all({ firstHour: hourOf(before), limit });
    for (const row of rows) add({ ...row, hour: 0 });
    return rows.length + forget.run({ before, limit }).changes + forgetUses.run({ before, limit }).changes;
  };
}
