import { placers } from '../../features/placer.ts';
import { type NewRun, type RunOrder, waitingRun } from '../../model/run.ts';
import type { NextRun } from '../store.ts';
import { type Decision, known } from './decision.ts';
import type { EndedRun, HoldingPlacer, PlacedRun } from './placer.ts';
import type { RunnableRevision } from './revisions.ts';
import type { RunRows } from './rows.ts';

export const deliveryPlacers = placers.flatMap(({ deliveries }) => deliveries ?? []);
const runPlacers = placers.flatMap(({ runs }) => runs ?? []);

/** Without a placer that holds deliveries, every flow takes them as if it started runs, and none can be held. */
const holdsNothing: HoldingPlacer = {
  admit: () => known('open'),
  fits: () => known(false),
  keep() {},
  count: () => known(0),
};

export const holding = placers.flatMap(({ held }) => held ?? [])[0] ?? holdsNothing;

/** Where a run of a revision has to wait, read from its trigger; undefined if its flow lets runs overlap. */
export function orderIn(
  { order }: RunnableRevision,
  trigger: NewRun['trigger'],
  isTrusted: boolean | null,
): RunOrder | undefined {
  return order && { ...order.readKey(trigger), isTrusted };
}

type Placed = Omit<PlacedRun, 'order'> & Pick<NewRun, 'order'>;
type PortRows = Pick<RunRows, 'port'>;

const isOrdered = (run: Placed): run is PlacedRun => run.order !== undefined;

/** Puts a new run into its place; see `RunPlacer.join` for the result. */
export function* joinPlace(rows: PortRows, run: Placed, parentRunId?: string): Decision<boolean | string> {
  if (!isOrdered(run)) return false;
  const port = yield* rows.port();
  for (const { join } of runPlacers) {
    const joined = yield* join(port, run, parentRunId);
    if (joined !== false) return joined;
  }
  return false;
}

/** A run that is in its place. */
export function* withPlace<Run extends NewRun>(rows: PortRows, run: Run): Decision<Run> {
  return (yield* joinPlace(rows, run)) === true ? waitingRun(run) : run;
}

/** Locks the places that new runs will join. */
export function* lockPlaces(rows: PortRows, runs: readonly Placed[]): Decision<void> {
  const port = yield* rows.port();
  for (const { lock } of runPlacers) yield* lock(port, runs.filter(isOrdered));
}

/** Puts a retried run back into its place; see `RunPlacer.rejoin`. */
export function* rejoinPlace(
  rows: RunRows,
  run: Pick<EndedRun, 'runId' | 'flowId' | 'revision'>,
): Decision<boolean | string> {
  const { order } = yield* rows.revisionOf(run.flowId, run.revision);
  if (order === undefined) return false;
  for (const { rejoin } of runPlacers) {
    const rejoined = yield* rejoin(rows, run);
    if (rejoined !== false) return rejoined;
  }
  return false;
}

/** Lets the run go on that waited for an ended one. */
export function* leavePlace(rows: RunRows, run: EndedRun): Decision<NextRun | undefined> {
  // For most flows nothing else is read. A run can be cancelled even if its revision cannot be read.
  const order = run.status === 'Cancelled' ? null : (yield* rows.revisionOf(run.flowId, run.revision)).order;
  if (order === undefined) return undefined;
  for (const { leave } of runPlacers) {
    const next = yield* leave(rows, run, order?.isStopped === true);
    if (next !== undefined) return next;
  }
  return undefined;
}
