import { compileCondition } from '../expressions/condition.ts';
import { ExpressionError, TemplateError } from '../expressions/errors.ts';
import { formatPath, type JsonPath } from '../expressions/json-path.ts';
import { mapStrings } from '../expressions/map-strings.ts';
import type { Reference } from '../expressions/references.ts';
import { compileTemplate, type TemplateReference } from '../expressions/template.ts';
import type { Json } from '../model/json.ts';
import type { Graph, StepDefinition } from '../model/manifest.ts';
import { upstreamsOf } from './graph.ts';
import { errorAt, type Problem, warningAt } from './issues.ts';
import { didYouMean } from './nearest.ts';

/** The steps that fit the schema, and the keys of all steps of the file. */
export interface KnownSteps {
  readonly graph: Graph;
  readonly stepKeys: readonly string[];
  /** Where the graph stands in the manifest. */
  readonly path: JsonPath;
  /** Whether what stands at a path does not fit the schema, so that nothing follows from what is read there. */
  readonly isBroken: (path: JsonPath) => boolean;
  /** The loops around the graph, outermost first: the loop's key, and the steps among which it stands. */
  readonly outer: readonly { readonly stepKey: string; readonly known: KnownSteps }[];
}

const stepKeySets = new WeakMap<readonly string[], ReadonlySet<string>>();

/** Whether one of the steps has this key; of many steps each may be asked for by each. */
export function hasStep({ stepKeys }: Pick<KnownSteps, 'stepKeys'>, stepKey: string): boolean {
  const known = stepKeySets.get(stepKeys) ?? new Set(stepKeys);
  stepKeySets.set(stepKeys, known);
  return known.has(stepKey);
}

// A placeholder of other template languages, which looks like ours; behind a $ it is a map of CEL.
const MUSTACHE = /(?<!\$)\{\{([^{}]*)\}\}/;

function mustacheMessage(found: string, inner: string): string {
  return `holds ${found}, which stays as it is; an expression is written \${${inner}}`;
}

/** Compiles every placeholder and every `when` of a step, and checks that the steps they read exist and have ended. */
export function checkExpressions(stepKey: string, step: StepDefinition, known: KnownSteps): Problem[] {
  const path = [...known.path, stepKey];
  const check = (reference: Reference, at: JsonPath) => checkReference(reference, { stepKey, at, known });
  const problems: Problem[] = [];
  mapStrings(step.inputs, (text, at) => {
    const [found, inner = ''] = MUSTACHE.exec(text) ?? [];
    if (found !== undefined) problems.push(warningAt([...path, 'inputs', ...at], mustacheMessage(found, inner.trim())));
    return text;
  });
  const templates = [['inputs', step.inputs] as const, ['forEach', step.forEach ?? null] as const];
  for (const [field, value] of templates) {
    const { references, errors } = readTemplate(value);
    for (const each of errors) {
      problems.push(errorAt([...path, field, ...(each.problem.path ?? [])], each.messageWithoutPath));
    }
    problems.push(...references.flatMap((reference) => check(reference, [...path, field, ...reference.at])));
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

/** What does not compile, and what the rest reads. */
function readTemplate(value: Json): {
  readonly references: readonly TemplateReference[];
  readonly errors: readonly ExpressionError[];
} {
  try {
    return { references: compileTemplate(value).references, errors: [] };
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    const { errors } = error;
    const broken = new Set(errors.map(({ problem }) => formatPath(problem.path ?? [])));
    const rest = mapStrings(value, (text, at) => (broken.has(formatPath(at)) ? '' : text));
    return { references: compileTemplate(rest).references, errors };
  }
}

function checkReference(
  { root, path, position }: Reference,
  { stepKey, at, known }: { stepKey: string; at: JsonPath; known: KnownSteps },
): Problem[] {
  if (root === 'loop') {
    return known.outer.length > 0 ? [] : [errorAt(at, 'reads loop, which is known inside a loop only')];
  }
  const name = path[1];
  if (root !== 'steps' || name === undefined) return [];
  if (typeof name === 'number') return [errorAt(at, `reads steps[${name}]; a step key is text: steps["${name}"]`)];
  const around = known.outer.at(-1);
  // A step further out has ended before the loop around this one began, or it may not have.
  if (!hasStep(known, name) && around !== undefined) {
    return checkReference({ root, path, position }, { stepKey: around.stepKey, at, known: around.known });
  }
  if (!hasStep(known, name)) {
    return [errorAt(at, `reads steps.${name}, and there is no such step${didYouMean(name, known.stepKeys)}`)];
  }
  if (upstreamsOf(known.graph, stepKey).has(name)) return [];
  // Where it is not known what some step runs after, the step may well run after this one.
  if (known.stepKeys.some((key) => known.isBroken([...known.path, key, 'runAfter']))) return [];
  return [warningAt(at, `reads steps.${name}, which this step does not run after: it may not have ended yet`)];
}
