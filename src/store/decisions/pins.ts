import type { NewRun, Pins } from '../store.ts';
import { type Decision, known } from './decision.ts';
import { withPlace } from './placing.ts';
import { type Port, sql } from './port.ts';
import { revisionOf } from './revisions.ts';
import type { RunRows } from './rows.ts';

/** Rows from which runs get their pins and new runs their places. */
export type PinRows = Pick<RunRows, 'findNewest' | 'revisionOf' | 'port'>;

/**
 * The revisions of these flows and of all flows that they run, directly or indirectly: from `pinned`, or else the
 * newest. Leaves out flows that are not deployed, and flows that are being drained, because they may be replaced before
 * they start runs again.
 */
export function* pinsOf(rows: PinRows, subFlows: readonly string[], pinned?: Pins): Decision<Pins> {
  const pins: Record<string, number> = {};
  for (let wanted = subFlows; wanted.length > 0; ) {
    const found = pinned === undefined ? yield* rows.findNewest(wanted) : pickOf(pinned, wanted);
    const next = new Set<string>();
    for (const [flowId, revision] of Object.entries(found)) {
      pins[flowId] = revision;
      for (const subFlow of (yield* rows.revisionOf(flowId, revision)).entry.subFlows ?? []) next.add(subFlow);
    }
    wanted = [...next].filter((flowId) => !Object.hasOwn(pins, flowId));
  }
  return pins;
}

function pickOf(pins: Pins, flowIds: readonly string[]): Pins {
  return Object.fromEntries(Object.entries(pins).filter(([flowId]) => flowIds.includes(flowId)));
}

/** A run with the revisions that it needs; unchanged if it already has them, or runs no flow. */
export function* withPins<Run extends Pick<NewRun, 'subFlows' | 'pins'>>(rows: PinRows, run: Run): Decision<Run> {
  if (run.subFlows === undefined || run.pins !== undefined) return run;
  return { ...run, pins: yield* pinsOf(rows, run.subFlows) };
}

/** A planned run in the form in which it is stored: with its pins, and in its place. */
export function* readyRun<Run extends NewRun>(rows: PinRows, run: Run): Decision<Run> {
  return yield* withPlace(rows, yield* withPins(rows, run));
}

function pinsIn(rows: readonly { readonly id: string; readonly revision: number }[]): Pins {
  return Object.fromEntries(rows.map(({ id, revision }) => [id, revision]));
}

/** The stored rows from which a run gets its pins. */
export function pinRows(port: Port): PinRows {
  return {
    port: () => known(port),
    // Not locked: a concurrent deploy may or may not be pinned, as for a run accepted a moment earlier.
    *findNewest(flowIds) {
      const rows = yield* port.all<{ id: string; revision: number }>(
        sql`SELECT id, revision FROM sluice.flows
          WHERE id = ANY (${flowIds}) AND draining_since IS NULL AND deleted_at IS NULL`,
      );
      return pinsIn(rows);
    },
    revisionOf: (flowId, revision) => revisionOf(port, flowId, revision),
  };
}

/** The same for a transaction that stores several runs: of runs that run the same flows only the first asks. */
export function sharedPinRows(port: Port): PinRows {
  const rows = pinRows(port);
  const newest = new Map<string, Pins>();
  return {
    ...rows,
    *findNewest(flowIds) {
      const name = JSON.stringify(flowIds);
      const pins = newest.get(name) ?? (yield* rows.findNewest(flowIds));
      newest.set(name, pins);
      return pins;
    },
  };
}

export function insertPins({ later }: Port, runId: string, pins: Pins): void {
  for (const [flowId, revision] of Object.entries(pins)) {
    later(sql`INSERT INTO sluice.run_pins (run_id, flow_id, revision) VALUES (${runId}, ${flowId}, ${revision})`);
  }
}
