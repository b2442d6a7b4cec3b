import type { Graph, StepDefinition } from '../model/manifest.ts';

/** Whether the condition of an edge is the literal `false`, so that no run of this revision starts the step. */
export function isGuarded({ runAfter }: StepDefinition): boolean {
  return Object.values(runAfter).some(({ when }) => when?.trim() === 'false');
}

/** Whether a step does nothing and nothing that starts waits for it: an entry step that was retired looks so. */
export function isIdle(graph: Graph, stepKey: string): boolean {
  const step = Object.hasOwn(graph, stepKey) ? graph[stepKey] : undefined;
  if (step?.type !== 'NoOp' || Object.keys(step.runAfter).length > 0) return false;
  return Object.values(graph).every((other) => !Object.hasOwn(other.runAfter, stepKey) || isGuarded(other));
}
