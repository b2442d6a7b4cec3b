import { FIRST_ID } from '../../model/delivery-ids.ts';
import type { StepError } from '../../model/run.ts';
import type { TriggerName } from '../../model/trigger-name.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { storePart } from '../../store/decisions/part.ts';
import { fixed, type Port, Rows, sql } from '../../store/decisions/port.ts';
import { readEvent, writtenEvent } from '../../store/decisions/rows.ts';
import { inputOf } from '../../store/decisions/runs.ts';
import { toError } from '../../store/json-columns.ts';
import { uuidOf } from '../../store/uuids.ts';
import type { CountedType, PathDrift } from './paths.ts';

interface SampleQuery extends TriggerName {
  /** Ids of deliveries, or ids below and above all of them. */
  readonly after: string;
  readonly upTo: string;
  readonly limit: number;
  readonly maxBytes: number;
}

interface DeliverySamples {
  readonly samples: readonly DeliverySample[];
  /** The newest delivery of the flow up to `upTo`, whatever its result; null if there is none. */
  readonly lastId: string | null;
}

export interface DeliverySample {
  readonly id: string;
  readonly receivedAt: number;
  /** Its search key `event`; null if it has none. */
  readonly event: string | null;
  readonly contentType: string | null;
  /** As its run reads them. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | null;
  /** The error of the step that failed first in its run; null if the run did not fail, or not by a step. */
  readonly failure: StepError | null;
}

export interface PayloadWatch {
  /** 0 if there is none. */
  readonly version: number;
  /** Deliveries up to this one were sampled; below all ids if none was. */
  readonly lastId: string;
  readonly drifts: readonly PathDrift[];
}

export interface PathCount {
  readonly triggerKey: string;
  /** Null if deliveries have no event, or their event makes no difference to the path. */
  readonly event: string | null;
  readonly path: string;
  /** Hours since the Unix epoch. */
  readonly hour: number;
  readonly type: CountedType;
  readonly count: number;
  readonly firstId: string;
  readonly lastId: string;
}

interface PayloadCommit extends TriggerName, PayloadWatch {
  readonly counts: readonly Omit<PathCount, 'triggerKey'>[];
}

/** Deliveries of a flow to search for those of one trigger: 25 ms with the event of each. */
const NEWEST_SEARCHED = 2000;

/** The run or the held delivery that a delivery led to. */
const resultOf = (delivery: string) => `
  LEFT JOIN sluice.runs AS r ON r.id = ${delivery}.run_id AND r.delivery_id = ${delivery}.id
  LEFT JOIN sluice.held_deliveries AS h ON r.id IS NULL AND h.delivery_id = ${delivery}.id`;
const withResult = fixed(resultOf('newest'));
const bytesOf = (delivery: string) => fixed(`${resultOf(delivery)} LEFT JOIN ${inputOf('r')}`);
const withBytes = bytesOf('d');
const sampledWithBytes = bytesOf('sampled');

interface SampleRow extends Omit<DeliverySample, 'headers' | 'body' | 'failure'> {
  readonly headers: string;
  readonly failure: string | null;
  readonly bodyBytes: number;
}

