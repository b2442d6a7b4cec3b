import { FIRST_ID } from '../../model/payload.ts';
import { NEWEST_SEARCHED, readEvent, writtenEvent } from '../payload-rows.ts';
import type { DeliverySample, PathCount, PayloadWatch } from '../store.ts';
import type { Answer, Given, Operations } from './operation.ts';
import type { Sql } from './sql.ts';
import { uuidOf } from './uuids.ts';

export const payloadOperations: Operations<
  | 'sampleDeliveries'
  | 'readPayloadWatch'
  | 'listPathCounts'
  | 'sumPathCounts'
  | 'commitPayloadWatch'
  | 'listPathDrifts'
  | 'purgePathCounts'
> = {
  sampleDeliveries: { lane: 'read', run: sampleDeliveries },
  readPayloadWatch: { lane: 'read', run: readPayloadWatch },
  listPathCounts: { lane: 'read', run: listPathCounts },
  sumPathCounts: { lane: 'read', run: sumPathCounts },
  commitPayloadWatch: { lane: 'write', run: commitPayloadWatch },
  listPathDrifts: { lane: 'read', run: listPathDrifts },
  purgePathCounts: { lane: 'write', run: purgePathCounts },
};

const withBytes = `
  LEFT JOIN sluice.runs r ON r.id = d.run_id AND r.delivery_id = d.id
  LEFT JOIN sluice.held_deliveries h ON r.id IS NULL AND h.delivery_id = d.id`;

async function sampleDeliveries(sql: Sql, query: Given<'sampleDeliveries'>): Promise<Answer<'sampleDeliveries'>> {
  const { flowId, triggerKey, limit, maxBytes } = query;
  const [after, upTo] = [uuidOf(query.after), uuidOf(query.upTo)];
  const rows = await sql.all<Omit<DeliverySample, 'headers' | 'body'> & { headers: string; bodyBytes: number }>(
    `SELECT d.id, d.received_at AS "receivedAt", d.body_bytes AS "bodyBytes",
      coalesce(
        (SELECT coalesce(k.value, k.folded) FROM sluice.run_keys k WHERE k.run_id = r.id AND k.name = 'event'),
        (SELECT coalesce(k.value, k.folded) FROM sluice.delivery_keys k WHERE k.delivery_id = d.id AND k.name = 'event')
      ) AS event,
      coalesce(r.trigger_content_type, h.content_type) AS "contentType",
      coalesce(r.trigger_headers, h.headers) AS headers
    FROM (
      SELECT id, received_at, body_bytes, trigger_key, run_id, redelivered_from FROM sluice.deliveries
      WHERE flow_id = $1 AND id > $2 AND id <= $3 AND NOT rejected ORDER BY id DESC LIMIT ${NEWEST_SEARCHED}
    ) d ${withBytes}
    WHERE d.trigger_key = $4 AND d.redelivered_from IS NULL AND (r.id IS NOT NULL OR h.delivery_id IS NOT NULL)
    ORDER BY d.id DESC LIMIT $5`,
    [flowId, after, upTo, triggerKey, limit],
  );
  let left = maxBytes;
  const read = rows.filter(({ bodyBytes }) => {
    const isRead = bodyBytes <= left;
    left -= isRead ? bodyBytes : 0;
    return isRead;
  });
  const bodies = await sql.all<{ id: string; body: Uint8Array }>(
    `SELECT d.id, coalesce(r.trigger_body, h.body) AS body FROM sluice.deliveries d ${withBytes} WHERE d.id = ANY($1)`,
    [read.map(({ id }) => id)],
  );
  const bodyOf = new Map(bodies.map(({ id, body }) => [id, body]));
  const last = await sql.get<{ lastId: string }>(
    'SELECT id AS "lastId" FROM sluice.deliveries WHERE flow_id = $1 AND id <= $2 ORDER BY id DESC LIMIT 1',
    [flowId, upTo],
  );
  const samples = rows.map(({ bodyBytes: _bytes, ...row }) => ({
    ...row,
    headers: JSON.parse(row.headers),
    body: bodyOf.get(row.id) ?? null,
  }));
  return { samples, lastId: last?.lastId ?? null };
}

async function readPayloadWatch(
  sql: Sql,
  { flowId, triggerKey }: Given<'readPayloadWatch'>,
): Promise<Answer<'readPayloadWatch'>> {
  const row = await sql.get<Omit<PayloadWatch, 'drifts'> & { drifts: string }>(
    `SELECT version, last_id AS "lastId", drifts FROM sluice.payload_watches
    WHERE flow_id = $1 AND trigger_key = $2`,
    [flowId, triggerKey],
  );
  return row === undefined ? { version: 0, lastId: FIRST_ID, drifts: [] } : { ...row, drifts: JSON.parse(row.drifts) };
}

