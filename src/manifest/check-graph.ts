import type { JsonPath } from '../expressions/json-path.ts';
import type { StepDefinition } from '../model/manifest.ts';
import { cycles, unknownUpstreams } from './graph.ts';
import { errorAt, type Problem, warningAt } from './issues.ts';
import { STEP_KEY } from './schema.ts';
import { checkExpressions, hasStep, type KnownSteps } from './step-expressions.ts';
import { checkStepInputs, type StepRules } from './step-inputs.ts';

const LOOP = 'ForEach';
const LOOP_FIELDS = ['forEach', 'concurrencyLimit', 'steps'] as const;

/** Everything that is to be said about a graph and the graphs of its loops. */
export function checkGraph(known: KnownSteps, rules: StepRules): Problem[] {
  const { graph, stepKeys, path } = known;
  const problems = Object.entries(graph).flatMap(([stepKey, step]) => [
    ...(known.isBroken([...path, stepKey, 'type']) ? [] : checkStepInputs(step, [...path, stepKey], rules)),
    ...checkExpressions(stepKey, step, known),
    ...checkLoop(stepKey, step, { known, rules }),
  ]);
  return [...problems, ...unknownUpstreams(known), ...cycles(graph, path), ...hiddenKeys(known)].concat(
    path.length === 1 ? [] : badKeys(stepKeys, path),
  );
}

function checkLoop(
  stepKey: string,
  step: StepDefinition,
  { known, rules }: { known: KnownSteps; rules: StepRules },
): Problem[] {
  const path = [...known.path, stepKey];
  // Of a type that nobody knows it is not known whether it is a loop.
  const isLoop = step.type === LOOP || !rules.handlers.has(step.type);
  if (!isLoop) {
    return LOOP_FIELDS.filter((field) => step[field] !== undefined).map((field) =>
      errorAt([...path, field], `is read by steps of the type ${LOOP} alone`),
    );
  }
  const steps = step.steps ?? {};
  const stepKeys = Object.keys(steps);
  const outer = [...known.outer, { stepKey, known }];
  const inner = checkGraph({ ...known, graph: steps, stepKeys, path: [...path, 'steps'], outer }, rules);
  return step.type === LOOP ? [...checkLoopFields(step, path), ...inner] : inner;
}

function checkLoopFields(step: StepDefinition, path: JsonPath): Problem[] {
  const problems: Problem[] = [];
  if (step.forEach === undefined) problems.push(errorAt([...path, 'forEach'], 'is missing'));
  else if (!Array.isArray(step.forEach) && typeof step.forEach !== 'string') {
    problems.push(errorAt([...path, 'forEach'], 'is neither an array nor an expression that yields one'));
  }
  // A loop has no attempts of its own that could be repeated or cut short: its children have.
  for (const field of ['retry', 'timeoutSeconds'] as const) {
    if (step[field] === undefined) continue;
    problems.push(errorAt([...path, field], 'is not accepted on a loop; give it to the child steps'));
  }
  if (step.concurrency !== undefined) {
    const message =
      'is not accepted on a loop; concurrencyLimit bounds its iterations, and concurrency its child steps';
    problems.push(errorAt([...path, 'concurrency'], message));
  }
  if (Object.keys(step.steps ?? {}).length === 0) {
    problems.push(errorAt([...path, 'steps'], 'is missing or empty; a loop runs child steps'));
  }
  return problems;
}

/** Inside a loop a child's key comes before one outside, so that an expression could read another step than was meant. */
function hiddenKeys({ stepKeys, path, outer }: KnownSteps): Problem[] {
  return stepKeys
    .filter((key) => outer.some(({ known }) => hasStep(known, key)))
    .map((key) =>
      warningAt([...path, key], `hides the step "${key}" outside the loop: steps.${key} means the child in here`),
    );
}

function badKeys(stepKeys: readonly string[], path: JsonPath): Problem[] {
  return stepKeys
    .filter((key) => !STEP_KEY.test(key))
    .map((key) => errorAt([...path, key], 'is no step key; 1 to 64 letters, digits, "_" and "-" are accepted'));
}
