import type { Graph } from './graph.ts';
import { type Dagre, type GraphLayout, layOut } from './layout.ts';

/** Smaller letters are no longer read but guessed. */
const LEAST_SCALE = 0.72;
const NARROW = 560;
/** From left to right reads best, also where a little of it has to be scrolled to. */
const MOST_OVERFLOW = 1.5;

/** From left to right, or from top to bottom where the first would have to be scrolled far and the second would not. */
export function chooseLayout(graph: Graph, dagre: Dagre, width: number): GraphLayout {
  if (width < NARROW) return layOut(graph, { dagre, direction: 'TB' });
  const across = layOut(graph, { dagre, direction: 'LR' });
  if (across.width * LEAST_SCALE <= width * MOST_OVERFLOW) return across;
  const down = layOut(graph, { dagre, direction: 'TB' });
  return down.width * LEAST_SCALE <= width ? down : across;
}

/** The scale at which a picture fits its frame, as far as it stays readable; never larger than life. */
export function fittingScale({ width }: { width: number }, frameWidth: number): number {
  return Math.min(1, Math.max(LEAST_SCALE, frameWidth / Math.max(1, width)));
}
