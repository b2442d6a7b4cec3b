import type { ExpressionContext, Root } from '../expressions/context.ts';
import { parseBody } from '../expressions/trigger-body.ts';
import type { Json } from '../model/json.ts';
import type { Graph } from '../model/manifest.ts';
import type { RunTrigger } from '../model/run.ts';
import type { Claim, RunInput } from '../store/store.ts';
import { graphOfScope, scopesAround } from './runtime-keys.ts';
import { StepFailure } from './step-failure.ts';

/** What the expressions of a step read; the body is parsed where one of these roots needs it. Throws `StepFailure`. */
export function expressionContext(
  { trigger, steps }: RunInput,
  { stepKey, loop }: Pick<Claim, 'stepKey' | 'loop'>,
  roots: ReadonlySet<Root>,
): ExpressionContext {
  const body = roots.has('trigger') ? bodyOf(trigger) : null;
  return {
    trigger: { body, headers: trigger.headers, key: trigger.key },
    steps: loop === null ? steps : seenFrom(stepKey, steps),
    ...(loop === null ? {} : { loop }),
  };
}

/** Runtime keys of the steps that a step can read: its siblings, and those of the scopes around it. */
export function readableKeys(graph: Graph, stepKey: string): string[] {
  return scopesAround(stepKey).flatMap((scope) =>
    Object.keys(graphOfScope(graph, scope) ?? {}).map((key) => `${scope}${key}`),
  );
}

/** By their own keys; a sibling hides a step of the same key further out. */
function seenFrom(stepKey: string, steps: RunInput['steps']): RunInput['steps'] {
  const seen = new Map<string, RunInput['steps'][string]>();
  for (const scope of scopesAround(stepKey).toReversed()) {
    for (const [key, step] of Object.entries(steps)) {
      const localKey = key.startsWith(scope) ? key.slice(scope.length) : '.';
      if (!localKey.includes('.')) seen.set(localKey, step);
    }
  }
  return Object.fromEntries(seen);
}

function bodyOf({ body, contentType }: RunTrigger): Json {
  const parsed = parseBody(body, contentType ?? undefined);
  if ('error' in parsed) throw new StepFailure('expression_failed', `trigger.body: ${parsed.error}`);
  return parsed.value;
}
