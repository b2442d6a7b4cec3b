import type { Database } from 'better-sqlite3';
import { FIRST_ID } from '../../model/payload.ts';
import { NEWEST_SEARCHED, readEvent, writtenEvent } from '../payload-rows.ts';
import type { DeliverySample, PathCount, PayloadWatch } from '../store.ts';
import type { SqlValue } from './columns.ts';
import type { Member } from './messages.ts';

export const payloadOperations = {
  sampleDeliveries: { thread: 'reader', readsLog: true, prepare: prepareSample },
  readPayloadWatch: { thread: 'reader', prepare: prepareReadWatch },
  listPathCounts: { thread: 'reader', prepare: prepareListCounts },
  sumPathCounts: { thread: 'reader', prepare: prepareSumCounts },
  commitPayloadWatch: { thread: 'writer', prepare: prepareCommit },
  listPathDrifts: { thread: 'reader', prepare: prepareListDrifts },
  purgePathCounts: { thread: 'writer', prepare: preparePurge },
} as const;

interface SampleRow extends Omit<DeliverySample, 'headers'> {
  readonly headers: string;
  readonly bodyBytes: number;
}

function prepareSample(db: Database): Member<'sampleDeliveries'> {
  const findLast = db.prepare<SqlValue[], { lastId: string | null }>(
    'SELECT max(id) AS lastId FROM deliveries WHERE flow_id = ? AND id <= ?',
  );
  const list = db.prepare<SqlValue[], SampleRow>(`
    SELECT newest.id, newest.received_at AS receivedAt, newest.body_bytes AS bodyBytes,
      coalesce(
        (SELECT coalesce(k.value, k.folded) FROM run_keys k WHERE k.run_id = r.id AND k.name = 'event'),
        (SELECT coalesce(k.value, k.folded) FROM delivery_keys k WHERE k.delivery_id = newest.id AND k.name = 'event')
      ) AS event,
      coalesce(r.trigger_content_type, h.content_type) AS contentType,
      coalesce(r.trigger_headers, h.headers) AS headers
    FROM (
      SELECT id, received_at, body_bytes, trigger_key, run_id, redelivered_from FROM deliveries
      -- With the plus, by the index of the flow: another one has those of all flows.
      WHERE flow_id = ? AND id > ? AND id <= ? AND +rejected = 0 ORDER BY id DESC LIMIT ${NEWEST_SEARCHED}
    ) newest
    LEFT JOIN runs r ON r.id = newest.run_id AND r.delivery_id = newest.id
    LEFT JOIN held_deliveries h ON r.id IS NULL AND h.delivery_id = newest.id
    WHERE newest.trigger_key = ? AND newest.redelivered_from IS NULL AND (r.id IS NOT NULL OR h.delivery_id IS NOT NULL)
    ORDER BY newest.id DESC LIMIT ?`);
  const findBody = db.prepare<[string], { body: Uint8Array }>(`
    SELECT coalesce(r.trigger_body, h.body) AS body FROM deliveries d
    LEFT JOIN runs r ON r.id = d.run_id AND r.delivery_id = d.id
    LEFT JOIN held_deliveries h ON r.id IS NULL AND h.delivery_id = d.id WHERE d.id = ?`);
  return ({ flowId, triggerKey, after, upTo, limit, maxBytes }) => {
    let left = maxBytes;
    const samples = list.all(flowId, after, upTo, triggerKey, limit).map(({ bodyBytes, ...row }): DeliverySample => {
      const isRead = bodyBytes <= left;
      left -= isRead ? bodyBytes : 0;
      const body = isRead ? (findBody.get(row.id)?.body ?? null) : null;
      return { ...row, headers: JSON.parse(row.headers), body };
    });
    return { samples, lastId: findLast.get(flowId, upTo)?.lastId ?? null };
  };
}

type WatchRow = Omit<PayloadWatch, 'drifts'> & { readonly drifts: string };

