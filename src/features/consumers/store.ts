import { MINUTE_MS } from '../../model/clock.ts';
import { firstIdAt } from '../../model/delivery-ids.ts';
import { timeIn } from '../../model/ids.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import { storePart } from '../../store/decisions/part.ts';
import { type CommitOrder, fixed, type Port, type Query, sql } from '../../store/decisions/port.ts';
import { inputOf } from '../../store/decisions/runs.ts';
import { selectedAs } from '../../store/tables.ts';
import { uuidOf } from '../../store/uuids.ts';

export interface Consumer {
  readonly name: string;
  readonly flowId: string | null;
  readonly triggerKey: string | null;
  readonly deliveryId: string;
  readonly createdAt: number;
  readonly usedAt: number;
}

export interface ForwardingPlace {
  readonly position: number;
  /** Number of the last delivery that joined another run, if the store numbers those separately. */
  readonly joined: number;
  readonly deliveryId: string;
}

interface Forwarding {
  readonly consumer: Consumer;
  readonly deliveries: readonly ForwardedDelivery[];
  /** Apart from `deliveries`, there is nothing to forward up to this place. */
  readonly upTo: ForwardingPlace;
}

export interface ForwardedDelivery extends ForwardingPlace {
  readonly runId: string;
  readonly flowId: string;
  readonly flowName: string;
  readonly triggerKey: string;
  readonly contentType: string | null;
  /** From the record of the delivery; if that is deleted, from the run, which keeps more. */
  readonly headers: Readonly<Record<string, string>>;
  readonly hasRecord: boolean;
  readonly body: Uint8Array;
}

/** Rows to look at for each page: it skips runs without a delivery or of other flows, and no page takes long. */
const LOOKED_AT = 2000;
const lookedAt = fixed(String(LOOKED_AT));
/** A copied database does not know the order of commits: a consumer gets this much again rather than miss anything. */
const OVERLAP_MS = 10 * MINUTE_MS;
/** Takes the run among this many that was committed first: ids show the order of commits only nearly. */
const FIRST_RUNS = fixed('1000');

const columns = fixed(
  selectedAs('c', ['name', 'flow_id', 'trigger_key', 'delivery_id', 'created_at', 'used_at', 'position', 'joined']),
);

type ConsumerRow = Consumer & Pick<ForwardingPlace, 'joined'> & { readonly position: number | null };

/**
 * Consumers that deliveries are forwarded to: each has a place in the order of commits, so that no delivery is missed
 * because it was committed late. A delivery counts if it started a run or joined the run of another; a held one counts
 * once its run starts.
 */
