import { DAY_MS, HOUR_MS } from '../../model/clock.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { filter, where } from '../../store/decisions/lists.ts';
import { storePart } from '../../store/decisions/part.ts';
import { fixed, type Port, Rows, sql } from '../../store/decisions/port.ts';
import { headersOf } from '../../store/decisions/runs.ts';
import type { KeyRole } from '../../store/store.ts';

interface KeyName {
  readonly flowId: string;
  readonly triggerKey: string;
  readonly keyName: string;
}

interface NotedKey extends KeyName {
  readonly role: KeyRole;
}

export interface KeyFigures extends KeyName {
  /** Its present role; null if it has none. */
  readonly role: KeyRole | null;
  readonly roleSince: number | null;
  readonly firstNotedAt: number | null;
  /** When it was last recorded, in any role. */
  readonly notedAt: number | null;
  /** Accepted deliveries that it verified. Neither redeliveries nor replays count. */
  readonly count: number;
  /** Those since the beginning of the hour of `recentSince`. */
  readonly recent: number;
  readonly lastAt: number | null;
  /** The newest of these deliveries. */
  readonly lastId: string | null;
  /**
   * For a previous key: deliveries that other keys of the trigger verified since its last use, or since it became the
   * previous one, whichever is later, from the next full hour on. Otherwise 0.
   */
  readonly othersSince: number;
}

interface KeyUserQuery extends Omit<KeyName, 'keyName'> {
  /** Id of a delivery. */
  readonly upTo: string;
  /** Time of arrival. */
  readonly since: number;
  readonly limit: number;
}

export interface KeyUser {
  readonly clientIp: string;
  /** As stored with the delivery. */
  readonly headers: Readonly<Record<string, string>>;
  readonly receivedAt: number;
}

const hourOf = (at: number) => Math.floor(at / HOUR_MS);
const key = fixed('flow_id, trigger_key, key_name');
const [day, hour] = [fixed(String(DAY_MS)), fixed(String(HOUR_MS))];

/** At most this many deliveries of a flow are read: only their short columns, except for matches. */
const LOOKED_AT = fixed('1000');

/**
 * When keys of triggers verified deliveries, and how often. A key's name must reveal nothing of the key; the caller
 * that names it ensures this. Counts are by the hour.
 */