function* sampleDeliveries(port: Port, query: SampleQuery): Decision<DeliverySamples> {
  const { flowId, triggerKey, limit, maxBytes } = query;
  const [after, upTo] = [uuidOf(query.after), uuidOf(query.upTo)];
  const rows = yield* port.all<SampleRow>(sql`
    SELECT sampled.id, sampled.received_at AS "receivedAt", sampled.body_bytes AS "bodyBytes", sampled.event,
      coalesce(i.content_type, h.content_type) AS "contentType",
      coalesce(i.headers, h.headers) AS headers,
      CASE WHEN sampled.has_failed THEN (
        SELECT s.error FROM sluice.steps AS s
        WHERE s.run_id = r.id AND s.status = 'Failed' AND strpos(s.step_key, '.') = 0 ORDER BY s.completed_at LIMIT 1
      ) END AS failure
    FROM (
      SELECT id, received_at, body_bytes, run_id, event, has_failed,
        row_number() OVER (PARTITION BY event, has_failed ORDER BY id DESC) AS turn
      FROM (
        SELECT newest.id, newest.received_at, newest.body_bytes, newest.run_id, coalesce(r.status = 'Failed', false) AS has_failed,
          coalesce(
            (SELECT coalesce(k.value, k.folded) FROM sluice.run_keys AS k WHERE k.run_id = r.id AND k.name = 'event'),
            (SELECT coalesce(k.value, k.folded) FROM sluice.delivery_keys AS k WHERE k.delivery_id = newest.id AND k.name = 'event')
          ) AS event
        FROM (
          SELECT id, received_at, body_bytes, trigger_key, run_id, redelivered_from
          FROM sluice.deliveries /*sqlite: INDEXED BY deliveries_by_flow */
          WHERE flow_id = ${flowId} AND id > ${after} AND id <= ${upTo} AND NOT rejected ORDER BY id DESC LIMIT ${NEWEST_SEARCHED}
        ) AS newest ${withResult}
        WHERE newest.trigger_key = ${triggerKey} AND newest.redelivered_from IS NULL AND (r.id IS NOT NULL OR h.delivery_id IS NOT NULL)
      ) AS found ORDER BY turn, id DESC LIMIT ${limit}
    ) AS sampled ${sampledWithBytes}
    ORDER BY sampled.turn, sampled.id DESC`);
  let left = maxBytes;
  const read = rows.filter(({ bodyBytes }) => {
    const isRead = bodyBytes <= left;
    left -= isRead ? bodyBytes : 0;
    return isRead;
  });
  const ids = read.map(({ id }) => id);
  const bodies = yield* port.all<{ id: string; body: Uint8Array }>(sql`
    SELECT d.id, coalesce(i.body, h.body) AS body
    FROM unnest(${ids}::uuid[]) AS given (id) /*sqlite: CROSS */ JOIN sluice.deliveries AS d ON d.id = given.id ${withBytes}`);
  const bodyOf = new Map(bodies.map(({ id, body }) => [id, body]));
  const last = yield* port.get<{ lastId: string }>(sql`
    SELECT id AS "lastId" FROM sluice.deliveries /*sqlite: INDEXED BY deliveries_by_flow */
    WHERE flow_id = ${flowId} AND id <= ${upTo} ORDER BY id DESC LIMIT 1`);
  const samples = rows
    .toSorted((one, other) => (one.id < other.id ? 1 : -1))
    .map(({ bodyBytes: _bytes, ...row }) => ({
      ...row,
      headers: JSON.parse(row.headers),
      body: bodyOf.get(row.id) ?? null,
      failure: toError(row.failure),
    }));
  return { samples, lastId: last?.lastId ?? null };
}

type CountRow = Omit<PathCount, 'event'> & { readonly event: string };

const toCount = (row: CountRow): PathCount => ({ ...row, event: readEvent(row.event) });

function* purgePathCounts(
  port: Port,
  { beforeHour, maxRows, limit }: { beforeHour: number; maxRows: number; limit: number },
): Decision<number> {
  const key = fixed('flow_id, trigger_key, event, path, hour, type');
  const purged = yield* port.run(sql`
    DELETE FROM sluice.payload_paths WHERE (${key}) IN (
      SELECT ${key} FROM sluice.payload_paths WHERE hour < ${beforeHour} ORDER BY hour LIMIT ${limit})`);
  if (purged > 0) return purged;
  const found = yield* port.get<{ rows: number }>(sql`SELECT count(*) AS rows FROM sluice.payload_paths`);
  const beyond = (found?.rows ?? 0) - maxRows;
  if (beyond <= 0) return 0;
  return yield* port.run(sql`
    DELETE FROM sluice.payload_paths WHERE (${key}) IN (
      SELECT ${key} FROM sluice.payload_paths ORDER BY hour LIMIT ${Math.min(beyond, limit)})`);
}

