import { MINUTE_MS } from '../../model/clock.ts';
import { timeIn } from '../../model/ids.ts';
import { firstIdAt } from '../../model/payload.ts';
import type { Consumer, ForwardedDelivery, ForwardingPlace } from '../store.ts';
import { selectedAs } from '../tables.ts';
import { uuidOf } from '../uuids.ts';
import type { Decision } from './decision.ts';
import { fixed, type Port, type Query, sql } from './port.ts';
import { inputOf } from './runs.ts';
import type { Answer, Given, Verbs } from './verb.ts';

/** How a backend knows the order in which runs were committed. */
export interface CommitOrder {
  /** The column of `runs` that grows with it. */
  readonly column: string;
  /** A condition on a run `r`: none that will be committed can come before it. It may leave out runs of no delivery. */
  readonly isSettled: string;
  /** The place that all which is committed from now on comes behind. */
  readonly end: string;
  /** Makes an order of runs that another database numbered; yields whether there were any. */
  adopt?(port: Port): Decision<boolean>;
}

/** Runs looked at for each page: those of no delivery or of other flows are passed over, and no page takes long. */
const LOOKED_AT = 2000;
/** A copy does not know the order of commits: a consumer gets so much of what it has again, rather than too little. */
const OVERLAP_MS = 10 * MINUTE_MS;
/** Of this many runs the one is taken that was committed first, of which the ids tell only nearly. */
const FIRST_RUNS = fixed('1000');

const columns = fixed(
  selectedAs('c', ['name', 'flow_id', 'trigger_key', 'delivery_id', 'created_at', 'used_at', 'position']),
);

type ConsumerRow = Consumer & { readonly position: number | null };

export function consumerVerbs(
  order: CommitOrder,
): Verbs<'openConsumer' | 'listConsumers' | 'findConsumer' | 'readForwarding' | 'advanceConsumer' | 'forgetConsumer'> {
  const end = fixed(order.end);
  return {
    openConsumer: {
      access: 'write',
      changes: null,
      *decide(port, { name, flowId, triggerKey, since, at, idleBefore, most }) {
        if (order.adopt !== undefined && (yield* order.adopt(port))) {
          yield* port.run(sql`UPDATE sluice.consumers SET position = NULL WHERE position IS NOT NULL`);
        }
        yield* port.run(sql`DELETE FROM sluice.consumers WHERE used_at < ${idleBefore} AND name <> ${name}`);
        yield* port.run(sql`UPDATE sluice.consumers SET used_at = ${at} WHERE name = ${name}`);
        const known = yield* findConsumer(port, name);
        if (known !== undefined) return { consumer: toConsumer(known), isNew: false };
        const count = yield* port.get<{ count: number }>(sql`SELECT count(*) AS count FROM sluice.consumers`);
        if ((count?.count ?? 0) >= most) return 'full';
        const place = yield* placeAt(port, since, order);
        yield* port.run(sql`
          INSERT INTO sluice.consumers (name, flow_id, trigger_key, delivery_id, position, created_at, used_at)
          VALUES (${name}, ${flowId}, ${triggerKey}, ${place.deliveryId}, ${place.position}, ${at}, ${at})
          ON CONFLICT (name) DO NOTHING`);
        // Another process may have made it at this moment.
        const made = yield* findConsumer(port, name);
        if (made === undefined) throw new Error(`the consumer ${name} could not be made`);
        return { consumer: toConsumer(made), isNew: true };
      },
    },
    listConsumers: {
      access: 'read',
      *decide(port) {
        const rows = yield* port.all<ConsumerRow>(sql`SELECT ${columns} FROM sluice.consumers AS c ORDER BY c.name`);
        return rows.map(toConsumer);
      },
    },
    findConsumer: {
      access: 'read',
      *decide(port, name) {
        const row = yield* findConsumer(port, name);
        return row && toConsumer(row);
      },
    },
    readForwarding: {
      access: 'log',
      decide: (port, query) => readForwarding(port, query, order),
    },
    advanceConsumer: {
      access: 'write',
      changes: null,
      *decide(port, { name, from, to, at }) {
        const moved = yield* port.run(sql`
          UPDATE sluice.consumers
          SET delivery_id = ${uuidOf(to.deliveryId)}, position = least(${to.position}, ${end}), used_at = ${at}
          WHERE name = ${name} AND delivery_id = ${uuidOf(from)}`);
        if (moved > 0) return 'moved';
        return (yield* findConsumer(port, name)) === undefined ? 'unknown' : 'outdated';
      },
    },
    forgetConsumer: {
      access: 'write',
      changes: null,
      *decide(port, name) {
        return (yield* port.run(sql`DELETE FROM sluice.consumers WHERE name = ${name}`)) > 0;
      },
    },
  };
}

function findConsumer(port: Port, name: string) {
  return port.get<ConsumerRow>(sql`SELECT ${columns} FROM sluice.consumers AS c WHERE c.name = ${name}`);
}

function toConsumer({ position: _, ...consumer }: ConsumerRow): Consumer {
  return consumer;
}

