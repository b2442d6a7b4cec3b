/*
 * A step of a run has a runtime key, `lines.2.price`; the step of the graph that it runs has a path, `lines.price`. Keys
 * of steps hold no dot and iterations are numbers, so that the one follows from the other.
 */

const ITERATION = /\.\d+\./g;

export function pathOf(runtimeKey: string): string {
  return runtimeKey.replace(ITERATION, '.');
}

/** What stands before a step's own key: `lines.2.`, or nothing outside of loops. */
export function scopeOf(runtimeKey: string): string {
  return runtimeKey.slice(0, runtimeKey.lastIndexOf('.') + 1);
}

/** The iteration that a step belongs to, innermost; null outside of loops. */
export function iterationOf(runtimeKey: string): { readonly loopKey: string; readonly index: number } | null {
  const match = /^(.+)\.(\d+)\.[^.]+$/.exec(runtimeKey);
  return match?.[1] === undefined ? null : { loopKey: match[1], index: Number(match[2]) };
}