export const keysStore = storePart({
  name: 'keys',
  verbs: {
    /**
     * Records all keys that triggers have now. A key whose role changed has its new role since `at`; a key that is
     * missing loses its role, so that it starts again if it comes back. A previous key that was not recorded for more
     * than a day also starts again, because no process ran that could have used it. A clock that was set back changes
     * no times.
     */
    noteKeys: {
      access: 'write',
      changes: null,
      /** Sorted by key, so that two processes that record keys at once never block each other. */
      *decide(port: Port, { keys, at }: { keys: readonly NotedKey[]; at: number }): Decision<void> {
        const noted = new Rows(
          keys.map(({ flowId, triggerKey, keyName, role }) => ({
            flow_id: flowId,
            trigger_key: triggerKey,
            key_name: keyName,
            role,
          })),
        );
        yield* port.run(sql`
        INSERT INTO sluice.trigger_keys AS t (${key}, role, role_since, first_noted_at, noted_at)
        SELECT ${key}, role, ${at}::bigint, ${at}::bigint, ${at}::bigint
        FROM jsonb_to_recordset(${noted}) AS given (flow_id text, trigger_key text, key_name text, role text)
        WHERE true ORDER BY ${key}
        ON CONFLICT (${key}) DO UPDATE SET noted_at = excluded.noted_at, role = excluded.role,
          role_since = CASE
            WHEN t.role = excluded.role AND (t.role = 'current' OR t.noted_at >= excluded.noted_at - ${day})
            THEN t.role_since ELSE excluded.noted_at END`);
        yield* port.run(sql`UPDATE sluice.trigger_keys SET role = NULL WHERE role IS NOT NULL AND noted_at <> ${at}`);
      },
    },
    /**
     * Every key that was recorded or that verified an accepted delivery, even if no trigger has it now; sorted by flow,
     * trigger and name.
     */
    listKeyFigures: {
      access: 'read',
      *decide(
        port: Port,
        { flowId, recentSince }: { flowId?: string | undefined; recentSince: number },
      ): Decision<KeyFigures[]> {
        const ofFlow = where([filter.equals('flow_id', flowId)]);
        return yield* port.all(sql`
        WITH noted AS (
          SELECT * FROM sluice.trigger_keys ${ofFlow}
        ), used AS (
          SELECT ${key}, sum(count) AS count,
            coalesce(sum(count) FILTER (WHERE hour >= ${hourOf(recentSince)}), 0) AS recent,
            max(last_at) AS last_at, max(last_id::text) AS last_id
          FROM sluice.key_hours ${ofFlow} GROUP BY ${key}
        )
        SELECT k.flow_id AS "flowId", k.trigger_key AS "triggerKey", k.key_name AS "keyName", role,
          role_since AS "roleSince", first_noted_at AS "firstNotedAt", noted_at AS "notedAt",
          coalesce(u.count, 0) AS count, coalesce(u.recent, 0) AS recent, u.last_at AS "lastAt", u.last_id AS "lastId",
          CASE WHEN role = 'previous' THEN (
            SELECT coalesce(sum(o.count), 0) FROM sluice.key_hours AS o
            WHERE o.flow_id = k.flow_id AND o.trigger_key = k.trigger_key AND o.key_name <> k.key_name
              AND o.hour > greatest(coalesce(u.last_at, 0), role_since) / ${hour}
          ) ELSE 0 END AS "othersSince"
        FROM (SELECT ${key} FROM noted UNION SELECT ${key} FROM used) AS k
          LEFT JOIN noted AS t USING (${key}) LEFT JOIN used AS u USING (${key})
        ORDER BY k.flow_id COLLATE "C", k.trigger_key COLLATE "C", k.key_name COLLATE "C"`);
      },
    },
    /**
     * The newest accepted deliveries that only the previous key of a trigger verified, from `upTo` back. Reads at most
     * 1000 deliveries of the flow, so that the records of others cannot slow it down.
     */
    listKeyUsers: {
      access: 'log',
      *decide(port: Port, { flowId, triggerKey, upTo, since, limit }: KeyUserQuery): Decision<KeyUser[]> {
        const headers = fixed(headersOf('d'));
        const rows = yield* port.all<Omit<KeyUser, 'headers'> & { headers: string }>(sql`
        SELECT client_ip AS "clientIp", received_at AS "receivedAt",
          (SELECT ${headers} FROM sluice.deliveries AS d WHERE d.id = newest.id) AS headers
        FROM (
          SELECT id, trigger_key, client_ip, received_at, used_previous_key, run_id, redelivered_from
          FROM sluice.deliveries WHERE flow_id = ${flowId} AND id <= ${upTo} ORDER BY id DESC LIMIT ${LOOKED_AT}
        ) AS newest
        WHERE trigger_key = ${triggerKey} AND received_at >= ${since} AND used_previous_key AND run_id IS NOT NULL
          AND redelivered_from IS NULL
        ORDER BY id DESC LIMIT ${limit}`);
        return rows.map((user) => ({ ...user, headers: JSON.parse(user.headers) }));
      },
    },
    /**
     * Adds counts of hours before `before` to the trigger's earlier total, which has no hour, and deletes keys neither
     * recorded nor used since. Handles at most `limit` rows; returns their number.
     */
    tidyKeys: {
      access: 'write',
      changes: null,
      *decide(port: Port, { before, limit }: { before: number; limit: number }): Decision<number> {
        const gone = yield* port.all<{
          flowId: string;
          triggerKey: string;
          keyName: string;
          count: number;
          lastAt: number;
          lastId: string;
        }>(sql`
        WITH old AS MATERIALIZED (
          SELECT ${key}, hour FROM sluice.key_hours WHERE hour > 0 AND hour < ${hourOf(before)}
          ORDER BY ${key}, hour LIMIT ${limit} FOR UPDATE
        )
        DELETE FROM sluice.key_hours WHERE (${key}, hour) IN (SELECT ${key}, hour FROM old)
        RETURNING flow_id AS "flowId", trigger_key AS "triggerKey", key_name AS "keyName", count, last_at AS "lastAt",
          last_id AS "lastId"`);
        for (const { flowId, triggerKey, keyName, count, lastAt, lastId } of gone) {
          port.count('key_hours', [flowId, triggerKey, keyName, 0], { count, last_at: lastAt, last_id: lastId });
        }
        const forgotten = yield* port.run(sql`
        DELETE FROM sluice.trigger_keys WHERE (${key}) IN (
          SELECT ${key} FROM sluice.trigger_keys AS k WHERE noted_at < ${before} AND NOT EXISTS (
            SELECT 1 FROM sluice.key_hours AS h WHERE h.flow_id = k.flow_id AND h.trigger_key = k.trigger_key
              AND h.key_name = k.key_name AND h.last_at >= ${before}
          ) ORDER BY ${key} LIMIT ${limit})`);
        const uses = yield* port.run(sql`
        DELETE FROM sluice.key_hours WHERE hour = 0 AND last_at < ${before} AND (${key}) IN (
          SELECT ${key} FROM sluice.key_hours AS h WHERE hour = 0 AND last_at < ${before} AND NOT EXISTS (
            SELECT 1 FROM sluice.key_hours AS n WHERE n.flow_id = h.flow_id AND n.trigger_key = h.trigger_key
              AND n.key_name = h.key_name AND n.hour > 0
          ) AND NOT EXISTS (
            SELECT 1 FROM sluice.trigger_keys AS t WHERE t.flow_id = h.flow_id AND t.trigger_key = h.trigger_key
              AND t.key_name = h.key_name
          ) LIMIT ${limit})`);
        return gone.length + forgotten + uses;
      },
    },
  },
});