export const consumersStore = storePart({
  name: 'consumers',
  verbs: {
    /**
     * Returns the consumer of that name, and creates it if there is none: it begins at `since`, and deliveries that
     * were committed later can be a little older. Forgets consumers not used since `idleBefore`. `full` if there are
     * `most`, `fullOfSubject` if there are `mostOfFlow` of its flow, or of all flows.
     */
    openConsumer: {
      access: 'write',
      changes: null,
      *decide(
        port: Port,
        {
          name,
          flowId,
          triggerKey,
          since,
          at,
          idleBefore,
          most,
          mostOfFlow,
        }: {
          readonly name: string;
          readonly flowId: string | null;
          readonly triggerKey: string | null;
          readonly since: number;
          readonly at: number;
          readonly idleBefore: number;
          readonly most: number;
          readonly mostOfFlow: number;
        },
      ): Decision<{ readonly consumer: Consumer; readonly isNew: boolean } | 'full' | 'fullOfSubject'> {
        if (port.commitOrder.adopt !== undefined && (yield* port.commitOrder.adopt(port))) {
          yield* port.run(sql`UPDATE sluice.consumers SET position = NULL WHERE position IS NOT NULL`);
        }
        yield* port.run(sql`DELETE FROM sluice.consumers WHERE used_at < ${idleBefore} AND name <> ${name}`);
        yield* port.run(sql`UPDATE sluice.consumers SET used_at = ${at} WHERE name = ${name}`);
        const known = yield* findConsumer(port, name);
        if (known !== undefined) return { consumer: toConsumer(known), isNew: false };
        const counted = yield* port.get<Record<'count' | 'ofFlow', number>>(sql`
        SELECT count(*) AS count, count(*) FILTER (WHERE coalesce(flow_id, '') = ${flowId ?? ''}) AS "ofFlow"
        FROM sluice.consumers`);
        if ((counted?.count ?? 0) >= most) return 'full';
        if ((counted?.ofFlow ?? 0) >= mostOfFlow) return 'fullOfSubject';
        const place = yield* placeAt(port, since);
        yield* port.run(sql`
        INSERT INTO sluice.consumers (name, flow_id, trigger_key, delivery_id, position, joined, created_at, used_at)
        VALUES (${name}, ${flowId}, ${triggerKey}, ${place.deliveryId}, ${place.position}, ${place.joined}, ${at},
          ${at})
        ON CONFLICT (name) DO NOTHING`);
        // Another process may have created it at this moment.
        const made = yield* findConsumer(port, name);
        if (made === undefined) throw new Error(`the consumer ${name} could not be made`);
        return { consumer: toConsumer(made), isNew: true };
      },
    },
    /** Sorted by name. */
    listConsumers: {
      access: 'read',
      *decide(port: Port): Decision<readonly Consumer[]> {
        const rows = yield* port.all<ConsumerRow>(sql`SELECT ${columns} FROM sluice.consumers AS c ORDER BY c.name`);
        return rows.map(toConsumer);
      },
    },
    findConsumer: {
      access: 'read',
      *decide(port: Port, name: string): Decision<Consumer | undefined> {
        const row = yield* findConsumer(port, name);
        return row && toConsumer(row);
      },
    },
    /** Deliveries after the consumer's last one, in order, with at most `bytes` of bodies or a single larger one. */
    readForwarding: {
      access: 'log',
      decide: (
        port: Port,
        query: {
          readonly name: string;
          readonly limit: number;
          readonly bytes: number;
        },
      ) => readForwarding(port, query),
    },
    /** Moves a consumer to another place; `outdated` if it is no longer at `from`. */
    advanceConsumer: {
      access: 'write',
      changes: null,
      *decide(
        port: Port,
        {
          name,
          from,
          to,
          at,
        }: {
          readonly name: string;
          /** Id of a delivery. */
          readonly from: string;
          readonly to: ForwardingPlace;
          readonly at: number;
        },
      ): Decision<'moved' | 'outdated' | 'unknown'> {
        const { end, joins } = port.commitOrder;
        const moved = yield* port.run(sql`
        UPDATE sluice.consumers
        SET delivery_id = ${uuidOf(to.deliveryId)}, position = least(${to.position}, ${fixed(end)}),
          joined = least(${to.joined}, ${fixed(joins.end)}), used_at = ${at}
        WHERE name = ${name} AND delivery_id = ${uuidOf(from)}`);
        if (moved > 0) return 'moved';
        return (yield* findConsumer(port, name)) === undefined ? 'unknown' : 'outdated';
      },
    },
    /** Returns whether the consumer existed. */
    forgetConsumer: {
      access: 'write',
      changes: null,
      *decide(port: Port, name: string): Decision<boolean> {
        return (yield* port.run(sql`DELETE FROM sluice.consumers WHERE name = ${name}`)) > 0;
      },
    },
  },
});

function findConsumer(port: Port, name: string) {
  return port.get<ConsumerRow>(sql`SELECT ${columns} FROM sluice.consumers AS c WHERE c.name = ${name}`);
}

function toConsumer({ position: _, joined: _joined, ...consumer }: ConsumerRow): Consumer {
  return consumer;
}

/** The place before the first run, and the first joined delivery, committed at an instant or later. */
function* placeAt(port: Port, at: number): Decision<ForwardingPlace> {
  const { column, end, joins } = port.commitOrder;
  const deliveryId = firstIdAt(at);
  const row = yield* port.get<
    Record<'first' | 'firstJoined', number | null> & Record<'end' | 'lastJoined', number>
  >(sql`
    SELECT (
      SELECT min(place) FROM (
        SELECT ${fixed(column)} AS place FROM sluice.runs WHERE id >= ${deliveryId} AND delivery_id IS NOT NULL
        ORDER BY id LIMIT ${FIRST_RUNS}
      ) AS oldest
    ) AS first, (
      SELECT min(place) FROM (
        SELECT ${fixed(joins.number ?? joins.at)} AS place FROM sluice.run_deliveries AS j
        WHERE j.delivery_id >= ${deliveryId} AND j.place > 1 ORDER BY j.delivery_id LIMIT ${FIRST_RUNS}
      ) AS oldest
    ) AS "firstJoined", ${fixed(end)} AS "end", ${fixed(joins.end)} AS "lastJoined"`);
  const { first = null, firstJoined = null, end: last = 0, lastJoined = 0 } = row ?? {};
  const before = (places: readonly (number | null)[], most: number) =>
    Math.min(most, ...places.flatMap((place) => (place === null ? [] : [place - 1])));
  if (joins.number === null) return { position: before([first, firstJoined], last), joined: 0, deliveryId };
  return { position: before([first], last), joined: before([firstJoined], lastJoined), deliveryId };
}

