import { DETAILS } from '../../model/delivery.ts';
import { FIRST_ID } from '../../model/delivery-ids.ts';
import type { Json } from '../../model/json.ts';
import type { TriggerName } from '../../model/trigger-name.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { storePart } from '../../store/decisions/part.ts';
import { fixed, type Port, Rows, sql } from '../../store/decisions/port.ts';
import { readEvent, writtenEvent } from '../../store/decisions/rows.ts';
import { uuidOf } from '../../store/uuids.ts';

interface ArrivalQuery extends TriggerName {
  /** Delivery ids, or bounds below and above all of them. */
  readonly after: string;
  readonly upTo: string;
  /** Whether to count by event, too. */
  readonly byEvent: boolean;
}

/** Arrivals in one hour. */
export interface ArrivalHour {
  /** Null for all events together. */
  readonly event: string | null;
  /** Hours since the Unix epoch. */
  readonly hour: number;
  readonly count: number;
  readonly firstAt: number;
  readonly lastAt: number;
  /** Between two arrivals in this hour. */
  readonly longestGapMs: number;
}

export interface Arrivals {
  readonly hours: readonly ArrivalHour[];
  /** Whether all were counted by event. */
  readonly isWhole: boolean;
  /** The newest delivery of the flow up to `upTo`, whatever its outcome; null if there is none. */
  readonly lastId: string | null;
}

interface StoredRhythm {
  /** 0 if there is no row. */
  readonly version: number;
  /** The last delivery that was counted; below all ids if there is no row. */
  readonly lastId: string;
  /** As written by the watch; null if there is no row. */
  readonly state: Json;
}

interface RhythmCommit extends TriggerName, StoredRhythm {
  /** When the newest delivery came; null if none ever did. */
  readonly lastAt: number | null;
  /** Findings that need attention. */
  readonly found: readonly Json[];
  readonly hours: readonly ArrivalHour[];
}

export interface RhythmRow extends TriggerName {
  readonly lastAt: number | null;
  readonly found: readonly Json[];
}

export interface RefusalHour {
  /** Hours since the Unix epoch. */
  readonly hour: number;
  /** Null for accepted deliveries. */
  readonly reason: string | null;
  readonly count: number;
}

/** Number of a flow's deliveries searched for those of one trigger: about 50 ms, and 25 ms with their events. */
const [MOST_COUNTED, MOST_BY_EVENT] = [20_000, 2000];

type HourRow = Omit<ArrivalHour, 'event'> & { readonly event: string };

const toHour = (row: HourRow): ArrivalHour => ({ ...row, event: readEvent(row.event) });

/** Deliveries that came for the first time and passed the gates; not those fetched because they never came. */
const isArrival =
  fixed(`redelivered_from IS NULL AND strpos(coalesce(detail, ''), '${DETAILS.reconciled}') <> 1 AND reason IS NULL AND coalesce(outcome, '') <> 'duplicate'
  AND (run_id IS NOT NULL OR outcome = 'filtered')`);

const grouped = fixed(`event, received_at / 3600000 AS hour, count(*) AS count, min(received_at) AS "firstAt",
  max(received_at) AS "lastAt",
  max(CASE WHEN before / 3600000 = received_at / 3600000 AND before <= received_at THEN received_at - before ELSE 0 END)
    AS "longestGapMs"`);

