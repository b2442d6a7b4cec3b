import type { ExpressionContext } from '../expressions/context.ts';
import type { Reference } from '../expressions/references.ts';
import { type ParsedBody, parseBody } from '../expressions/trigger-body.ts';
import { ConversionError } from '../expressions/values.ts';
import type { Json } from '../model/json.ts';
import type { Graph } from '../model/manifest.ts';
import type { RunTrigger } from '../model/run.ts';
import type { Claim, RunInput } from '../store/store.ts';
import { graphOfScope, scopesAround } from './runtime-keys.ts';

/** What the expressions of a step read. The body is parsed when an expression first asks for it. */
export function expressionContext(
  { trigger, steps }: RunInput,
  { stepKey, loop }: Pick<Claim, 'stepKey' | 'loop'>,
): ExpressionContext {
  return {
    trigger: {
      get body() {
        return bodyOf(trigger);
      },
      headers: trigger.headers,
      key: trigger.key,
    },
    steps: loop === null ? steps : seenFrom(stepKey, steps),
    ...(loop === null ? {} : { loop }),
  };
}

/**
 * Runtime keys of the steps that expressions read: those among its siblings and in the scopes around it that a path
 * names, and all of them where the name is worked out.
 */
export function stepKeysRead(graph: Graph, stepKey: string, references: readonly Reference[]): string[] {
  const paths = references.filter(({ root }) => root === 'steps').map(({ path }) => path[1]);
  const isAny = paths.includes(undefined);
  const names = new Set(paths.map(String));
  return scopesAround(stepKey).flatMap((scope) =>
    Object.keys(graphOfScope(graph, scope) ?? {})
      .filter((key) => isAny || names.has(key))
      .map((key) => `${scope}${key}`),
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

// One reading of the run serves the conditions and the inputs of an attempt, and so does one parsing.
const parsedBodies = new WeakMap<RunTrigger, ParsedBody>();

function bodyOf(trigger: RunTrigger): Json {
  const parsed = parsedBodies.get(trigger) ?? parseBody(trigger.body, trigger.contentType ?? undefined);
  parsedBodies.set(trigger, parsed);
  if ('error' in parsed) throw new ConversionError(`trigger.body cannot be read: ${parsed.error}`);
  return parsed.value;
}