/** A run with the delivery that started it, or a delivery that joined a run. */
interface Committed {
  readonly runId: string;
  /** Place of the delivery in its run, from 1. */
  readonly place: number;
  readonly deliveryId: string | null;
  readonly flowId: string;
  readonly triggerKey: string;
  readonly at: number;
  /** Some backends number runs and joined deliveries separately. */
  readonly position: number | null;
  readonly joined: number | null;
}

interface Wanted extends Omit<Committed, 'deliveryId' | 'position' | 'joined'>, ForwardingPlace {}

function* readForwarding(
  port: Port,
  {
    name,
    limit,
    bytes,
  }: {
    readonly name: string;
    readonly limit: number;
    readonly bytes: number;
  },
): Decision<Forwarding | undefined> {
  const found = yield* findConsumer(port, name);
  if (found === undefined) return undefined;
  const { position, joined, ...consumer } = found;
  const { deliveryId, flowId, triggerKey } = consumer;
  const from =
    position === null ? yield* placeAt(port, timeIn(deliveryId) - OVERLAP_MS) : { position, joined, deliveryId };
  const looked = wholeDeliveries(yield* port.all<Committed>(behind(from, port.commitOrder)));
  const wanted: Wanted[] = [];
  let upTo: ForwardingPlace = from;
  let before: Pick<Committed, 'at' | 'deliveryId'> = { at: from.position, deliveryId: from.deliveryId };
  for (const each of looked) {
    upTo = placeBehind(upTo, each);
    if (
      each.deliveryId !== null &&
      !(flowId === null && isRepeated(each, before)) &&
      (flowId === null || each.flowId === flowId) &&
      (triggerKey === null || each.triggerKey === triggerKey)
    ) {
      wanted.push({ ...each, ...upTo });
    }
    before = each;
  }
  const deliveries = yield* readBodies(port, wanted.slice(0, limit), bytes);
  if (deliveries.length === wanted.length) return { consumer, deliveries, upTo };
  const last = deliveries.at(-1);
  return { consumer, deliveries, upTo: last === undefined ? from : placeBehind(last, last) };
}

/** Leaves out the last delivery if more of its runs may follow: the next page begins with all of them. */
function wholeDeliveries(looked: readonly Committed[]): readonly Committed[] {
  const last = looked.at(-1);
  if (last === undefined || looked.length < LOOKED_AT) return looked;
  const whole = looked.filter(({ at, deliveryId }) => at !== last.at || deliveryId !== last.deliveryId);
  return whole.length === 0 ? looked : whole;
}

function placeBehind(
  before: ForwardingPlace,
  { position, joined, deliveryId }: Pick<Committed, 'position' | 'joined' | 'deliveryId'>,
): ForwardingPlace {
  return {
    position: position ?? before.position,
    joined: joined ?? before.joined,
    deliveryId: deliveryId ?? before.deliveryId,
  };
}

/** Runs of flows that share a slug are committed together, one after another: their delivery is forwarded once. */
function isRepeated(
  { at, deliveryId }: Pick<Committed, 'at' | 'deliveryId'>,
  before: Pick<Committed, 'at' | 'deliveryId'>,
): boolean {
  // A database server that starts counting again begins lower.
  return deliveryId === before.deliveryId && [0, 1].includes(at - before.at);
}