function* countArrivals(port: Port, { flowId, triggerKey, byEvent, ...span }: ArrivalQuery): Decision<Arrivals> {
  const [after, upTo] = [uuidOf(span.after), uuidOf(span.upTo)];
  const all = yield* port.all<HourRow>(sql`
    SELECT ${grouped} FROM (
      SELECT '' AS event, received_at, lag(received_at) OVER (ORDER BY id) AS before FROM (
        SELECT id, received_at, trigger_key, run_id, outcome, reason, detail, redelivered_from
        FROM sluice.deliveries /*sqlite: INDEXED BY deliveries_by_flow */
        WHERE flow_id = ${flowId} AND id > ${after} AND id <= ${upTo} AND NOT rejected ORDER BY id DESC LIMIT ${MOST_COUNTED}
      ) AS newest WHERE trigger_key = ${triggerKey} AND ${isArrival}
    ) AS told GROUP BY event, received_at / 3600000 ORDER BY hour`);
  const events =
    byEvent && all.length > 0
      ? yield* port.all<HourRow>(sql`
        SELECT ${grouped} FROM (
          SELECT '=' || event AS event, received_at, lag(received_at) OVER (PARTITION BY event ORDER BY id) AS before
          FROM (
            SELECT newest.id, newest.received_at, coalesce(
              (SELECT coalesce(k.value, k.folded) FROM sluice.run_keys AS k WHERE k.run_id = newest.run_id AND k.name = 'event'),
              (SELECT coalesce(k.value, k.folded) FROM sluice.delivery_keys AS k WHERE k.delivery_id = newest.id AND k.name = 'event')
            ) AS event
            FROM (
              SELECT id, received_at, trigger_key, run_id, outcome, reason, detail, redelivered_from
              FROM sluice.deliveries /*sqlite: INDEXED BY deliveries_by_flow */
              WHERE flow_id = ${flowId} AND id > ${after} AND id <= ${upTo} AND NOT rejected ORDER BY id DESC LIMIT ${MOST_BY_EVENT}
            ) AS newest WHERE newest.trigger_key = ${triggerKey} AND ${isArrival}
          ) AS named WHERE event IS NOT NULL
        ) AS told GROUP BY event, received_at / 3600000 ORDER BY event COLLATE "C", hour`)
      : [];
  const last = yield* port.get<{ lastId: string }>(sql`
    SELECT id AS "lastId" FROM sluice.deliveries /*sqlite: INDEXED BY deliveries_by_flow */
    WHERE flow_id = ${flowId} AND id <= ${upTo} ORDER BY id DESC LIMIT 1`);
  // Deliveries of the flow's other triggers count here, because they were searched, too.
  const searched = yield* port.get<{ rows: number }>(sql`
    SELECT count(*) AS rows FROM (
      SELECT id FROM sluice.deliveries /*sqlite: INDEXED BY deliveries_by_flow */
      WHERE flow_id = ${flowId} AND id > ${after} AND id <= ${upTo} AND NOT rejected ORDER BY id DESC LIMIT ${MOST_BY_EVENT}
    ) AS newest`);
  const hours = [...all, ...events].map(toHour);
  return { hours, isWhole: (searched?.rows ?? 0) < MOST_BY_EVENT, lastId: last?.lastId ?? null };
}

function* purgeArrivalHours(
  port: Port,
  { beforeHour, maxRows, limit }: { beforeHour: number; maxRows: number; limit: number },
): Decision<number> {
  const key = fixed('flow_id, trigger_key, event, hour');
  const purged = yield* port.run(sql`
    DELETE FROM sluice.arrival_hours WHERE (${key}) IN (
      SELECT ${key} FROM sluice.arrival_hours WHERE hour < ${beforeHour} ORDER BY hour LIMIT ${limit})`);
  if (purged > 0) return purged;
  const found = yield* port.get<{ rows: number }>(sql`SELECT count(*) AS rows FROM sluice.arrival_hours`);
  const beyond = (found?.rows ?? 0) - maxRows;
  if (beyond <= 0) return 0;
  return yield* port.run(sql`
    DELETE FROM sluice.arrival_hours WHERE (${key}) IN (
      SELECT ${key} FROM sluice.arrival_hours ORDER BY hour LIMIT ${Math.min(beyond, limit)})`);
}

function* commitRhythm(
  port: Port,
  { flowId, triggerKey, version, lastId, state, lastAt, found, hours }: RhythmCommit,
): Decision<'committed' | 'outdated'> {
  const [last, stateText, foundText] = [uuidOf(lastId), JSON.stringify(state), JSON.stringify(found)];
  const changes = yield* port.run(
    version === 0
      ? sql`
        INSERT INTO sluice.rhythms (last_id, state, last_at, found, flow_id, trigger_key, version)
        VALUES (${last}, ${stateText}, ${lastAt}, ${foundText}, ${flowId}, ${triggerKey}, 1) ON CONFLICT DO NOTHING`
      : sql`
        UPDATE sluice.rhythms SET version = version + 1, last_id = ${last}, state = ${stateText}, last_at = ${lastAt}, found = ${foundText}
        WHERE flow_id = ${flowId} AND trigger_key = ${triggerKey} AND version = ${version}`,
  );
  if (changes === 0) return 'outdated';
  const rows = hours.map(({ event, firstAt, lastAt: newestAt, longestGapMs, ...count }) => ({
    ...count,
    event: writtenEvent(event),
    first_at: firstAt,
    last_at: newestAt,
    longest_gap_ms: longestGapMs,
  }));
  if (rows.length > 0) {
    port.later(sql`
      INSERT INTO sluice.arrival_hours AS own
        (flow_id, trigger_key, event, hour, count, first_at, last_at, longest_gap_ms)
      SELECT ${flowId}, ${triggerKey}, event, hour, count, first_at, last_at, longest_gap_ms FROM
        jsonb_to_recordset(${new Rows(rows)}) AS given (event text, hour bigint, count bigint, first_at bigint, last_at bigint, longest_gap_ms bigint)
      WHERE true
      ON CONFLICT (flow_id, trigger_key, event, hour) DO UPDATE SET count = own.count + excluded.count,
        first_at = least(own.first_at, excluded.first_at), last_at = greatest(own.last_at, excluded.last_at),
        longest_gap_ms = greatest(own.longest_gap_ms, excluded.longest_gap_ms)`);
  }
  return 'committed';
}

