import { DAY_MS, HOUR_MS } from '../../model/clock.ts';
import type { KeyFigures, KeyUser } from '../store.ts';
import type { Given, Operations } from './operation.ts';
import { jsonRows, type Sql } from './sql.ts';

export const keyOperations: Operations<'noteKeys' | 'listKeyFigures' | 'listKeyUsers' | 'tidyKeys'> = {
  noteKeys: { lane: 'write', run: noteKeys },
  listKeyFigures: { lane: 'read', run: listKeyFigures },
  listKeyUsers: { lane: 'read', run: listKeyUsers },
  tidyKeys: { lane: 'write', run: tidyKeys },
};

const hourOf = (at: number) => Math.floor(at / HOUR_MS);
const KEY = 'flow_id, trigger_key, key_name';

/** In the order of the key, so that two processes that note at once never block each other. */
async function noteKeys(sql: Sql, { keys, at }: Given<'noteKeys'>): Promise<void> {
  const rows = keys.map(({ flowId, triggerKey, keyName, role }) => ({
    flow_id: flowId,
    trigger_key: triggerKey,
    key_name: keyName,
    role,
  }));
  await sql.run(
    `INSERT INTO sluice.trigger_keys AS t (${KEY}, role, role_since, first_noted_at, noted_at)
    SELECT ${KEY}, role, $2, $2, $2
    FROM jsonb_to_recordset($1) AS given (flow_id text, trigger_key text, key_name text, role text) ORDER BY ${KEY}
    ON CONFLICT (${KEY}) DO UPDATE SET noted_at = excluded.noted_at, role = excluded.role,
      role_since = CASE WHEN t.role = excluded.role AND (t.role = 'current' OR t.noted_at >= excluded.noted_at - ${DAY_MS})
        THEN t.role_since ELSE excluded.noted_at END`,
    [jsonRows(rows), at],
  );
  await sql.run('UPDATE sluice.trigger_keys SET role = NULL WHERE role IS NOT NULL AND noted_at <> $1', [at]);
}

async function listKeyFigures(sql: Sql, { flowId, recentSince }: Given<'listKeyFigures'>): Promise<KeyFigures[]> {
  return sql.all(
    `WITH noted AS (
      SELECT * FROM sluice.trigger_keys WHERE $2::text IS NULL OR flow_id = $2
    ), used AS (
      SELECT ${KEY}, sum(count) AS count, coalesce(sum(count) FILTER (WHERE hour >= $1), 0) AS recent,
        max(last_at) AS last_at, (array_agg(last_id ORDER BY last_id DESC))[1] AS last_id
      FROM sluice.key_hours WHERE $2::text IS NULL OR flow_id = $2 GROUP BY ${KEY}
    )
    SELECT k.flow_id AS "flowId", k.trigger_key AS "triggerKey", k.key_name AS "keyName", role, role_since AS "roleSince",
      first_noted_at AS "firstNotedAt", noted_at AS "notedAt", coalesce(u.count, 0) AS count, coalesce(u.recent, 0) AS recent,
      u.last_at AS "lastAt", u.last_id AS "lastId",
      CASE WHEN role = 'previous' THEN (
        SELECT coalesce(sum(o.count), 0) FROM sluice.key_hours o
        WHERE o.flow_id = k.flow_id AND o.trigger_key = k.trigger_key AND o.key_name <> k.key_name
          AND o.hour > greatest(coalesce(u.last_at, 0), role_since) / ${HOUR_MS}
      ) ELSE 0 END AS "othersSince"
    FROM (SELECT ${KEY} FROM noted UNION SELECT ${KEY} FROM used) k
      LEFT JOIN noted t USING (${KEY}) LEFT JOIN used u USING (${KEY})
    ORDER BY k.flow_id COLLATE "C", k.trigger_key COLLATE "C", k.key_name COLLATE "C"`,
    [hourOf(recentSince), flowId ?? null],
  );
}

/** So many deliveries of a flow are looked at. */
const LOOKED_AT = 1000;

async function listKeyUsers(sql: Sql, query: Given<'listKeyUsers'>): Promise<KeyUser[]> {
  const { flowId, triggerKey, upTo, since, limit } = query;
  const rows = await sql.all<Omit<KeyUser, 'headers'> & { headers: string }>(
    `SELECT client_ip AS "clientIp", received_at AS "receivedAt", headers FROM (
      SELECT * FROM sluice.deliveries WHERE flow_id = $1 AND id <= $2 ORDER BY id DESC LIMIT ${LOOKED_AT}
    ) AS newest
    WHERE trigger_key = $3 AND received_at >= $4 AND used_previous_key AND run_id IS NOT NULL AND redelivered_from IS NULL
    ORDER BY id DESC LIMIT $5`,
    [flowId, upTo, triggerKey, since, limit],
  );
  return rows.map(({ headers, ...user }) => ({ ...user, headers: JSON.parse(headers) }));
}

async function tidyKeys(sql: Sql, { before, limit }: Given<'tidyKeys'>): Promise<number> {
  const moved = await sql.get<{ count: number }>(
    `WITH gone AS (
      DELETE FROM sluice.key_hours WHERE ctid = ANY (array(
        SELECT ctid FROM sluice.key_hours WHERE hour > 0 AND hour < $1 ORDER BY ${KEY}, hour, slot LIMIT $2 FOR UPDATE
      )) RETURNING *
    ), kept AS (
      INSERT INTO sluice.key_hours AS t (${KEY}, hour, slot, count, last_at, last_id)
      SELECT ${KEY}, 0, $3, sum(count), max(last_at), (array_agg(last_id ORDER BY last_id DESC))[1] FROM gone GROUP BY ${KEY}
      ON CONFLICT (${KEY}, hour, slot) DO UPDATE SET count = t.count + excluded.count,
        last_at = greatest(t.last_at, excluded.last_at), last_id = greatest(t.last_id, excluded.last_id)
    )
    SELECT count(*) AS count FROM gone`,
    [hourOf(before), limit, sql.slot],
  );
  const forgotten = await sql.run(
    `DELETE FROM sluice.trigger_keys t WHERE (${KEY}) IN (
      SELECT ${KEY} FROM sluice.trigger_keys k WHERE noted_at < $1 AND NOT EXISTS (
        SELECT FROM sluice.key_hours h WHERE h.flow_id = k.flow_id AND h.trigger_key = k.trigger_key
          AND h.key_name = k.key_name AND h.last_at >= $1
      ) ORDER BY ${KEY} LIMIT $2
    )`,
    [before, limit],
  );
  const uses = await sql.run(
    `DELETE FROM sluice.key_hours WHERE ctid = ANY (array(
      SELECT ctid FROM sluice.key_hours h WHERE hour = 0 AND last_at < $1 AND NOT EXISTS (
        SELECT FROM sluice.key_hours n WHERE n.flow_id = h.flow_id AND n.trigger_key = h.trigger_key
          AND n.key_name = h.key_name AND n.hour > 0
      ) AND NOT EXISTS (
        SELECT FROM sluice.trigger_keys t WHERE t.flow_id = h.flow_id AND t.trigger_key = h.trigger_key
          AND t.key_name = h.key_name
      ) LIMIT $2
    ))`,
    [before, limit],
  );
  return (moved?.count ?? 0) + forgotten + uses;
}
