/** Steps by key, with the fields that a picture shows; manifests of flows and outlines of runs both have them. */
export interface Graph {
  readonly [stepKey: string]: GraphStep;
}

interface GraphStep {
  readonly type: string;
  readonly runAfter: { readonly [upstreamKey: string]: GraphEdge };
  /** Children of a loop. */
  readonly steps?: Graph | undefined;
}

interface GraphEdge {
  readonly statuses: readonly string[];
  readonly when?: string | undefined;
}

const MAX_LETTERS = 34;

/** What an edge requires besides success, short enough for the picture; null if nothing. */
export function edgeLabel(edge: GraphEdge, from: string): string | null {
  // Prefixes are cut: the line already shows the upstream step, and the end of a condition says more than its start.
  const full = edgeText(edge)?.replaceAll(`steps.${from}.`, '').replaceAll('trigger.body.', 'body.');
  const letters = [...(full ?? '')];
  if (full === undefined || letters.length <= MAX_LETTERS) return full ?? null;
  return `${letters.slice(0, MAX_LETTERS - 1).join('')}…`;
}

/** The same text in full. */
export function edgeText({ statuses, when }: GraphEdge): string | null {
  const isUsual = statuses.length === 1 && statuses[0] === 'Succeeded';
  const parts = [...(isUsual ? [] : [statuses.join(' or ')]), ...(when === undefined ? [] : [`when ${when}`])];
  return parts.length === 0 ? null : parts.join(', ');
}

/** Whether a run took an edge, can no longer take it, or has not reached it. */
type EdgeState = 'ahead' | 'taken' | 'skipped';

export function edgeState({ statuses }: GraphEdge, from: string | undefined, to: string | undefined): EdgeState {
  const hasEnded = from === 'Succeeded' || from === 'Failed' || from === 'Skipped';
  if (to === 'Skipped' || (hasEnded && !statuses.includes(from))) return 'skipped';
  return hasEnded && to !== undefined ? 'taken' : 'ahead';
}

/** The step of a graph at a path such as `lines.price`; undefined if there is none. */
export function graphStepAt(graph: Graph, path: string): GraphStep | undefined {
  const [key = '', ...rest] = path.split('.');
  const step = Object.hasOwn(graph, key) ? graph[key] : undefined;
  if (rest.length === 0 || step === undefined) return step;
  return graphStepAt(step.steps ?? {}, rest.join('.'));
}
