import type { Graph, GraphStep } from '../graph/graph.ts';

/** The step of a graph at a path, `lines.price`; undefined where it has none. */
export function graphStepAt(graph: Graph, path: string): GraphStep | undefined {
  const [key = '', ...rest] = path.split('.');
  const step = Object.hasOwn(graph, key) ? graph[key] : undefined;
  if (rest.length === 0 || step === undefined) return step;
  return graphStepAt(step.steps ?? {}, rest.join('.'));
}
