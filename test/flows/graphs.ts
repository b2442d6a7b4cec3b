import type { Edge, Graph, StepStatus } from '../../src/model/manifest.ts';

/** Upstream keys that must have succeeded, or the statuses of each edge. */
type Wiring = Readonly<Record<string, readonly string[] | Readonly<Record<string, readonly StepStatus[]>>>>;

/** A graph of NoOp steps from the bare wiring: `{ a: [], b: ['a'], c: { a: ['Failed'] } }`. */
export function graphOf(wiring: Wiring): Graph {
  return Object.fromEntries(
    Object.entries(wiring).map(([stepKey, upstream]) => [
      stepKey,
      { type: 'NoOp', inputs: {}, runAfter: Object.fromEntries(edgesOf(upstream)) },
    ]),
  );
}

function edgesOf(upstream: Wiring[string]): [string, Edge][] {
  if (isKeys(upstream)) return upstream.map((key) => [key, { statuses: ['Succeeded'] }]);
  return Object.entries(upstream).map(([key, statuses]) => [key, { statuses }]);
}

function isKeys(upstream: Wiring[string]): upstream is readonly string[] {
  return Array.isArray(upstream);
}
