import type { RunTriggerType } from '../../model/manifest.ts';
import type { OrderState } from '../../model/run.ts';
import { readGateResults } from '../new-rows.ts';
import { uuidOf } from '../uuids.ts';
import type { Asks } from './decision.ts';
import { fixed, type Port, sql } from './port.ts';

/** A place in a lane. */
interface Place {
  readonly lane: string;
  /** Grows within the lane. */
  readonly seq: number;
  /** Null where the run has left. */
  readonly state: OrderState | null;
}

export interface OrderedRun extends Place {
  readonly runId: string;
  readonly isVerified: boolean;
}

interface NewOrderedRun extends OrderedRun {
  readonly flowId: string;
  readonly key: string | null;
  readonly problem: string | null;
}

/** What is known of how a run came to be. */
interface Starter {
  /** Null where neither its lane nor its delivery says. */
  readonly isVerified: boolean | null;
  readonly triggerType: RunTriggerType;
  readonly sourceRunId: string | null;
}

/** The lanes of runs that run one at a time. */
export type OrderRows = Asks<OrderReads> & OrderWrites;

export interface OrderReads {
  findOrdered(runId: string): OrderedRun | undefined;
  findFirst(lane: string): OrderedRun | undefined;
  findLast(lane: string): OrderedRun | undefined;
  findStarter(runId: string): Starter | undefined;
  /** How long the run waits for more deliveries. */
  findGroupEnd(runId: string): { readonly dueAt: number } | undefined;
}

export interface OrderWrites {
  /** No other transaction joins the lane, or leaves it from its head, until this one ends. */
  lockLane(lane: string): void;
  insertOrdered(run: NewOrderedRun): void;
  setPlace(runId: string, place: Place): void;
}

const columns = fixed('run_id AS "runId", lane, seq, state, is_verified AS "isVerified"');

interface StarterRow extends Starter {
  readonly deliveryId: string | null;
  readonly gateResults: string | null;
}

export function orderRows(port: Port): OrderRows {
  const { later } = port;
  return {
    lockLane: (lane) => lockLanes(port, [lane]),
    findOrdered: (runId) =>
      port.get<OrderedRun>(sql`SELECT ${columns} FROM sluice.ordered_runs WHERE run_id = ${uuidOf(runId)}`),
    findFirst: (lane) =>
      port.get<OrderedRun>(sql`
        SELECT ${columns} FROM sluice.ordered_runs WHERE lane = ${lane} AND state IS NOT NULL ORDER BY seq LIMIT 1`),
    findLast: (lane) =>
      port.get<OrderedRun>(sql`
        SELECT ${columns} FROM sluice.ordered_runs WHERE lane = ${lane} AND state IS NOT NULL ORDER BY seq DESC LIMIT 1`),
    findGroupEnd: (runId) =>
      port.get<{ dueAt: number }>(
        sql`SELECT due_at AS "dueAt" FROM sluice.coalesce_groups WHERE run_id = ${uuidOf(runId)}`,
      ),
    *findStarter(runId) {
      const row = yield* port.get<StarterRow>(sql`
        SELECT o.is_verified AS "isVerified", r.trigger_type AS "triggerType", r.source_run_id AS "sourceRunId",
          r.delivery_id AS "deliveryId", d.gate_results AS "gateResults"
        FROM sluice.runs AS r LEFT JOIN sluice.ordered_runs AS o ON o.run_id = r.id
        LEFT JOIN sluice.deliveries AS d ON d.id = r.delivery_id WHERE r.id = ${uuidOf(runId)}`);
      if (row === undefined) return undefined;
      const { deliveryId, gateResults, ...starter } = row;
      if (starter.isVerified !== null || deliveryId === null) return starter;
      return { ...starter, isVerified: gateResults !== null && passedSignature(gateResults) };
    },
    insertOrdered: ({ runId, flowId, lane, seq, state, isVerified, key, problem }) =>
      later(sql`
        INSERT INTO sluice.ordered_runs (run_id, flow_id, lane, seq, state, is_verified, key, problem)
        VALUES (${runId}, ${flowId}, ${lane}, ${seq}, ${state}, ${isVerified}, ${key}, ${problem})`),
    setPlace: (runId, { seq, state }) =>
      later(sql`UPDATE sluice.ordered_runs SET seq = ${seq}, state = ${state} WHERE run_id = ${runId}`),
  };
}

/** Locks lanes, which are given in one order everywhere. */
export function lockLanes({ later }: Port, lanes: readonly string[]): void {
  if (lanes.length === 0) return;
  later(sql`
    SELECT pg_advisory_xact_lock(hashtextextended('sluice order ' || lane, sluice_lock_scope))
    FROM unnest(${lanes}::text[]) AS given (lane)`);
}

/** As acceptances ask it: the gate passed, or there is none. */
function passedSignature(gateResults: string): boolean {
  const verdict = readGateResults(gateResults).find(({ gate }) => gate === 'signature');
  return verdict === undefined || verdict.outcome === 'passed';
}
