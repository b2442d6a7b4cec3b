import type { RunTriggerType } from '../../model/manifest.ts';
import type { OrderState } from '../../model/run.ts';
import type { Asks } from '../../store/decisions/decision.ts';
import { fixed, type Port, sql } from '../../store/decisions/port.ts';
import { readGateResults } from '../../store/new-rows.ts';
import { uuidOf } from '../../store/uuids.ts';

/** A place in a lane. */
interface Place {
  readonly lane: string;
  /** Grows within the lane. */
  readonly seq: number;
  /** Null if the run has left. */
  readonly state: OrderState | null;
}

interface OrderedRun extends Place {
  readonly runId: string;
  readonly isTrusted: boolean;
}

export interface NewOrderedRun extends OrderedRun {
  readonly flowId: string;
  readonly key: string | null;
  readonly problem: string | null;
}

/** What is known about the start of a run. */
interface Starter {
  /** Null if neither its lane nor its delivery says. */
  readonly isTrusted: boolean | null;
  readonly triggerType: RunTriggerType;
  readonly sourceRunId: string | null;
}

/** The lanes of runs that run one at a time. */
export type OrderRows = Asks<OrderReads> & OrderWrites;

interface OrderReads {
  findOrdered(runId: string): OrderedRun | undefined;
  findFirst(lane: string): OrderedRun | undefined;
  findLast(lane: string): OrderedRun | undefined;
  findStarter(runId: string): Starter | undefined;
  /** Lanes held by a run, and by the runs whose steps wait for it, directly or indirectly. */
  listHolders(runId: string): readonly { readonly lane: string; readonly runId: string }[];
  /** Lanes with waiting sub-runs that the heads of these lanes wait for, directly or indirectly. */
  listAwaitedLanes(lanes: readonly string[]): readonly string[];
  /** The run whose step waits for this run. */
  findAwaiting(runId: string): { readonly runId: string } | undefined;
  /** Until when the run waits for more deliveries. */
  findGroupEnd(runId: string): { readonly dueAt: number } | undefined;
}

interface OrderWrites {
  /** Until this transaction ends, no other joins the lane or leaves it from its head. */
  lockLane(lane: string): void;
  /** Until this transaction ends, no other looks for circles of waits. Lock a lane first. */
  lockWaits(): void;
  insertOrdered(run: NewOrderedRun): void;
  setPlace(runId: string, place: Place): void;
}

/** Number of sub-runs examined for one run: a loop can have many. */
const MOST_SUB_RUNS = fixed('10000');

/** A step `w` waits for a sub-run `s`. If `s` ended and was retried, `w` may no longer wait. */
const waitsFor = fixed(`s.is_awaited AND w.run_id = s.parent_run_id AND w.step_key = s.step_key
  AND w.status IN ('Pending', 'Running') AND strpos(w.wait, '"subRun":"' || s.run_id::text || '"') > 0`);

