/*
 * A step of a run has a runtime key, `lines.2.price`; its step in the graph has a path, `lines.price`. Step keys have
 * no dots and iterations are numbers, so each can be derived from the other.
 */

export const stepKeys = {
  pathOf,
  scopeOf,
  iterationOf,
  firstKeyAt,
  loopAround,
  inIteration,
};

const ITERATION = /\.\d+\./g;

function pathOf(runtimeKey: string): string {
  return runtimeKey.replace(ITERATION, '.');
}

/** The prefix of a step's key: `lines.2.`, or empty outside of loops. */
function scopeOf(runtimeKey: string): string {
  return runtimeKey.slice(0, runtimeKey.lastIndexOf('.') + 1);
}

/** The innermost iteration that a step belongs to; null outside of loops. */
function iterationOf(runtimeKey: string): { readonly loopKey: string; readonly index: number } | null {
  const match = /^(.+)\.(\d+)\.[^.]+$/.exec(runtimeKey);
  return match?.[1] === undefined ? null : { loopKey: match[1], index: Number(match[2]) };
}

/** The runtime key of a step of the graph in the first iteration of each loop around it: `a.b.c` as `a.0.b.0.c`. */
function firstKeyAt(path: string): string {
  return path.replaceAll('.', '.0.');
}

/** The innermost loop around a path or a runtime key; null outside of loops. */
function loopAround(key: string): string | null {
  const iteration = iterationOf(key);
  if (iteration !== null) return iteration.loopKey;
  const end = key.lastIndexOf('.');
  return end === -1 ? null : key.slice(0, end);
}

/** The same step in another iteration of its innermost loop. */
function inIteration(stepKey: string, index: number): string {
  return stepKey.replace(/\.\d+\.([^.]+)$/, `.${index}.$1`);
}