async function listPathCounts(
  sql: Sql,
  { flowId, triggerKey }: Given<'listPathCounts'>,
): Promise<Answer<'listPathCounts'>> {
  const rows = await sql.all<Omit<PathCount, 'event'> & { event: string }>(
    `SELECT trigger_key AS "triggerKey", event, path, hour, type, count, first_id AS "firstId", last_id AS "lastId"
    FROM sluice.payload_paths WHERE flow_id = $1 AND trigger_key = $2
    ORDER BY event COLLATE "C", path COLLATE "C", hour, type`,
    [flowId, triggerKey],
  );
  return rows.map((row) => ({ ...row, event: readEvent(row.event) }));
}

async function sumPathCounts(sql: Sql, flowId: string): Promise<Answer<'sumPathCounts'>> {
  const rows = await sql.all<Omit<PathCount, 'event'> & { event: string }>(
    // PostgreSQL compares UUIDs, but has no least one of a group.
    `SELECT trigger_key AS "triggerKey", event, path, max(hour) AS hour, type, sum(count) AS count,
      min(first_id::text COLLATE "C") AS "firstId", max(last_id::text COLLATE "C") AS "lastId"
    FROM sluice.payload_paths WHERE flow_id = $1 GROUP BY trigger_key, event, path, type
    ORDER BY trigger_key COLLATE "C", event COLLATE "C", path COLLATE "C", type`,
    [flowId],
  );
  return rows.map((row) => ({ ...row, event: readEvent(row.event) }));
}

async function commitPayloadWatch(
  sql: Sql,
  { flowId, triggerKey, version, lastId, drifts, counts }: Given<'commitPayloadWatch'>,
): Promise<Answer<'commitPayloadWatch'>> {
  const given = [uuidOf(lastId), JSON.stringify(drifts), flowId, triggerKey];
  const changes =
    version === 0
      ? await sql.run(
          `INSERT INTO sluice.payload_watches (last_id, drifts, flow_id, trigger_key, version)
          VALUES ($1, $2, $3, $4, 1) ON CONFLICT DO NOTHING`,
          given,
        )
      : await sql.run(
          `UPDATE sluice.payload_watches SET version = version + 1, last_id = $1, drifts = $2
          WHERE flow_id = $3 AND trigger_key = $4 AND version = $5`,
          [...given, version],
        );
  if (changes === 0) return 'outdated';
  if (counts.length === 0) return 'committed';
  sql.later(
    `INSERT INTO sluice.payload_paths AS own
      (flow_id, trigger_key, event, path, hour, type, count, first_id, last_id)
    SELECT $1, $2, n.* FROM
      unnest($3::text[], $4::text[], $5::bigint[], $6::text[], $7::bigint[], $8::uuid[], $9::uuid[]) AS n
    ON CONFLICT (flow_id, trigger_key, event, path, hour, type) DO UPDATE SET count = own.count + excluded.count,
      first_id = least(own.first_id, excluded.first_id), last_id = greatest(own.last_id, excluded.last_id)`,
    [
      flowId,
      triggerKey,
      counts.map(({ event }) => writtenEvent(event)),
      counts.map(({ path }) => path),
      counts.map(({ hour }) => hour),
      counts.map(({ type }) => type),
      counts.map(({ count }) => count),
      counts.map(({ firstId }) => uuidOf(firstId)),
      counts.map((each) => uuidOf(each.lastId)),
    ],
  );
  return 'committed';
}

async function listPathDrifts(sql: Sql): Promise<Answer<'listPathDrifts'>> {
  const rows = await sql.all<{ flowId: string; triggerKey: string; drifts: string }>(
    `SELECT flow_id AS "flowId", trigger_key AS "triggerKey", drifts FROM sluice.payload_watches WHERE drifts <> '[]'
    ORDER BY flow_id COLLATE "C", trigger_key COLLATE "C"`,
  );
  return rows.map((row) => ({ ...row, drifts: JSON.parse(row.drifts) }));
}

async function purgePathCounts(
  sql: Sql,
  { beforeHour, maxRows, limit }: Given<'purgePathCounts'>,
): Promise<Answer<'purgePathCounts'>> {
  const purge = (where: string, values: readonly number[]) =>
    sql.run(
      `DELETE FROM sluice.payload_paths WHERE ctid = ANY (array(
        SELECT ctid FROM sluice.payload_paths ${where} ORDER BY hour LIMIT $1))`,
      values,
    );
  const purged = await purge('WHERE hour < $2', [limit, beforeHour]);
  if (purged > 0) return purged;
  const found = await sql.get<{ rows: number }>('SELECT count(*) AS rows FROM sluice.payload_paths');
  const beyond = (found?.rows ?? 0) - maxRows;
  return beyond <= 0 ? 0 : purge('', [Math.min(beyond, limit)]);
}
