/** Steps by key, as much of them as a picture shows; a flow's manifest and a run's outline both have it. */
export interface Graph {
  readonly [stepKey: string]: GraphStep;
}

interface GraphStep {
  readonly type: string;
  readonly runAfter: { readonly [upstreamKey: string]: GraphEdge };
  /** Of a loop: its children. */
  readonly steps?: Graph | undefined;
}

interface GraphEdge {
  readonly statuses: readonly string[];
  readonly when?: string | undefined;
}

const MAX_LETTERS = 34;

/** What an edge requires other than a success, short enough for the picture; null where that is nothing. */
export function edgeLabel(edge: GraphEdge, from: string): string | null {
  // Which step is meant is seen from where the line begins; the end of a condition tells more than its beginning.
  const full = edgeText(edge)?.replaceAll(`steps.${from}.`, '').replaceAll('trigger.body.', 'body.');
  const letters = [...(full ?? '')];
  if (full === undefined || letters.length <= MAX_LETTERS) return full ?? null;
  return `${letters.slice(0, MAX_LETTERS - 1).join('')}…`;
}

/** The same in full. */
export function edgeText({ statuses, when }: GraphEdge): string | null {
  const isUsual = statuses.length === 1 && statuses[0] === 'Succeeded';
  const parts = [...(isUsual ? [] : [statuses.join(' or ')]), ...(when === undefined ? [] : [`when ${when}`])];
  return parts.length === 0 ? null : parts.join(', ');
}

/** Whether a run went along an edge, cannot any more, or has not come to it. */
type EdgeState = 'ahead' | 'taken' | 'skipped';

export function edgeState({ statuses }: GraphEdge, from: string | undefined, to: string | undefined): EdgeState {
  const hasEnded = from === 'Succeeded' || from === 'Failed' || from === 'Skipped';
  if (to === 'Skipped' || (hasEnded && !statuses.includes(from))) return 'skipped';
  return hasEnded && to !== undefined ? 'taken' : 'ahead';
}

/** The step of a graph at a path, `lines.price`; undefined where it has none. */
export function graphStepAt(graph: Graph, path: string): GraphStep | undefined {
  const [key = '', ...rest] = path.split('.');
  const step = Object.hasOwn(graph, key) ? graph[key] : undefined;
  if (rest.length === 0 || step === undefined) return step;
  return graphStepAt(step.steps ?? {}, rest.join('.'));
}
