import type { GraphEdge } from './graph.ts';

const MAX_LETTERS = 30;

/** What an edge asks for beside a success, short enough for the picture; null where that is nothing. */
export function edgeLabel(edge: GraphEdge): string | null {
  const full = edgeText(edge);
  if (full === null || full.length <= MAX_LETTERS) return full;
  return `${full.slice(0, MAX_LETTERS - 1)}…`;
}

/** The same in full. */
export function edgeText({ statuses, when }: GraphEdge): string | null {
  const isUsual = statuses.length === 1 && statuses[0] === 'Succeeded';
  const parts = [...(isUsual ? [] : [statuses.join(' or ')]), ...(when === undefined ? [] : [`when ${when}`])];
  return parts.length === 0 ? null : parts.join(', ');
}
