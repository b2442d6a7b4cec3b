import { planNext, unhandledFailures, type WiredGraph } from '../../model/planner.ts';
import { MAX_BYTES, type StepError } from '../../model/run.ts';
import { parseRuntimeKey, scopeOfIteration } from '../../model/runtime-keys.ts';
import type { Decision } from '../../store/decisions/decision.ts';
import type { RunRows } from '../../store/decisions/rows.ts';
import type { LoopRow, LoopRows } from './rows.ts';

export interface Rows extends RunRows, LoopRows {}

/** A loop of a run. */
export interface NamedLoop extends LoopRow {
  readonly runId: string;
  readonly loopKey: string;
}

/** How a loop ends: with the outputs of its iterations in their order, and with the first failure among them. */
interface LoopEnd {
  /** As JSON text; null if it is not kept. */
  readonly output: string | null;
  readonly error: StepError | null;
}

/** An iteration leaves the output of its last step, or of its last steps by key where it has several. */
export function* loopEnd(rows: Rows, loop: NamedLoop, graph: WiredGraph): Decision<LoopEnd> {
  const left = yield* collect(rows, loop, graph);
  const tooLarge = `the outputs of its iterations are ${left.bytes} bytes of JSON; the limit is ${MAX_BYTES.loop}`;
  if (loop.failed > 0) {
    const error = yield* loopError(rows, loop, graph);
    if (left.text !== undefined) return { output: left.text, error };
    return { output: null, error: { ...error, message: `${error.message} (its output is not kept: ${tooLarge})` } };
  }
  if (left.text !== undefined) return { output: left.text, error: null };
  const message = `${tooLarge}; end each iteration with a step whose output is smaller, such as a Transform`;
  return { output: null, error: { code: 'output_too_large', message, retryable: false } };
}

function* loopError(rows: Rows, loop: NamedLoop, graph: WiredGraph): Decision<StepError> {
  const [first] = yield* listFailures(rows, loop, graph);
  const error = first === undefined ? null : ((yield* rows.findStep(loop.runId, first))?.error ?? null);
  const cause = error === null ? '' : `: ${error.message}`;
  const others = loop.failed > 1 ? ` (${loop.failed} iterations failed)` : '';
  return { code: 'iteration_failed', message: `"${first}" failed${cause}${others}`, retryable: false };
}

/** What the last steps of the iterations left; without the text where it would be larger than is kept. */
function* collect(
  rows: Rows,
  { runId, loopKey, total, started }: NamedLoop,
  graph: WiredGraph,
): Decision<{ readonly bytes: number; readonly text?: string }> {
  const keys = leavesIn(graph);
  const leaves = { runId, loopKey, started, keys };
  // Measures before it reads: the children of one loop can leave more than fits into memory.
  const bytes = yield* rows.measureLeaves(leaves);
  const framing = framingBytes(total, keys);
  if (bytes + framing > MAX_BYTES.loop) return { bytes: bytes + framing };
  const outputs = Array.from({ length: total }, () => keys.map(() => 'null'));
  for (const { n, leafIndex, output } of yield* rows.listLeaves(leaves)) {
    const own = outputs[n];
    if (own !== undefined) own[leafIndex] = output;
  }
  const text = `[${outputs.map((own) => frame(own, keys)).join(',')}]`;
  return { bytes: text.length, text };
}

function leavesIn(graph: WiredGraph): string[] {
  return Object.entries(graph).flatMap(([key, { downstream }]) => (downstream.length === 0 ? [key] : []));
}

function frame(outputs: readonly string[], leaves: readonly string[]): string {
  if (leaves.length === 1) return outputs[0] ?? 'null';
  return `{${leaves.map((key, index) => `${JSON.stringify(key)}:${outputs[index]}`).join(',')}}`;
}

/** Bytes of a loop's output without the outputs in it, at most what is written. Step keys are ASCII. */
function framingBytes(total: number, leaves: readonly string[]): number {
  const empty = frame(
    leaves.map(() => ''),
    leaves,
  );
  return 2 + total * (empty.length + 1);
}

/** Runtime keys of the steps that made iterations of a loop fail, in the order of the iterations. */
export function* listFailures(
  rows: Rows,
  { runId, loopKey, failed }: Pick<NamedLoop, 'runId' | 'loopKey' | 'failed'>,
  graph: WiredGraph,
): Decision<string[]> {
  const indices = new Set<number>();
  for (const stepKey of yield* rows.listFailed(runId, loopKey)) {
    const { iteration } = parseRuntimeKey(stepKey);
    if (iteration?.loopKey === loopKey) indices.add(iteration.index);
  }
  // From the end: a failure is the last that a loop starts after, and there may be thousands before it that were
  // handled.
  const found: string[][] = [];
  for (const index of [...indices].sort((a, b) => b - a)) {
    if (found.length >= failed) break;
    const scope = scopeOfIteration({ loopKey, index });
    const states = yield* rows.statesIn(runId, scope, graph);
    if (planNext(graph, states).end !== 'Failed') continue;
    found.push(unhandledFailures(graph, states).map((key) => `${scope}${key}`));
  }
  return found.reverse().flat();
}