const columns = fixed('run_id AS "runId", lane, seq, state, is_verified AS "isTrusted"');

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
        SELECT ${columns} FROM sluice.ordered_runs WHERE lane = /*sqlite: + */${lane} AND state IS NOT NULL ORDER BY seq LIMIT 1`),
    findLast: (lane) =>
      port.get<OrderedRun>(sql`
        SELECT ${columns} FROM sluice.ordered_runs WHERE lane = /*sqlite: + */${lane} AND state IS NOT NULL ORDER BY seq DESC LIMIT 1`),
    listHolders: (runId) =>
      port.all<{ lane: string; runId: string }>(sql`
        WITH RECURSIVE above (run_id) AS (
          SELECT ${runId}::uuid AS run_id
          UNION
          SELECT s.parent_run_id FROM above AS a /*sqlite: CROSS */ JOIN sluice.sub_runs AS s ON s.run_id = a.run_id
          /*sqlite: CROSS */ JOIN sluice.steps AS w ON ${waitsFor}
        )
        SELECT o.lane, o.run_id AS "runId"
        FROM above AS a /*sqlite: CROSS */ JOIN sluice.ordered_runs AS o ON o.run_id = a.run_id AND o.state = 'running'`),
    *listAwaitedLanes(lanes) {
      const rows = yield* port.all<{ lane: string }>(sql`
        WITH RECURSIVE held (run_id) AS (
          SELECT o.run_id
          FROM unnest(${lanes}::text[]) AS given (lane) /*sqlite: CROSS */ JOIN sluice.ordered_runs AS o
            ON o.lane = given.lane::uuid AND o.state = 'running' AND o.seq = (
              SELECT first.seq FROM sluice.ordered_runs AS first
              WHERE first.lane = given.lane::uuid AND first.state IS NOT NULL ORDER BY first.seq LIMIT 1)
          UNION
          SELECT s.run_id FROM held AS h /*sqlite: CROSS */ JOIN sluice.sub_runs AS s ON s.parent_run_id = h.run_id
          /*sqlite: CROSS */ JOIN sluice.steps AS w ON ${waitsFor}
          /*sqlite: CROSS */ JOIN sluice.runs AS r ON r.id = s.run_id AND r.status = 'Running'
        )
        SELECT DISTINCT o.lane
        FROM (SELECT run_id FROM held LIMIT ${MOST_SUB_RUNS}) AS h
        /*sqlite: CROSS */ JOIN sluice.ordered_runs AS o ON o.run_id = h.run_id AND o.state = 'waiting'`);
      return rows.map(({ lane }) => lane);
    },
    findAwaiting: (runId) =>
      port.get<{ runId: string }>(sql`
        SELECT s.parent_run_id AS "runId" FROM sluice.sub_runs AS s
        /*sqlite: CROSS */ JOIN sluice.steps AS w ON ${waitsFor} WHERE s.run_id = ${runId}`),
    findGroupEnd: (runId) =>
      port.get<{ dueAt: number }>(
        sql`SELECT due_at AS "dueAt" FROM sluice.coalesce_groups WHERE run_id = ${uuidOf(runId)}`,
      ),
    *findStarter(runId) {
      const row = yield* port.get<StarterRow>(sql`
        SELECT o.is_verified AS "isTrusted", r.trigger_type AS "triggerType", r.source_run_id AS "sourceRunId",
          r.delivery_id AS "deliveryId", d.gate_results AS "gateResults"
        FROM sluice.runs AS r LEFT JOIN sluice.ordered_runs AS o ON o.run_id = r.id
        LEFT JOIN sluice.deliveries AS d ON d.id = r.delivery_id WHERE r.id = ${uuidOf(runId)}`);
      if (row === undefined) return undefined;
      const { deliveryId, gateResults, ...starter } = row;
      if (starter.isTrusted !== null || deliveryId === null) return starter;
      return { ...starter, isTrusted: gateResults !== null && passedSignature(gateResults) };
    },
    lockWaits: () =>
      later(sql`SELECT pg_advisory_xact_lock(hashtextextended('sluice order waits', sluice_lock_scope))`),
    insertOrdered: ({ runId, flowId, lane, seq, state, isTrusted, key, problem }) =>
      later(sql`
        INSERT INTO sluice.ordered_runs (run_id, flow_id, lane, seq, state, is_verified, key, problem)
        VALUES (${runId}, ${flowId}, ${lane}, ${seq}, ${state}, ${isTrusted}, ${key}, ${problem})`),
    setPlace: (runId, { seq, state }) =>
      later(sql`UPDATE sluice.ordered_runs SET seq = ${seq}, state = ${state} WHERE run_id = ${runId}`),
  };
}

/** Locks lanes; callers give them in the same order everywhere. */
export function lockLanes({ later }: Port, lanes: readonly string[]): void {
  if (lanes.length === 0) return;
  later(sql`
    SELECT pg_advisory_xact_lock(hashtextextended('sluice order ' || lane, sluice_lock_scope))
    FROM unnest(${lanes}::text[]) AS given (lane)`);
}

/** As for an acceptance: the gate passed, or there is none. */
function passedSignature(gateResults: string): boolean {
  const verdict = readGateResults(gateResults).find(({ gate }) => gate === 'signature');
  return verdict === undefined || verdict.outcome === 'passed';
}
