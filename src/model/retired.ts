import type { Graph, StepDefinition } from './manifest.ts';
import { oncePer } from './once-per.ts';

/** Whether the condition of an edge is the literal `false`, so that no run of this revision starts the step. */
export function isGuarded({ runAfter }: StepDefinition): boolean {
  return Object.values(runAfter).some(({ when }) => when?.trim() === 'false');
}

/**
 * Whether a step and all steps behind it do nothing: this holds for a step that was retired as a NoOp, and for steps
 * behind it that were retired with it.
 */
export function isIdle(graph: Graph, stepKey: string): boolean {
  return idleSteps(graph).has(stepKey);
}

const idleSteps = oncePer((graph: Graph): ReadonlySet<string> => {
  const found = new Set(Object.keys(graph));
  const busy = [...found].filter((key) => graph[key]?.type !== 'NoOp');
  // The list grows during the loop: all steps that a busy step waits for are busy.
  for (const key of busy) {
    if (!found.delete(key)) continue;
    const step = graph[key];
    if (step !== undefined && !isGuarded(step)) busy.push(...Object.keys(step.runAfter));
  }
  return found;
});

/** Whether a recipe marked the step as retired: this is the only sign if it was a NoOp all along. */
export function isMarkedRetired({ type, inputs }: StepDefinition): boolean {
  return type === 'NoOp' && inputs.retired === true;
}