function prepareReadWatch(db: Database): Member<'readPayloadWatch'> {
  const find = db.prepare<SqlValue[], WatchRow>(
    'SELECT version, last_id AS lastId, drifts FROM payload_watches WHERE flow_id = ? AND trigger_key = ?',
  );
  return ({ flowId, triggerKey }) => {
    const row = find.get(flowId, triggerKey);
    return row === undefined
      ? { version: 0, lastId: FIRST_ID, drifts: [] }
      : { ...row, drifts: JSON.parse(row.drifts) };
  };
}

function prepareListCounts(db: Database): Member<'listPathCounts'> {
  const list = db.prepare<SqlValue[], Omit<PathCount, 'event'> & { event: string }>(`
    SELECT trigger_key AS triggerKey, event, path, hour, type, count, first_id AS firstId, last_id AS lastId
    FROM payload_paths WHERE flow_id = ? AND trigger_key = ? ORDER BY event, path, hour, type`);
  return ({ flowId, triggerKey }) =>
    list.all(flowId, triggerKey).map((row) => ({ ...row, event: readEvent(row.event) }));
}

function prepareSumCounts(db: Database): Member<'sumPathCounts'> {
  const sum = db.prepare<SqlValue[], Omit<PathCount, 'event'> & { event: string }>(`
    SELECT trigger_key AS triggerKey, event, path, max(hour) AS hour, type, sum(count) AS count,
      min(first_id) AS firstId, max(last_id) AS lastId
    FROM payload_paths WHERE flow_id = ? GROUP BY trigger_key, event, path, type
    ORDER BY trigger_key, event, path, type`);
  return (flowId) => sum.all(flowId).map((row) => ({ ...row, event: readEvent(row.event) }));
}

function prepareCommit(db: Database): Member<'commitPayloadWatch'> {
  const insert = db.prepare<SqlValue[]>(`
    INSERT INTO payload_watches (last_id, drifts, flow_id, trigger_key, version) VALUES (?, ?, ?, ?, ? + 1)
    ON CONFLICT DO NOTHING`);
  const update = db.prepare<SqlValue[]>(`
    UPDATE payload_watches SET version = version + 1, last_id = ?, drifts = ?
    WHERE flow_id = ? AND trigger_key = ? AND version = ?`);
  const add = db.prepare<SqlValue[]>(`
    INSERT INTO payload_paths (flow_id, trigger_key, event, path, hour, type, count, first_id, last_id)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET count = count + excluded.count, first_id = min(first_id, excluded.first_id),
      last_id = max(last_id, excluded.last_id)`);
  return ({ flowId, triggerKey, version, lastId, drifts, counts }) => {
    const write = version === 0 ? insert : update;
    if (write.run(lastId, JSON.stringify(drifts), flowId, triggerKey, version).changes === 0) return 'outdated';
    for (const { event, path, hour, type, count, firstId, lastId: newest } of counts) {
      add.run(flowId, triggerKey, writtenEvent(event), path, hour, type, count, firstId, newest);
    }
    return 'committed';
  };
}

function prepareListDrifts(db: Database): Member<'listPathDrifts'> {
  const list = db.prepare<[], { flowId: string; triggerKey: string; drifts: string }>(`
    SELECT flow_id AS flowId, trigger_key AS triggerKey, drifts FROM payload_watches WHERE drifts <> '[]'
    ORDER BY flow_id, trigger_key`);
  return () => list.all().map((row) => ({ ...row, drifts: JSON.parse(row.drifts) }));
}

function preparePurge(db: Database): Member<'purgePathCounts'> {
  const key = 'flow_id, trigger_key, event, path, hour, type';
  const purge = (where: string) =>
    db.prepare<SqlValue[]>(
      `DELETE FROM payload_paths WHERE (${key}) IN (SELECT ${key} FROM payload_paths ${where} ORDER BY hour LIMIT ?)`,
    );
  const purgeOld = purge('WHERE hour < ?');
  const purgeOldest = purge('');
  const count = db.prepare<[], { rows: number }>('SELECT count(*) AS rows FROM payload_paths');
  return ({ beforeHour, maxRows, limit }) => {
    const { changes } = purgeOld.run(beforeHour, limit);
    if (changes > 0) return changes;
    const beyond = (count.get()?.rows ?? 0) - maxRows;
    return beyond <= 0 ? 0 : purgeOldest.run(Math.min(beyond, limit)).changes;
  };
}
