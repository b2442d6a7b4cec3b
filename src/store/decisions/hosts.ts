import { fromJson, toJson } from '../json-columns.ts';
import type { CircuitRecord, HeldPlaces, HostPlace, HostPlacesRequest, HostWait } from '../store.ts';
import type { Decision } from './decision.ts';
import { fixed, type Port, sql } from './port.ts';
import type { Verbs } from './verb.ts';
import { QUEUE_OF_STEP } from './waits.ts';

const queueOf = fixed(QUEUE_OF_STEP);
const waits = fixed(`status = 'Pending' AND strpos(wait, '"hostTurn":"') > 0`);

export const hostVerbs: Verbs<
  | 'listCircuits'
  | 'changeCircuit'
  | 'listHostWaits'
  | 'releaseHostWaits'
  | 'takeHostPlaces'
  | 'returnHostPlaces'
  | 'listHostPlaces'
> = {
  listCircuits: {
    access: 'read',
    *decide(port) {
      const rows = yield* port.all<Omit<CircuitRecord, 'circuit'> & { circuit: string }>(
        sql`SELECT queue, version, circuit FROM sluice.host_circuits ORDER BY queue`,
      );
      return rows.map(({ circuit, ...record }) => ({ ...record, circuit: fromJson(circuit) }));
    },
  },
  changeCircuit: {
    access: 'write',
    changes: null,
    *decide(port, { queue, version, next, circuit }) {
      const text = toJson(circuit);
      const changes = yield* port.run(
        circuit === null
          ? sql`DELETE FROM sluice.host_circuits WHERE queue = ${queue} AND version = ${version}`
          : version === null
            ? sql`
              INSERT INTO sluice.host_circuits (queue, version, circuit) VALUES (${queue}, ${next}, ${text})
              ON CONFLICT DO NOTHING`
            : sql`
              UPDATE sluice.host_circuits SET version = ${next}, circuit = ${text}
              WHERE queue = ${queue} AND version = ${version}`,
      );
      return changes > 0 ? 'changed' : 'outdated';
    },
  },
  listHostWaits: {
    access: 'read',
    /** From one queue to the next in the index, without reading the steps between. */
    *decide(port, { now, most }) {
      const rows = yield* port.all<HostWait>(sql`
        WITH RECURSIVE queues (queue) AS (
          SELECT min(${queueOf}) FROM sluice.steps WHERE ${waits}
          UNION ALL
          SELECT (SELECT min(${queueOf}) FROM sluice.steps WHERE ${waits} AND ${queueOf} > queues.queue)
          FROM queues WHERE queues.queue IS NOT NULL
        )
        SELECT queue, (
          SELECT count(*) FROM (
            SELECT 1 FROM sluice.steps WHERE ${waits} AND ${queueOf} = queues.queue AND due_at > ${now} LIMIT ${most}
          ) AS waiting
        ) AS steps
        FROM (SELECT queue FROM queues WHERE queue IS NOT NULL LIMIT 1000) AS queues ORDER BY queue`);
      return rows.filter(({ steps }) => steps > 0);
    },
  },
  releaseHostWaits: {
    access: 'write',
    changes: null,
    /** Steps that another replica releases, or that a stop ends, are left to it. */
    *decide(port, { queue, now, limit, everyMs }) {
      return yield* port.run(sql`
        UPDATE sluice.steps SET due_at = least(due_at, ${now}::bigint + floor(next.n * ${everyMs}::float8)::bigint) FROM (
          SELECT run_id, step_key, row_number() OVER (ORDER BY due_at) - 1 AS n FROM (
            SELECT run_id, step_key, due_at FROM sluice.steps WHERE ${waits} AND ${queueOf} = ${queue} AND due_at > ${now}
            ORDER BY due_at LIMIT ${limit} FOR UPDATE SKIP LOCKED) AS waiting
        ) AS next WHERE steps.run_id = next.run_id AND steps.step_key = next.step_key`);
    },
  },
  takeHostPlaces: {
    access: 'write',
    changes: null,
    *decide(port, { owner, queues, now, until }) {
      const places: HostPlace[] = [];
      for (const { queue, most } of queues) {
        const place = yield* takePlace(port, { owner, queue, most, now, until });
        if (place !== undefined) places.push({ queue, place });
        else {
          returnPlaces(port, owner, places);
          return { kind: 'full', queue };
        }
      }
      return { kind: 'taken', places };
    },
  },
  returnHostPlaces: {
    access: 'write',
    changes: null,
    // biome-ignore lint/correctness/useYield: it only writes.
    *decide(port, { owner, places }) {
      returnPlaces(port, owner, places);
    },
  },
  listHostPlaces: {
    access: 'read',
    *decide(port, { owner, now }) {
      return yield* port.all<HeldPlaces>(sql`
        SELECT queue, count(*) AS held FROM sluice.host_places
        WHERE held_until > ${now} AND owner <> ${owner} GROUP BY queue ORDER BY queue`);
    },
  },
};

/** A number from 1 to `most` that nobody holds; of two replicas that see the same one free, one gets it and the other looks again. */
function* takePlace(
  port: Port,
  { owner, queue, most, now, until }: Omit<HostPlacesRequest, 'queues'> & HostPlacesRequest['queues'][number],
): Decision<number | undefined> {
  for (;;) {
    const rows = yield* port.all<{ place: number }>(
      sql`SELECT place FROM sluice.host_places WHERE queue = ${queue} AND held_until > ${now} ORDER BY place`,
    );
    if (rows.length >= most) return undefined;
    const held = new Set(rows.map(({ place }) => place));
    let place = 1;
    while (held.has(place)) place += 1;
    const taken = yield* port.run(sql`
      INSERT INTO sluice.host_places AS p (queue, place, owner, held_until)
      VALUES (${queue}, ${place}, ${owner}, ${until})
      ON CONFLICT (queue, place) DO UPDATE SET owner = excluded.owner, held_until = excluded.held_until
      WHERE p.held_until <= ${now}`);
    if (taken > 0) return place;
  }
}

function returnPlaces(port: Port, owner: string, places: readonly HostPlace[]): void {
  for (const { queue, place } of places) {
    port.later(sql`DELETE FROM sluice.host_places WHERE queue = ${queue} AND place = ${place} AND owner = ${owner}`);
  }
}
