/**
 * Step keys as stored in rows. A step of the graph has its own key; the child `c` of the third iteration of the loop
 * `l` has `l.2.c`, and loops nest. The part before the child's own key is its scope: `l.2.`, or empty outside of loops.
 * Step keys contain no dot.
 */
interface RuntimeKey {
  readonly scope: string;
  /** The key in the graph of the scope. */
  readonly localKey: string;
  /** The iteration of the step; null outside of loops. */
  readonly iteration: Iteration | null;
}

export interface Iteration {
  /** Runtime key of the loop. */
  readonly loopKey: string;
  /** From 0. */
  readonly index: number;
}

export function parseRuntimeKey(stepKey: string): RuntimeKey {
  const end = stepKey.lastIndexOf('.');
  if (end === -1) return { scope: '', localKey: stepKey, iteration: null };
  const scope = stepKey.slice(0, end + 1);
  return { scope, localKey: stepKey.slice(end + 1), iteration: iterationOf(scope) };
}

/** The iteration of a scope; null for the scope outside of loops. */
export function iterationOf(scope: string): Iteration | null {
  if (scope === '') return null;
  const start = scope.lastIndexOf('.', scope.length - 2);
  return { loopKey: scope.slice(0, start), index: Number(scope.slice(start + 1, -1)) };
}

export function scopeOfIteration({ loopKey, index }: Iteration): string {
  return `${loopKey}.${index}.`;
}

/** Owner of all leases if one process at a time has the store: a start frees the leases of the process before it. */
export const SOLE_OWNER = 'sole';

/**
 * Names the leases that an owner takes in one call. Each token ends with the owner's name, so that no separate column
 * is needed. Throws if the name would make this ambiguous.
 */
export function holderOf(owner: string, call: string): string {
  if (/^$|[/~]/.test(owner)) throw new Error(`An owner of leases cannot be named ${JSON.stringify(owner)}`);
  return `${owner}~${call}`;
}

/** The owner of a lease, by its token or its holder. */
export function ownerOf(token: string): string {
  const holder = token.slice(token.lastIndexOf('/') + 1);
  return holder.slice(0, holder.indexOf('~'));
}

/** Names a lease of a step. The token contains the step's address, so that a store needs no index of leases. */
export function tokenOf(runId: string, stepKey: string, holder: string): string {
  return `${runId}/${stepKey}/${holder}`;
}

/** The step of a token, and the holder, which is the only part that the step's row stores. */
export function leasedStep(token: string): Readonly<Record<'runId' | 'stepKey' | 'holder', string>> {
  const start = token.indexOf('/');
  const end = token.lastIndexOf('/');
  return { runId: token.slice(0, start), stepKey: token.slice(start + 1, end), holder: token.slice(end + 1) };
}

/** A step of a graph, from a manifest or prepared; a loop contains a graph. */
interface Nested<Step> {
  readonly steps?: Readonly<Record<string, Step>> | undefined;
}

/** The graph of a scope's steps; undefined if a run of this graph has no such scope. */
export function graphOfScope<Step extends Nested<Step>>(
  graph: Readonly<Record<string, Step>>,
  scope: string,
): Readonly<Record<string, Step>> | undefined {
  const iteration = iterationOf(scope);
  return iteration === null ? graph : stepAt(graph, iteration.loopKey)?.steps;
}

/** The step of a runtime key; undefined if the graph has none. */
export function stepAt<Step extends Nested<Step>>(
  graph: Readonly<Record<string, Step>>,
  stepKey: string,
): Step | undefined {
  const { scope, localKey } = parseRuntimeKey(stepKey);
  const own = graphOfScope(graph, scope);
  return own !== undefined && Object.hasOwn(own, localKey) ? own[localKey] : undefined;
}

/** Scopes whose steps a step can read: its own first, then those of the loops around it. */
export function scopesAround(stepKey: string): string[] {
  const { scope } = parseRuntimeKey(stepKey);
  const iteration = iterationOf(scope);
  return iteration === null ? [scope] : [scope, ...scopesAround(iteration.loopKey)];
}
