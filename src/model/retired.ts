import type { Graph, StepDefinition } from './manifest.ts';

/** Whether the condition of an edge is the literal `false`, so that no run of this revision starts the step. */
export function isGuarded({ runAfter }: StepDefinition): boolean {
  return Object.values(runAfter).some(({ when }) => when?.trim() === 'false');
}

/**
 * Whether a step does nothing, and so do all that wait for it: a step that was retired as a NoOp looks so, and the steps
 * behind it that were retired with it.
 */
export function isIdle(graph: Graph, stepKey: string): boolean {
  const seen = new Set([stepKey]);
  // Iterating over a set includes entries added during the iteration.
  for (const key of seen) {
    const step = Object.hasOwn(graph, key) ? graph[key] : undefined;
    if (step?.type !== 'NoOp') return false;
    for (const [other, definition] of Object.entries(graph)) {
      if (Object.hasOwn(definition.runAfter, key) && !isGuarded(definition)) seen.add(other);
    }
  }
  return true;
}

/** Whether a recipe marked the step: one that was a NoOp all along shows by nothing else that it is kept for its records. */
export function isMarkedRetired({ type, inputs }: StepDefinition): boolean {
  return type === 'NoOp' && inputs.retired === true;
}