/** A time in which no process had the store. */
export interface Downtime {
  readonly startedAt: number;
  readonly endedAt: number;
  /** How far the wall clock was ahead of the ledger at its end; each downtime adds to it. */
  readonly offsetMs: number;
}

export const rhythmStore = storePart({
  name: 'rhythm',
  verbs: {
    /** Times in which no process had the store, in order. The first one says since when they are known. */
    listDowntimes: {
      access: 'read',
      *decide(port: Port): Decision<Downtime[]> {
        return yield* port.all<Downtime>(sql`
        SELECT started_at AS "startedAt", ended_at AS "endedAt", offset_ms AS "offsetMs" FROM sluice.downtimes
        ORDER BY ended_at`);
      },
    },
    /** Adds one, and deletes those before `keptSince`. The first has no length: downtimes are known since then. */
    noteDowntime: {
      access: 'write',
      changes: null,
      *decide(
        port: Port,
        { startedAt, endedAt, offsetMs, keptSince }: Downtime & { readonly keptSince: number },
      ): Decision<void> {
        // The newest one says how far ahead the clock was.
        yield* port.run(sql`DELETE FROM sluice.downtimes WHERE ended_at < ${keptSince} AND started_at < ended_at`);
        yield* port.run(sql`
        INSERT INTO sluice.downtimes (ended_at, started_at, offset_ms) VALUES (${endedAt}, ${startedAt}, ${offsetMs})
        ON CONFLICT DO NOTHING`);
      },
    },
    /**
     * Counts deliveries of a trigger that started a run, are held or were filtered, with `after < id <= upTo`; not
     * repeated ones, and none that failed a gate. Of a busy flow, only the newest 20 000 count, and by event the newest
     * 2000.
     */
    countArrivals: { access: 'log', decide: countArrivals },
    readRhythm: {
      access: 'read',
      *decide(port: Port, { flowId, triggerKey }: TriggerName): Decision<StoredRhythm> {
        const row = yield* port.get<{ version: number; lastId: string; state: string }>(sql`
        SELECT version, last_id AS "lastId", state FROM sluice.rhythms
        WHERE flow_id = ${flowId} AND trigger_key = ${triggerKey}`);
        if (row === undefined) return { version: 0, lastId: FIRST_ID, state: null };
        return { ...row, state: JSON.parse(row.state) as Json };
      },
    },
    /** The stored hours of a trigger. */
    listArrivalHours: {
      access: 'read',
      *decide(port: Port, { flowId, triggerKey }: TriggerName): Decision<ArrivalHour[]> {
        const rows = yield* port.all<HourRow>(sql`
        SELECT event, hour, count, first_at AS "firstAt", last_at AS "lastAt", longest_gap_ms AS "longestGapMs"
        FROM sluice.arrival_hours WHERE flow_id = ${flowId} AND trigger_key = ${triggerKey}
        ORDER BY event COLLATE "C", hour`);
        return rows.map(toHour);
      },
    },
    /**
     * Adds the hours and replaces the state of the trigger, or does neither: `outdated` if another process changed the
     * version first.
     */
    commitRhythm: { access: 'write', changes: null, decide: commitRhythm },
    /** The stored rhythms of all watched triggers. */
    listRhythms: {
      access: 'read',
      *decide(port: Port): Decision<RhythmRow[]> {
        const rows = yield* port.all<Omit<RhythmRow, 'found'> & { found: string }>(sql`
        SELECT flow_id AS "flowId", trigger_key AS "triggerKey", last_at AS "lastAt", found FROM sluice.rhythms
        ORDER BY flow_id COLLATE "C", trigger_key COLLATE "C"`);
        return rows.map((row) => ({ ...row, found: JSON.parse(row.found) }));
      },
    },
    /** Deletes at most `limit` hours: those before `beforeHour`, and the oldest beyond `maxRows`; yields how many. */
    purgeArrivalHours: { access: 'write', changes: null, decide: purgeArrivalHours },
    /** Deliveries of one trigger by hour and reason, without redeliveries, in a range of hours. */
    listRefusalHours: {
      access: 'log',
      *decide(
        port: Port,
        { flowId, triggerKey, fromHour, toHour }: TriggerName & { readonly fromHour: number; readonly toHour: number },
      ): Decision<RefusalHour[]> {
        // One look-up for each hour, because the hour is first in the key.
        const hours = Array.from({ length: toHour - fromHour + 1 }, (_, n) => fromHour + n);
        return yield* port.all<RefusalHour>(sql`
        SELECT hour, CASE WHEN rejected THEN reason END AS reason, sum(count) AS count FROM sluice.delivery_hours
        WHERE hour = ANY(${hours}::bigint[]) AND flow_id = ${flowId} AND trigger_key = ${triggerKey} AND NOT redelivered
          AND (rejected OR (reason = '' AND violations = '[]'))
        GROUP BY 1, 2 ORDER BY 1, 2`);
      },
    },
  },
});
