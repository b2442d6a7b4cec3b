import type { GraphEdge } from './graph.ts';

/** Whether a run went along an edge, cannot any more, or has not come to it. */
export type EdgeState = 'ahead' | 'taken' | 'skipped';

export function edgeState({ statuses }: GraphEdge, from: string | undefined, to: string | undefined): EdgeState {
  const hasEnded = from === 'Succeeded' || from === 'Failed' || from === 'Skipped';
  if (to === 'Skipped' || (hasEnded && !statuses.includes(from))) return 'skipped';
  return hasEnded && to !== undefined ? 'taken' : 'ahead';
}
