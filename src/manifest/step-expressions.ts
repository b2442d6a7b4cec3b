import { compileCondition } from '../expressions/condition.ts';
import { ExpressionError, TemplateError } from '../expressions/errors.ts';
import type { JsonPath } from '../expressions/json-path.ts';
import type { Reference } from '../expressions/references.ts';
import { compileTemplate } from '../expressions/template.ts';
import type { Graph, StepDefinition } from '../model/manifest.ts';
import { upstreamsOf } from './graph.ts';
import { errorAt, type Problem, warningAt } from './issues.ts';
import { didYouMean } from './nearest.ts';

/** The steps that fit the schema, and the keys of all steps of the file. */
export interface KnownSteps {
  readonly graph: Graph;
  readonly stepKeys: readonly string[];
}

/** Compiles every placeholder and every `when` of a step, and checks that the steps they read exist and have ended. */
export function checkExpressions(stepKey: string, step: StepDefinition, known: KnownSteps): Problem[] {
  const path = ['steps', stepKey];
  const check = (reference: Reference, at: JsonPath) => checkReference(reference, { stepKey, at, known });
  const problems: Problem[] = [];
  try {
    const template = compileTemplate(step.inputs);
    for (const reference of template.references) {
      problems.push(...check(reference, [...path, 'inputs', ...reference.at]));
    }
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    problems.push(
      ...error.errors.map((each) =>
        errorAt([...path, 'inputs', ...(each.problem.path ?? [])], each.messageWithoutPath),
      ),
    );
  }
  for (const [upstream, { when }] of Object.entries(step.runAfter)) {
    if (when === undefined) continue;
    const at = [...path, 'runAfter', upstream, 'when'];
    try {
      problems.push(...compileCondition(when).references.flatMap((reference) => check(reference, at)));
    } catch (error) {
      if (!(error instanceof ExpressionError)) throw error;
      problems.push(errorAt(at, error.message));
    }
  }
  return problems;
}

function checkReference(
  { root, path }: Reference,
  { stepKey, at, known }: { stepKey: string; at: JsonPath; known: KnownSteps },
): Problem[] {
  if (root === 'loop') return [errorAt(at, 'reads loop, which is known inside a loop only')];
  const name = path[1];
  if (root !== 'steps' || name === undefined) return [];
  if (typeof name === 'number') return [errorAt(at, `reads steps[${name}]; a step key is text: steps["${name}"]`)];
  if (!known.stepKeys.includes(name)) {
    return [errorAt(at, `reads steps.${name}, and there is no such step${didYouMean(name, known.stepKeys)}`)];
  }
  if (upstreamsOf(known.graph, stepKey).has(name)) return [];
  return [warningAt(at, `reads steps.${name}, which this step does not run after: it may not have ended yet`)];
}
