import { entryOf, planRun } from '../../flows/planner.ts';
import type { RunnableManifest } from '../../model/manifest.ts';
import type { FlowRecord, NewRun, StartedRun, Store } from '../store.ts';
import type { Asks, Decision } from './decision.ts';
import { type PinRows, whyClosed, withPins } from './sub-runs.ts';

/** The deliveries that a flow holds, in one transaction: as `RunRows`, where `findFlow` locks the flow's row. */
export type HeldRows = Asks<HeldReads> & HeldWrites & PinRows;

/** A held delivery: what its run will be planned from. */
export interface HeldDelivery {
  readonly seq: number;
  readonly triggerKey: string;
  readonly runId: string;
  readonly idempotencyKey: string | null;
  readonly deliveryId: string | null;
  readonly traceparent: string | null;
  readonly contentType: string | null;
  /** JSON text. */
  readonly headers: string;
  readonly body: Uint8Array;
}

export interface HeldReads {
  findFlow(flowId: string): FlowRecord | undefined;
  /** The manifest of a revision as JSON text. */
  findSnapshot(flowId: string, revision: number): string | undefined;
  hasHeld(flowId: string): boolean;
  countHeld(flowId: string): number;
  /** Sizes of the bodies of those held the longest, in the order of their arrival. */
  listSizes(flowId: string, limit: number): readonly { readonly seq: number; readonly bytes: number }[];
  /** Those deliveries in the order given. May read each as it is asked for: bodies are large. */
  listHeld(seqs: readonly number[]): Iterable<HeldDelivery>;
}

export interface HeldWrites {
  insertRun(run: NewRun, idempotencyKey: string | null): void;
  removeHeld(seq: number): void;
}

/** A release ends after so many bytes of bodies, so that it does not hold up other writes for long. */
const RELEASED_BYTES = 4 * 1024 * 1024;

type Release = Parameters<Store['releaseHeld']>[0];

/** Starts runs of the newest revision for deliveries that were held, in the order of their arrival. */
export function* releaseHeld(
  rows: HeldRows,
  { flowId, limit, at }: Release,
): Decision<Awaited<ReturnType<Store['releaseHeld']>>> {
  const flow = yield* rows.findFlow(flowId);
  const runs: StartedRun[] = [];
  if (flow !== undefined && whyClosed(flow) === undefined) {
    const newest = yield* newestOf(rows, flow);
    const seqs = firstOf(yield* rows.listSizes(flowId, limit));
    for (const held of yield* rows.listHeld(seqs)) {
      const run = yield* withPins(rows, runOf(held, newest, at));
      rows.insertRun(run, held.idempotencyKey);
      rows.removeHeld(held.seq);
      const { trigger, ...started } = run;
      runs.push(started);
    }
  }
  return { runs, left: yield* rows.countHeld(flowId) };
}

function firstOf(sizes: readonly { readonly seq: number; readonly bytes: number }[]): number[] {
  const seqs: number[] = [];
  let before = 0;
  for (const { seq, bytes } of sizes) {
    if (before >= RELEASED_BYTES) break;
    seqs.push(seq);
    before += bytes;
  }
  return seqs;
}

/**
 * Whether a delivery planned for a revision is held: `open` if the flow starts runs, `outdated` if a deploy came in
 * between.
 */
export function* holdOf(
  rows: HeldRows,
  { flowId, revision }: { readonly flowId: string; readonly revision: number },
): Decision<'held' | 'open' | 'outdated'> {
  const flow = yield* rows.findFlow(flowId);
  // While some are held, the next one has to queue behind them.
  if (whyClosed(flow) === undefined && !(yield* rows.hasHeld(flowId))) return 'open';
  return flow !== undefined && flow.revision !== revision ? 'outdated' : 'held';
}

type Newest = Parameters<typeof planRun>[0]['flow'];

function* newestOf(rows: HeldRows, record: FlowRecord): Decision<Newest> {
  const snapshot = yield* rows.findSnapshot(record.id, record.revision);
  if (snapshot === undefined) throw new Error(`The flow ${record.id} is not in the database.`);
  return { record, prepared: { entry: entryOf(JSON.parse(snapshot) as RunnableManifest) } };
}

function runOf(held: HeldDelivery, flow: Newest, at: number): NewRun {
  const { runId, deliveryId, traceparent, triggerKey: key, contentType, headers, body } = held;
  return planRun({
    runId,
    flow,
    triggerType: 'webhook',
    trigger: { key, contentType, headers: JSON.parse(headers), body },
    deliveryId,
    sourceRunId: null,
    traceparent,
    at,
  });
}
