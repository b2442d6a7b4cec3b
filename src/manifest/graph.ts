import type { JsonPath } from '../expressions/json-path.ts';
import type { Graph, StepDefinition } from '../model/manifest.ts';
import { didYouMean, errorAt, MAX_NAMES, type Problem } from './issues.ts';

/** Upstream keys that no step has. `stepKeys` are all steps of the file, those that do not parse included. */
export function unknownUpstreams({
  graph,
  stepKeys,
  path,
}: {
  graph: Graph;
  stepKeys: readonly string[];
  path: JsonPath;
}): Problem[] {
  const known = new Set(stepKeys);
  return Object.entries(graph).flatMap(([stepKey, step]) =>
    Object.keys(step.runAfter)
      .filter((upstream) => !known.has(upstream))
      .map((upstream) => {
        const others = stepKeys.slice(0, MAX_NAMES + 1).filter((key) => key !== stepKey);
        return errorAt(
          [...path, stepKey, 'runAfter', upstream],
          `there is no such step${didYouMean(upstream, others)}`,
        );
      }),
  );
}

/** Every edge that closes a cycle, with the cycle in the order in which its steps wait for each other. */
export function cycles(graph: Graph, path: JsonPath): Problem[] {
  const problems: Problem[] = [];
  const left = new Set<string>();
  for (const start of Object.keys(graph)) {
    if (left.has(start)) continue;
    // Depth first, without recursion: a chain of steps may be longer than the call stack.
    const walk = [{ stepKey: start, upstreams: upstreamKeys(graph, start) }];
    const isOnWalk = new Set([start]);
    for (let step = walk.at(-1); step !== undefined; step = walk.at(-1)) {
      const upstream = step.upstreams.shift();
      if (upstream === undefined) {
        walk.pop();
        isOnWalk.delete(step.stepKey);
        left.add(step.stepKey);
      } else if (isOnWalk.has(upstream)) {
        const keys = walk.map(({ stepKey }) => stepKey);
        const cycle = [...keys.slice(keys.indexOf(upstream)), upstream].join(' → ');
        problems.push(errorAt([...path, step.stepKey, 'runAfter', upstream], `closes a cycle: ${cycle}`));
      } else if (!left.has(upstream)) {
        walk.push({ stepKey: upstream, upstreams: upstreamKeys(graph, upstream) });
        isOnWalk.add(upstream);
      }
    }
  }
  return problems;
}

/** Every step that has ended before this one starts. */
export function upstreamsOf(graph: Graph, stepKey: string): ReadonlySet<string> {
  const found = new Set<string>();
  const waiting = [stepKey];
  for (let key = waiting.pop(); key !== undefined; key = waiting.pop()) {
    for (const upstream of upstreamKeys(graph, key)) {
      if (found.has(upstream)) continue;
      found.add(upstream);
      waiting.push(upstream);
    }
  }
  return found;
}

function upstreamKeys(graph: Graph, stepKey: string): string[] {
  return Object.hasOwn(graph, stepKey) ? Object.keys(graph[stepKey]?.runAfter ?? {}) : [];
}

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
  // A set is walked to its end, what is added meanwhile included.
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
