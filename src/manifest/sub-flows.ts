import type { JsonPath } from '../expressions/json-path.ts';
import { everyStep, flowsRunBy, type Graph, MAX_FLOW_DEPTH, type RunnableManifest } from '../model/manifest.ts';

/** A flow that runs of a manifest start, and the place that names it. */
interface NamedFlow {
  readonly flowId: string;
  readonly path: JsonPath;
}

/** The flows that steps of a graph run, including those in loops, in manifest order. */
export function subFlowsIn(graph: Graph): NamedFlow[] {
  return everyStep(graph).flatMap(({ step, at }) =>
    flowsRunBy(step).map((flowId) => ({ flowId, path: [...at, 'inputs', 'flow'] })),
  );
}

/** The flows that runs of a manifest start when they fail or by their steps, in this order. */
export function startedFlowsIn({ onFailure, steps }: Pick<RunnableManifest, 'onFailure' | 'steps'>): NamedFlow[] {
  const ofFailure = onFailure === undefined ? [] : [{ flowId: onFailure, path: ['onFailure'] }];
  return [...ofFailure, ...subFlowsIn(steps)];
}

/** Flows that run each other in a way that is refused. */
interface Chain {
  readonly kind: 'cycle' | 'tooDeep';
  /** Ids, beginning with the checked flow; a cycle ends with it again. */
  readonly flowIds: readonly string[];
}

/**
 * A chain of flows, each run by the previous one, that returns to the first or exceeds the depth limit; undefined if
 * there is none. A cycle longer than the limit counts as too deep.
 */
export function refusedChain(flowId: string, subFlows: (flowId: string) => readonly string[]): Chain | undefined {
  // Breadth first: of several ways to a flow with the same number of steps, any one will do.
  let layer = new Map([[flowId, [flowId]]]);
  for (let depth = 1; layer.size > 0; depth += 1) {
    const next = new Map<string, string[]>();
    for (const [id, way] of layer) {
      for (const subFlow of subFlows(id)) {
        if (subFlow === flowId) return { kind: 'cycle', flowIds: [...way, flowId] };
        if (!next.has(subFlow)) next.set(subFlow, [...way, subFlow]);
      }
    }
    const [deepest] = next.values();
    if (depth === MAX_FLOW_DEPTH && deepest !== undefined) return { kind: 'tooDeep', flowIds: deepest };
    layer = next;
  }
  return undefined;
}

/** The problem of a chain, in words. */
export function chainText({ kind, flowIds }: Chain, nameOf: (flowId: string) => string): string {
  const names = flowIds.map(nameOf).join(' → ');
  if (kind === 'cycle') return `closes a cycle of flows that run each other: ${names}`;
  return `makes a chain of more than ${MAX_FLOW_DEPTH} flows that run each other: ${names}`;
}
