import { iterationOf } from '../graph/step-paths.ts';

/** The runtime key of a step of the graph in the first iteration of each loop around it: `a.b.c` as `a.0.b.0.c`. */
export function firstKeyAt(path: string): string {
  return path.replaceAll('.', '.0.');
}

/** Of a path, or of a runtime key, the innermost loop around it; null outside of loops. */
export function loopAround(key: string): string | null {
  const iteration = iterationOf(key);
  if (iteration !== null) return iteration.loopKey;
  const end = key.lastIndexOf('.');
  return end === -1 ? null : key.slice(0, end);
}

/** The same step in another iteration of its innermost loop. */
export function inIteration(stepKey: string, index: number): string {
  return stepKey.replace(/\.\d+\.([^.]+)$/, `.${index}.$1`);
}