/** The types in deliveries at the paths that flows read. No value of a delivery is stored. */
export const driftStore = storePart({
  name: 'drift',
  verbs: {
    /**
     * Deliveries of a trigger that passed all of its gates and whose bytes are stored, newest first: those with `after
     * < id <= upTo`. If there are more than `limit`, takes the newest of each event, and of each event whose runs
     * failed, in turn. Leaves out repetitions: handshakes, redeliveries, duplicates. Reads bodies up to `maxBytes` in
     * total, in that order; the others are null. If a flow is busy, searches only the newest 2000.
     */
    sampleDeliveries: { access: 'log', decide: sampleDeliveries },
    readPayloadWatch: {
      access: 'read',
      *decide(port: Port, { flowId, triggerKey }: TriggerName): Decision<PayloadWatch> {
        const row = yield* port.get<Omit<PayloadWatch, 'drifts'> & { drifts: string }>(sql`
        SELECT version, last_id AS "lastId", drifts FROM sluice.payload_watches
        WHERE flow_id = ${flowId} AND trigger_key = ${triggerKey}`);
        if (row === undefined) return { version: 0, lastId: FIRST_ID, drifts: [] };
        return { ...row, drifts: JSON.parse(row.drifts) };
      },
    },
    /** The counts of a trigger's paths, by event, hour and type. */
    listPathCounts: {
      access: 'read',
      *decide(port: Port, { flowId, triggerKey }: TriggerName): Decision<PathCount[]> {
        const rows = yield* port.all<CountRow>(sql`
        SELECT trigger_key AS "triggerKey", event, path, hour, type, count, first_id AS "firstId", last_id AS "lastId"
        FROM sluice.payload_paths WHERE flow_id = ${flowId} AND trigger_key = ${triggerKey}
        ORDER BY event COLLATE "C", path COLLATE "C", hour, type`);
        return rows.map(toCount);
      },
    },
    /** The same for all triggers of a flow, summed over all hours: each count has the last of its hours. */
    sumPathCounts: {
      access: 'read',
      *decide(port: Port, flowId: string): Decision<PathCount[]> {
        const rows = yield* port.all<CountRow>(
          // PostgreSQL compares UUIDs, but cannot aggregate their minimum.
          sql`
          SELECT trigger_key AS "triggerKey", event, path, max(hour) AS hour, type, sum(count) AS count,
            min(first_id::text COLLATE "C") AS "firstId", max(last_id::text COLLATE "C") AS "lastId"
          FROM sluice.payload_paths WHERE flow_id = ${flowId} GROUP BY trigger_key, event, path, type
          ORDER BY trigger_key COLLATE "C", event COLLATE "C", path COLLATE "C", type`,
        );
        return rows.map(toCount);
      },
    },
    /**
     * Adds the counts and replaces the state of the trigger, or does neither: `outdated` if another process changed the
     * version first.
     */
    commitPayloadWatch: {
      access: 'write',
      changes: null,
      *decide(
        port: Port,
        { flowId, triggerKey, version, lastId, drifts, counts }: PayloadCommit,
      ): Decision<'committed' | 'outdated'> {
        const [last, found] = [uuidOf(lastId), JSON.stringify(drifts)];
        const changes = yield* port.run(
          version === 0
            ? sql`
            INSERT INTO sluice.payload_watches (last_id, drifts, flow_id, trigger_key, version)
            VALUES (${last}, ${found}, ${flowId}, ${triggerKey}, 1) ON CONFLICT DO NOTHING`
            : sql`
            UPDATE sluice.payload_watches SET version = version + 1, last_id = ${last}, drifts = ${found}
            WHERE flow_id = ${flowId} AND trigger_key = ${triggerKey} AND version = ${version}`,
        );
        if (changes === 0) return 'outdated';
        const rows = counts.map(({ event, firstId, lastId: newestId, ...count }) => ({
          ...count,
          event: writtenEvent(event),
          first_id: uuidOf(firstId),
          last_id: uuidOf(newestId),
        }));
        if (rows.length > 0) {
          port.later(sql`
          INSERT INTO sluice.payload_paths AS own
            (flow_id, trigger_key, event, path, hour, type, count, first_id, last_id)
          SELECT ${flowId}, ${triggerKey}, event, path, hour, type, count, first_id, last_id FROM
            jsonb_to_recordset(${new Rows(rows)}) AS given (event text, path text, hour bigint, type text, count bigint, first_id uuid, last_id uuid)
          WHERE true
          ON CONFLICT (flow_id, trigger_key, event, path, hour, type) DO UPDATE SET count = own.count + excluded.count,
            first_id = least(own.first_id, excluded.first_id), last_id = greatest(own.last_id, excluded.last_id)`);
        }
        return 'committed';
      },
    },
    /** Triggers that have drifts. */
    listPathDrifts: {
      access: 'read',
      *decide(port: Port): Decision<(TriggerName & { readonly drifts: readonly PathDrift[] })[]> {
        const rows = yield* port.all<{ flowId: string; triggerKey: string; drifts: string }>(sql`
        SELECT flow_id AS "flowId", trigger_key AS "triggerKey", drifts FROM sluice.payload_watches WHERE drifts <> '[]'
        ORDER BY flow_id COLLATE "C", trigger_key COLLATE "C"`);
        return rows.map((row) => ({ ...row, drifts: JSON.parse(row.drifts) }));
      },
    },
    /** Deletes at most `limit` counts of earlier hours, or the oldest beyond `maxRows`; returns the number deleted. */
    purgePathCounts: { access: 'write', changes: null, decide: purgePathCounts },
  },
});
