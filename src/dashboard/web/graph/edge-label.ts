import type { GraphEdge } from './graph.ts';

const MAX_LETTERS = 34;

/** What an edge asks for beside a success, short enough for the picture; null where that is nothing. */
export function edgeLabel(edge: GraphEdge, from: string): string | null {
  // Which step is meant is seen from where the line begins; the end of a condition tells more than its beginning.
  const full = edgeText(edge)?.replaceAll(`steps.${from}.`, '').replaceAll('trigger.body.', 'body.');
  if (full === undefined || full.length <= MAX_LETTERS) return full ?? null;
  return `${full.slice(0, MAX_LETTERS - 1)}…`;
}

/** The same in full. */
export function edgeText({ statuses, when }: GraphEdge): string | null {
  const isUsual = statuses.length === 1 && statuses[0] === 'Succeeded';
  const parts = [...(isUsual ? [] : [statuses.join(' or ')]), ...(when === undefined ? [] : [`when ${when}`])];
  return parts.length === 0 ? null : parts.join(', ');
}
