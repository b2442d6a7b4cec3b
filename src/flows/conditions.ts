import { type CompiledExpression, prepareContext } from '../expressions/compile.ts';
import { compileCondition, evaluateCondition } from '../expressions/condition.ts';
import type { ExpressionContext } from '../expressions/context.ts';
import type { Reference } from '../expressions/references.ts';
import type { Json, JsonObject } from '../model/json.ts';
import type { Edge, StepDefinition } from '../model/manifest.ts';

/** What the conditions of a step's edges said together. */
export type Judgement =
  | { readonly kind: 'pass'; readonly trace: Json }
  | { readonly kind: 'skip'; readonly trace: Json; readonly reason: string }
  /** One failed or gave no boolean: neither passing nor skipping may be concluded, whatever the others say. */
  | { readonly kind: 'failed'; readonly trace: Json; readonly message: string };

// The edges of a revision never change, so a condition is compiled once and goes with its edge.
const compiled = new WeakMap<Edge, CompiledExpression>();

/** What the conditions of a step read; undefined where it has none. */
export function conditionReferences({ runAfter }: StepDefinition): readonly Reference[] | undefined {
  const edges = Object.values(runAfter);
  const found = edges.flatMap((edge) => (edge.when === undefined ? [] : [conditionOf(edge, edge.when)]));
  return found.length === 0 ? undefined : found.flatMap(({ references }) => references);
}

/** Evaluates every condition of a step, so that its record shows all of them. Pure. */
export function judgeConditions({ runAfter }: StepDefinition, context: ExpressionContext): Judgement {
  const trace: JsonObject[] = [];
  let failure: string | undefined;
  let refusal: string | undefined;
  const data = prepareContext(context);
  for (const [upstream, edge] of Object.entries(runAfter)) {
    if (edge.when === undefined) continue;
    const outcome = evaluateCondition(conditionOf(edge, edge.when), context, data);
    const about = { after: upstream, expression: edge.when, values: outcome.trace };
    if ('error' in outcome) {
      trace.push({ ...about, error: outcome.error });
      failure ??= `runAfter.${upstream}.when: ${outcome.error}`;
    } else {
      trace.push({ ...about, result: outcome.result });
      if (!outcome.result) refusal ??= `the condition on "${upstream}" is false: ${edge.when}`;
    }
  }
  if (failure !== undefined) return { kind: 'failed', trace, message: failure };
  return refusal === undefined ? { kind: 'pass', trace } : { kind: 'skip', trace, reason: refusal };
}

function conditionOf(edge: Edge, when: string): CompiledExpression {
  const known = compiled.get(edge);
  if (known !== undefined) return known;
  const made = compileCondition(when);
  compiled.set(edge, made);
  return made;
}
