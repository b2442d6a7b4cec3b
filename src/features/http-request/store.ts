import type { Json } from '../../model/json.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { storePart } from '../../store/decisions/part.ts';
import { fixed, type Port, sql } from '../../store/decisions/port.ts';
import { QUEUE_OF_STEP } from '../../store/decisions/waits.ts';
import { fromJson, toJson } from '../../store/json-columns.ts';
import type { Members } from '../../store/part.ts';
import type { Store } from '../../store/store.ts';

export interface HostPlace {
  readonly queue: string;
  /** From 1. */
  readonly place: number;
}

export interface HostPlacesRequest {
  readonly owner: string;
  /** Number of places in each queue. */
  readonly queues: readonly { readonly queue: string; readonly most: number }[];
  readonly now: number;
  readonly until: number;
}

export type HostPlaces =
  | { readonly kind: 'taken'; readonly places: readonly HostPlace[] }
  | { readonly kind: 'full'; readonly queue: string };

interface HostPlacesReturn {
  readonly owner: string;
  readonly places: readonly HostPlace[];
}

interface HeldPlaces {
  readonly queue: string;
  readonly held: number;
}

export interface CircuitRecord {
  readonly queue: string;
  readonly version: number;
  readonly circuit: Json;
}

interface CircuitChange {
  readonly queue: string;
  readonly version: number | null;
  /** A version never used before for this queue. */
  readonly next: number;
  readonly circuit: Json;
}

interface HostRelease {
  readonly queue: string;
  readonly now: number;
  readonly limit: number;
  readonly everyMs: number;
}

interface HostWait {
  readonly queue: string;
  readonly steps: number;
}

/** The store's verbs as `Hosts` calls them. */
export type HostStore = Members<typeof httpRequestStore> & Pick<Store, 'replica'>;

const queueOf = fixed(QUEUE_OF_STEP);
const waits = fixed(`status = 'Pending' AND strpos(wait, '"hostTurn":"') > 0`);

/**
 * Hosts that steps call: those not called now, and the steps that wait for their turn. A step waits in a queue if its
 * stored state has the queue's key as `hostTurn`: the origin of the host, alone or followed by a blank and more.
 */
export const httpRequestStore = storePart({
  name: 'http-request',
  verbs: {
    /** The stored circuits, by queue. */
    listCircuits: {
      access: 'read',
      *decide(port: Port): Decision<readonly CircuitRecord[]> {
        const rows = yield* port.all<Omit<CircuitRecord, 'circuit'> & { circuit: string }>(
          sql`SELECT queue, version, circuit FROM sluice.host_circuits ORDER BY queue`,
        );
        return rows.map(({ circuit, ...record }) => ({ ...record, circuit: fromJson(circuit) }));
      },
    },
    /**
     * Replaces the circuit of that version by one of the version `next`, or deletes it if `circuit` is null. A null
     * version means that none is stored. Changes nothing and returns `outdated` if another version is stored.
     */
    changeCircuit: {
      access: 'write',
      changes: null,
      *decide(port: Port, { queue, version, next, circuit }: CircuitChange): Decision<'changed' | 'outdated'> {
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
    /**
     * Number of waiting steps in each queue that are not due yet: at most `most` each, and at most a thousand queues.
     */
    listHostWaits: {
      access: 'read',
      /** Jumps from one queue to the next in the index, without reading the steps between. */
      *decide(
        port: Port,
        { now, most }: { readonly now: number; readonly most: number },
      ): Decision<readonly HostWait[]> {
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
    /**
     * Makes at most `limit` steps of a queue due, those first that are due next: one now, and another after each
     * `everyMs`, but none later than before. Returns their number.
     */
    releaseHostWaits: {
      access: 'write',
      changes: null,
      /** Skips steps that another replica is releasing, or a stop is ending. */
      *decide(port: Port, { queue, now, limit, everyMs }: HostRelease): Decision<number> {
        return yield* port.run(sql`
          UPDATE sluice.steps SET due_at = least(due_at, ${now}::bigint + floor(next.n * ${everyMs}::float8)::bigint) FROM (
            SELECT run_id, step_key, row_number() OVER (ORDER BY due_at) - 1 AS n FROM (
              SELECT run_id, step_key, due_at FROM sluice.steps WHERE ${waits} AND ${queueOf} = ${queue} AND due_at > ${now}
              ORDER BY due_at LIMIT ${limit} FOR UPDATE SKIP LOCKED) AS waiting
          ) AS next WHERE steps.run_id = next.run_id AND steps.step_key = next.step_key`);
      },
    },
    /**
     * Takes a place in each of the queues, or none: then it returns the full queue. A place becomes free when it is
     * returned, when its time is over, or when its owner is recovered.
     */
    takeHostPlaces: {
      access: 'write',
      changes: null,
      *decide(port: Port, { owner, queues, now, until }: HostPlacesRequest): Decision<HostPlaces> {
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
      *decide(port: Port, { owner, places }: HostPlacesReturn): Decision<void> {
        returnPlaces(port, owner, places);
      },
    },
    /** Number of places that other owners hold, by queue. */
    listHostPlaces: {
      access: 'read',
      *decide(
        port: Port,
        { owner, now }: { readonly owner: string; readonly now: number },
      ): Decision<readonly HeldPlaces[]> {
        return yield* port.all<HeldPlaces>(sql`
          SELECT queue, count(*) AS held FROM sluice.host_places
          WHERE held_until > ${now} AND owner <> ${owner} GROUP BY queue ORDER BY queue`);
      },
    },
  },
});

/** The lowest free number from 1 to `most`. If two replicas find the same one, one gets it and the other retries. */
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
