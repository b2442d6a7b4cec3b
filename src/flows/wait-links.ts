import type { ExpressionContext } from '../expressions/context.ts';
import type { Graph } from '../model/manifest.ts';
import { graphOfScope, scopesAround } from '../model/runtime-keys.ts';
import type { Claim } from '../store/store.ts';

/** The step that reads `waits`, and when its run started. */
interface LinkReader extends Pick<Claim, 'runId' | 'flowId' | 'revision' | 'stepKey'> {
  readonly startedAt: number;
}

/**
 * What a step reads as `waits`: links by which people answer the steps that wait for signals. Each that is read is added to
 * `given`: who has it can answer, so it is masked in what is recorded of the step.
 */
export type WaitLinks = (step: LinkReader, given: string[]) => Promise<ExpressionContext['waits']>;

/** Runtime keys of the steps that wait for signals, by their own keys, as a step sees them: its siblings, and those around its loops. */
export function waitsSeenFrom(graph: Graph, stepKey: string): ReadonlyMap<string, string> {
  const seen = new Map<string, string>();
  for (const scope of scopesAround(stepKey).toReversed()) {
    for (const [key, { type }] of Object.entries(graphOfScope(graph, scope) ?? {})) {
      // A child hides a step of the same key further out.
      seen.delete(key);
      if (type === 'WaitForSignal') seen.set(key, `${scope}${key}`);
    }
  }
  return seen;
}