/** The place before the first run that was committed at an instant or later. */
function* placeAt(port: Port, at: number, { column, end }: CommitOrder): Decision<ForwardingPlace> {
  const deliveryId = firstIdAt(at);
  const row = yield* port.get<{ first: number | null; end: number }>(sql`
    SELECT (
      SELECT min(place) FROM (
        SELECT ${fixed(column)} AS place FROM sluice.runs WHERE id >= ${deliveryId} AND delivery_id IS NOT NULL
        ORDER BY id LIMIT ${FIRST_RUNS}
      ) AS oldest
    ) AS first, ${fixed(end)} AS "end"`);
  const { first = null, end: last = 0 } = row ?? {};
  return { position: first === null ? last : Math.min(first - 1, last), deliveryId };
}

interface RunPlace extends ForwardingPlace {
  readonly runId: string;
  readonly flowId: string;
  readonly triggerKey: string;
}

function* readForwarding(
  port: Port,
  { name, limit, bytes }: Given<'readForwarding'>,
  order: CommitOrder,
): Decision<Answer<'readForwarding'>> {
  const found = yield* findConsumer(port, name);
  if (found === undefined) return undefined;
  const { position, ...consumer } = found;
  const { deliveryId, flowId, triggerKey } = consumer;
  const from =
    position === null ? yield* placeAt(port, timeIn(deliveryId) - OVERLAP_MS, order) : { position, deliveryId };
  const looked = yield* port.all<Omit<RunPlace, 'deliveryId'> & { deliveryId: string | null }>(behind(from, order));
  const wanted = looked.filter(
    (run, at): run is RunPlace =>
      run.deliveryId !== null &&
      !(flowId === null && isRepeated(run, looked[at - 1] ?? from)) &&
      (flowId === null || run.flowId === flowId) &&
      (triggerKey === null || run.triggerKey === triggerKey),
  );
  const deliveries = yield* readBodies(port, wanted.slice(0, limit), bytes);
  const last = deliveries.length < wanted.length ? deliveries.at(-1) : looked.at(-1);
  return { consumer, deliveries, upTo: last === undefined ? from : { ...from, ...placeOf(last) } };
}

/** Runs of flows that share a slug are committed together, one behind the other: their delivery is sent on once. */
function isRepeated(
  { position, deliveryId }: Pick<RunPlace, 'position'> & { readonly deliveryId: string | null },
  before: { readonly position: number; readonly deliveryId: string | null },
): boolean {
  // A server that counts anew begins lower.
  return deliveryId === before.deliveryId && [0, 1].includes(position - before.position);
}

function placeOf({ position, deliveryId }: { position: number; deliveryId: string | null }) {
  return { position, ...(deliveryId !== null && { deliveryId }) };
}

function behind(from: ForwardingPlace, { column, isSettled }: CommitOrder): Query {
  const place = fixed(`r.${column}`);
  return sql`
    SELECT r.id AS "runId", r.delivery_id AS "deliveryId", r.flow_id AS "flowId", r.trigger_key AS "triggerKey",
      ${place} AS position
    FROM sluice.runs AS r
    WHERE ${place} >= ${from.position} AND (${place}, r.delivery_id) > (${from.position}, ${uuidOf(from.deliveryId)})
      AND ${fixed(isSettled)}
    ORDER BY ${place}, r.delivery_id LIMIT ${fixed(String(LOOKED_AT))}`;
}

/** The first of them, with as many bytes of bodies as may be, and one in any case. */
function* readBodies(port: Port, runs: readonly RunPlace[], most: number): Decision<ForwardedDelivery[]> {
  const ids = runs.map(({ runId }) => runId);
  if (ids.length === 0) return [];
  const sizes = yield* port.all<{ runId: string; bytes: number }>(sql`
    SELECT r.id AS "runId", octet_length(i.body) AS bytes FROM sluice.runs AS r JOIN ${input} WHERE r.id = ANY (${ids})`);
  const sizeOf = new Map(sizes.map(({ runId, bytes }) => [runId, bytes]));
  let bytes = 0;
  const taken = runs.filter(({ runId }, at) => {
    bytes += sizeOf.get(runId) ?? 0;
    return at === 0 || bytes <= most;
  });
  const rows = yield* port.all<
    Omit<ForwardedDelivery, 'headers' | keyof RunPlace> & { readonly runId: string; readonly headers: string }
  >(sql`
    SELECT r.id AS "runId", r.flow_name AS "flowName", i.content_type AS "contentType",
      coalesce(d.headers, i.headers) AS headers, (d.id IS NOT NULL)::boolean AS "hasRecord", i.body
    FROM sluice.runs AS r JOIN ${input} LEFT JOIN sluice.deliveries AS d ON d.id = r.delivery_id
    WHERE r.id = ANY (${taken.map(({ runId }) => runId)})`);
  const rowOf = new Map(rows.map((row) => [row.runId, row]));
  return taken.flatMap((run) => {
    const row = rowOf.get(run.runId);
    return row === undefined ? [] : [{ ...run, ...row, headers: JSON.parse(row.headers) }];
  });
}

const input = fixed(inputOf('r'));