/** One statement, so that both kinds are read at the same time. */
function behind(from: ForwardingPlace, { column, isSettled, joins }: CommitOrder): Query {
  const [run, at] = [fixed(`r.${column}`), fixed(joins.at)];
  const none = fixed('NULL::bigint');
  // If all share one order, ids distinguish deliveries of one transaction.
  const isBehind = (place: typeof run, id: typeof run) =>
    sql`${place} >= ${from.position} AND (${place}, ${id}) > (${from.position}, ${uuidOf(from.deliveryId)})`;
  const number = fixed(joins.number ?? 'NULL::bigint');
  const isOne = joins.number === null;
  return sql`
    SELECT * FROM (
      SELECT r.id AS "runId", 1 AS place, r.delivery_id AS "deliveryId", r.flow_id AS "flowId",
        r.trigger_key AS "triggerKey", ${run} AS at, ${run} AS position, ${none} AS joined
      FROM sluice.runs AS r
      WHERE ${isOne ? isBehind(run, fixed('r.delivery_id')) : sql`${run} > ${from.position}`} AND ${fixed(isSettled)}
      ORDER BY ${run}, r.delivery_id LIMIT ${lookedAt}
    ) AS started
    UNION ALL
    SELECT * FROM (
      SELECT j.run_id, j.place, j.delivery_id, r.flow_id, r.trigger_key, ${at} AS at,
        ${isOne ? at : none} AS position, ${number} AS joined
      FROM sluice.run_deliveries AS j /*sqlite: CROSS */ JOIN sluice.runs AS r ON r.id = j.run_id
      WHERE ${isOne ? isBehind(at, fixed('j.delivery_id')) : sql`${number} > ${from.joined}`}
        AND j.place > 1 AND j.delivery_id IS NOT NULL AND r.delivery_id IS NOT NULL AND ${fixed(joins.isSettled)}
      ORDER BY ${isOne ? fixed(`${joins.at}, j.delivery_id`) : number} LIMIT ${lookedAt}
    ) AS others
    ORDER BY at, joined, "deliveryId" LIMIT ${lookedAt}`;
}

type Stored = Pick<ForwardedDelivery, 'flowName' | 'contentType' | 'hasRecord' | 'body'> & {
  readonly runId: string;
  readonly place: number;
  readonly headers: string;
};

const nameOf = ({ runId, place }: Pick<Committed, 'runId' | 'place'>) => `${runId} ${place}`;

/** As many of the first deliveries as `most` bytes of bodies allow, and at least one. */
function* readBodies(port: Port, wanted: readonly Wanted[], most: number): Decision<ForwardedDelivery[]> {
  if (wanted.length === 0) return [];
  const [runIds, ids] = idsOf(wanted);
  const sizes = yield* port.all<Pick<Stored, 'runId' | 'place'> & { readonly bytes: number }>(sql`
    SELECT r.id AS "runId", 1 AS place, octet_length(i.body) AS bytes
    FROM sluice.runs AS r JOIN ${input} WHERE r.id = ANY (${runIds})
    UNION ALL
    SELECT j.run_id, j.place, octet_length(j.body)
    FROM sluice.run_deliveries AS j WHERE j.delivery_id = ANY (${ids}) AND j.place > 1`);
  const sizeOf = new Map(sizes.map((row) => [nameOf(row), row.bytes]));
  let bytes = 0;
  const taken = wanted.filter((each, at) => {
    bytes += sizeOf.get(nameOf(each)) ?? 0;
    return at === 0 || bytes <= most;
  });
  const [takenRuns, takenIds] = idsOf(taken);
  const rows = yield* port.all<Stored>(sql`
    SELECT r.id AS "runId", 1 AS place, r.flow_name AS "flowName", i.content_type AS "contentType",
      coalesce(d.headers, i.headers) AS headers, (d.id IS NOT NULL)::boolean AS "hasRecord", i.body
    FROM sluice.runs AS r JOIN ${input} LEFT JOIN sluice.deliveries AS d ON d.id = r.delivery_id
    WHERE r.id = ANY (${takenRuns})
    UNION ALL
    SELECT j.run_id, j.place, r.flow_name, j.content_type, coalesce(d.headers, j.headers),
      (d.id IS NOT NULL)::boolean AS "hasRecord", j.body
    FROM sluice.run_deliveries AS j /*sqlite: CROSS */ JOIN sluice.runs AS r ON r.id = j.run_id
    LEFT JOIN sluice.deliveries AS d ON d.id = j.delivery_id
    WHERE j.delivery_id = ANY (${takenIds}) AND j.place > 1`);
  const rowOf = new Map(rows.map((row) => [nameOf(row), row]));
  return taken.flatMap(({ at: _, place, ...each }) => {
    const row = rowOf.get(nameOf({ ...each, place }));
    if (row === undefined) return [];
    const { place: _place, headers, ...stored } = row;
    return [{ ...each, ...stored, headers: JSON.parse(headers) }];
  });
}

/** Ids of runs whose first delivery is wanted, and of deliveries that joined a run. */
function idsOf(wanted: readonly Wanted[]): readonly [runIds: readonly string[], joined: readonly string[]] {
  const isFirst = ({ place }: Wanted) => place === 1;
  return [
    wanted.filter(isFirst).map(({ runId }) => runId),
    wanted.filter((each) => !isFirst(each)).map(({ deliveryId }) => deliveryId),
  ];
}

const input = fixed(inputOf('r'));
