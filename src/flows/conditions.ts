import { type CompiledExpression, prepareContext } from '../expressions/compile.ts';
import { compileCondition, evaluateCondition } from '../expressions/condition.ts';
import type { ExpressionContext } from '../expressions/context.ts';
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

/** Whether a step has a condition at all. */
export function hasConditions({ runAfter }: StepDefinition): boolean {
  return Object.values(runAfter).some(({ when }) => when !== undefined);
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
