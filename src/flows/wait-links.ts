import type { ExpressionContext } from '../expressions/context.ts';
import type { Graph } from '../model/manifest.ts';
import { graphOfScope, scopesAround } from '../model/runtime-keys.ts';
import type { Claim } from '../store/store.ts';

/** The step that reads `waits`, and when its run started. */
interface LinkReader extends Pick<Claim, 'runId' | 'flowId' | 'revision' | 'stepKey'> {
  readonly startedAt: number;
}

/**
 * The value of `waits` for a step: links with which people answer steps that wait for signals. Each link that is read
 * is added to `given`: everyone who has it can answer, so it is masked in the step's records.
 */
export type WaitLinks = (step: LinkReader, given: string[]) => Promise<ExpressionContext['waits']>;

/** Runtime keys of steps that wait for signals, by their own keys: siblings of a step, and steps around its loops. */
export function waitsSeenFrom(graph: Graph, stepKey: string): ReadonlyMap<string, string> {
  const seen = new Map<string, string>();
  for (const scope of scopesAround(stepKey).toReversed()) {
    for (const [key, { type }] of Object.entries(graphOfScope(graph, scope) ?? {})) {
      // A child hides a step with the same key further out.
      seen.delete(key);
      if (type === 'WaitForSignal') seen.set(key, `${scope}${key}`);
    }
  }
  return seen;
}
