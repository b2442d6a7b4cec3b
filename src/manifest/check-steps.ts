import type { z } from 'zod';
import { ExpressionError, type Vars } from '../expressions/compile.ts';
import { compileCondition } from '../expressions/condition.ts';
import type { Reference } from '../expressions/context.ts';
import { formatPath, type JsonPath, mapStrings } from '../expressions/json-path.ts';
import { compileTemplate, hasPlaceholder, secretsIn, TemplateError } from '../expressions/template.ts';
import { createRunsAfter, type RunsAfter } from '../model/graph.ts';
import type { Json, JsonObject } from '../model/json.ts';
import { type Graph, LOOP, LOOP_FIELDS, PINNED_INPUTS, RUN_FLOW, type StepDefinition } from '../model/manifest.ts';
import { oncePer, setOf } from '../model/once-per.ts';
import {
  didYouMean,
  errorAt,
  isWithin,
  MAX_NAMES,
  type Problem,
  parseWith,
  plainTextSecret,
  warningAt,
} from './issues.ts';
import { placeElsewhere } from './misplaced.ts';
import { isReference, resolveSecret, type SecretReader } from './read-secret.ts';
import { STEP_KEY } from './schema.ts';
import { isSecretInput, stepSecrets } from './secrets.ts';
import { checkVar } from './vars.ts';

/** The steps that fit the schema, and the keys of all steps of the file. */
interface KnownSteps {
  readonly graph: Graph;
  readonly stepKeys: readonly string[];
  /** Path of the graph in the manifest. */
  readonly path: JsonPath;
  /** Whether the value at a path does not fit the schema, so that no conclusions can be drawn from it. */
  readonly isBroken: (path: JsonPath) => boolean;
  /** Variables that differ by environment. */
  readonly vars?: Vars | undefined;
  /** The loops around the graph, outermost first: the loop's key, and the steps next to it. */
  readonly outer: readonly { readonly stepKey: string; readonly known: KnownSteps }[];
}

interface StepRules {
  /** By step type. */
  readonly handlers: ReadonlyMap<string, HandlerRules>;
  readonly readSecret: SecretReader;
}

/** The facts about a step type that the loader needs. */
interface HandlerRules {
  readonly inputs: z.ZodType;
  /** Paths with `*` for any key, such as `headers.*`. */
  readonly secretInputs: readonly string[];
}

/** Reports all problems of a graph and of the graphs of its loops. */
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
  // A step of an unknown type may be a loop.
  const isLoop = step.type === LOOP || !rules.handlers.has(step.type);
  if (!isLoop) {
    return LOOP_FIELDS.filter((field) => step[field] !== undefined).map((field) =>
      errorAt([...path, field], `is only read on steps of type ${LOOP}`),
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
  // A loop has no attempts that could be repeated or cut short; its children have.
  for (const field of ['retry', 'timeoutSeconds'] as const) {
    if (step[field] === undefined) continue;
    problems.push(errorAt([...path, field], 'is not accepted on a loop; give it to the child steps'));
  }
  if (step.concurrency !== undefined) {
    const message =
      'is not accepted on a loop; concurrencyLimit limits its iterations, and concurrency its child steps';
    problems.push(errorAt([...path, 'concurrency'], message));
  }
  if (Object.keys(step.steps ?? {}).length === 0) {
    problems.push(errorAt([...path, 'steps'], 'is missing or empty; a loop runs child steps'));
  }
  return problems;
}

/** Inside a loop, a child's key takes precedence over one outside: an expression could read the wrong step. */
function hiddenKeys({ stepKeys, path, outer }: KnownSteps): Problem[] {
  return stepKeys
    .filter((key) => outer.some(({ known }) => hasStep(known, key)))
    .map((key) =>
      warningAt([...path, key], `hides the step "${key}" outside the loop: steps.${key} here means the child`),
    );
}

function badKeys(stepKeys: readonly string[], path: JsonPath): Problem[] {
  return stepKeys
    .filter((key) => !STEP_KEY.test(key))
    .map((key) => errorAt([...path, key], 'is not a step key; 1 to 64 letters, digits, "_" and "-" are accepted'));
}

/** Checks the type of a step, its secrets, and all inputs that no expression decides. */
function checkStepInputs(step: StepDefinition, path: JsonPath, { handlers, readSecret }: StepRules): Problem[] {
  const handler = handlers.get(step.type);
  if (handler === undefined) {
    const known = [...handlers.keys()];
    const nearest = didYouMean(step.type, known) || '.';
    return [errorAt([...path, 'type'], `is not a known step type${nearest} Known: ${known.join(', ')}`)];
  }
  const problems: Problem[] = [];
  const inputsPath = [...path, 'inputs'];
  const values = new Map<string, string>();
  for (const secret of stepSecrets(step.inputs, handler.secretInputs)) {
    const at = [...inputsPath, ...secret.path];
    const resolved = resolveSecret(secret.text, readSecret);
    if ('error' in resolved) problems.push(errorAt(at, resolved.error));
    else if (secret.isPart !== true) values.set(formatPath(secret.path), resolved.value);
    if (!isReference(secret.text)) problems.push(plainTextSecret(at));
  }
  const inputs = mapStrings(step.inputs, (text, at) => values.get(formatPath(at)) ?? text);
  // The schema saw the reference in place of a secret that cannot be read.
  const unread = new Set(problems.filter(({ severity }) => severity === 'error').map(({ path: at }) => at));
  problems.push(...checkParts(step, inputsPath, handler.secretInputs));
  const misfits = [...checkWithSchema(inputs, inputsPath, handler.inputs), ...checkPinned(step, inputsPath)];
  return [...problems, ...misfits.filter(({ path: at }) => !isWithin(at, unread))];
}

/** These steps store their inputs: in the run of another flow, or as the name of a signal. */
const STORED_INPUTS: ReadonlySet<string> = new Set([RUN_FLOW, 'WaitForSignal']);
const BURIED = /^(?!(?:env|file):)(.*[\s=,;:/?&@"'(])(env:[A-Za-z_]\w*|file:[\w./-]+)/is;
/** Where references are not read, `env:prod` may be a tag. */
const MISPLACED = /^((?:.*[\s=,;:/?&@"'(])?)(env:[A-Z][A-Z0-9]*_[A-Z0-9_]*)\b/s;

/** A URL with a secret, marked by NUL, in its host; not one in its user information. */
const SECRET_HOST = /^\s*https?:\/\/(?:[^/?#\\]*@)?[^/?#@\\]*\0[^/?#@\\]*(?:[/?#\\]|$)/i;

/** References inside longer texts: those that are never read, and those whose value would be stored. */
function checkParts({ type, inputs }: StepDefinition, path: JsonPath, secretInputs: readonly string[]): Problem[] {
  const problems: Problem[] = [];
  mapStrings(inputs, (text, at) => {
    if (STORED_INPUTS.has(type) && secretsIn(text).length > 0) {
      problems.push(errorAt([...path, ...at], `has secret(), and a ${type} step stores what it is given`));
    }
    if (SECRET_HOST.test(text.replace(/\$\{[^}]*\}/g, (inner) => (secretsIn(inner).length > 0 ? '\0' : 'x')))) {
      problems.push(
        warningAt([...path, ...at], 'has secret() in the host of a URL; /hosts and /metrics show host names'),
      );
    }
    const isRead = isSecretInput(at, secretInputs);
    const plain = text.replace(/\$\{[^}]*\}/g, (placeholder) => 'x'.repeat(placeholder.length));
    const [, { length } = '', reference] = (isRead ? BURIED : MISPLACED).exec(plain) ?? [];
    if (reference !== undefined && (isRead || !STORED_INPUTS.has(type))) {
      const right = `${text.slice(0, length)}\${secret('${reference}')}${text.slice(length + reference.length)}`;
      problems.push((isRead ? errorAt : warningAt)([...path, ...at], `would be sent as it stands; write ${right}`));
    }
    return text;
  });
  return problems;
}

/** The flow that a step runs must be known in advance: runs pin it when they start, and cycles are refused. */
function checkPinned({ type, inputs }: StepDefinition, path: JsonPath): Problem[] {
  if (type !== RUN_FLOW) return [];
  return PINNED_INPUTS.filter((key) => isRendered(inputs, [key])).map((key) =>
    errorAt([...path, key], 'is an expression; only a constant is accepted, because each run pins it when it starts'),
  );
}

function checkWithSchema(inputs: JsonObject, path: JsonPath, schema: z.ZodType): Problem[] {
  try {
    const parsed = parseWith(schema, inputs);
    if ('value' in parsed) return [];
    return parsed.problems
      .filter((problem) => problem.isUnknownKey === true || !isRendered(inputs, problem.path))
      .map(({ path: inner, message, isUnknownKey }) => {
        const at = [...path, ...inner];
        const elsewhere = isUnknownKey === true && inner.length === 1 ? placeElsewhere(at) : undefined;
        return errorAt(at, elsewhere === undefined ? message : `is not known here${elsewhere}`);
      });
  } catch {
    // The step's run repeats the check for a schema that is asynchronous, or throws at a placeholder.
    return [];
  }
}

/** Whether an expression decides the value at this path. */
function isRendered(inputs: Json, path: JsonPath): boolean {
  let isFound = false;
  mapStrings(inputs, (text, at) => {
    isFound ||= hasPlaceholder(text) && startsWith(at, path);
    return text;
  });
  return isFound;
}

function startsWith(path: JsonPath, start: JsonPath): boolean {
  return start.every((key, index) => key === path[index]);
}

/** Compiles every placeholder and `when` of a step, and checks that the steps that they read exist and have ended. */
function checkExpressions(stepKey: string, step: StepDefinition, known: KnownSteps): Problem[] {
  const path = [...known.path, stepKey];
  const check = (reference: Reference, at: JsonPath) => checkReference(reference, { stepKey, at, known });
  const problems: Problem[] = [];
  mapStrings(step.inputs, (text, at) => {
    const [found, inner = ''] = MUSTACHE.exec(text) ?? [];
    if (found !== undefined) problems.push(warningAt([...path, 'inputs', ...at], mustacheMessage(found, inner.trim())));
    return text;
  });
  mapStrings(step.forEach ?? null, (text, at) => {
    const message = 'has secret(), which only the inputs of a step may have';
    if (secretsIn(text).length > 0) problems.push(errorAt([...path, 'forEach', ...at], message));
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

// Placeholders of other template languages, which look like ours; after a $, this is a CEL map.
const MUSTACHE = /(?<!\$)\{\{([^{}]*)\}\}/;

function mustacheMessage(found: string, inner: string): string {
  return `contains ${found}, which stays as it is; an expression is written \${${inner}}`;
}

/** The expressions that do not compile, and the references of the others. */
function readTemplate(value: Json): {
  readonly references: ReturnType<typeof compileTemplate>['references'];
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
    return known.outer.length > 0 ? [] : [errorAt(at, 'reads loop, which exists only inside a loop')];
  }
  if (root === 'vars') return checkVar({ root, path, position }, at, known.vars ?? {});
  const name = path[1];
  if (root !== 'steps' || name === undefined) return [];
  if (typeof name === 'number') return [errorAt(at, `reads steps[${name}]; a step key is text: steps["${name}"]`)];
  const around = known.outer.at(-1);
  // A step outside this loop is checked as if the loop read it: did it end before the loop began?
  if (!hasStep(known, name) && around !== undefined) {
    return checkReference({ root, path, position }, { stepKey: around.stepKey, at, known: around.known });
  }
  if (!hasStep(known, name)) {
    return [errorAt(at, `reads steps.${name}, but no step has this key${didYouMean(name, known.stepKeys)}`)];
  }
  if (wiringOf(known).runsAfter(stepKey, name)) return [];
  // If the upstream steps of some step are unknown, this order cannot be ruled out.
  if (wiringOf(known).isBroken()) return [];
  return [warningAt(at, `reads steps.${name}, which this step does not run after: it may not have ended yet`)];
}

interface Wiring {
  readonly runsAfter: RunsAfter;
  /** Whether the upstream steps of some step are unknown. */
  isBroken(): boolean;
}

/** Computed once per graph: each reference of each step needs it. */
const wiringOf = oncePer((known: KnownSteps): Wiring => {
  let isBroken: boolean | undefined;
  return {
    runsAfter: createRunsAfter(known.graph),
    isBroken() {
      isBroken ??= known.stepKeys.some((key) => known.isBroken([...known.path, key, 'runAfter']));
      return isBroken;
    },
  };
});

/** Whether one of the steps has this key; fast, because each of many steps can look for each. */
export const hasStep = ({ stepKeys }: Pick<KnownSteps, 'stepKeys'>, stepKey: string): boolean =>
  setOf(stepKeys).has(stepKey);

/** Unknown upstream keys. `stepKeys` are all steps of the file, including those that do not parse. */
function unknownUpstreams({
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
        return errorAt([...path, stepKey, 'runAfter', upstream], `no step has this key${didYouMean(upstream, others)}`);
      }),
  );
}

/** How many steps of a cycle are named at each end of the message. */
const NAMED_STEPS = 20;

function cycleText(keys: readonly string[]): string {
  const left = keys.length - 2 * NAMED_STEPS;
  if (left <= 1) return keys.join(' → ');
  return [...keys.slice(0, NAMED_STEPS), `${left} more`, ...keys.slice(-NAMED_STEPS)].join(' → ');
}

/** Every edge that closes a cycle, with the cycle in the order in which its steps wait for each other. */
function cycles(graph: Graph, path: JsonPath): Problem[] {
  const problems: Problem[] = [];
  const left = new Set<string>();
  for (const start of Object.keys(graph)) {
    if (left.has(start)) continue;
    // Depth first, without recursion: a chain of steps can be longer than the call stack.
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
        const cycle = cycleText([...keys.slice(keys.indexOf(upstream)), upstream]);
        problems.push(errorAt([...path, step.stepKey, 'runAfter', upstream], `closes a cycle: ${cycle}`));
      } else if (!left.has(upstream)) {
        walk.push({ stepKey: upstream, upstreams: upstreamKeys(graph, upstream) });
        isOnWalk.add(upstream);
      }
    }
  }
  return problems;
}

function upstreamKeys(graph: Graph, stepKey: string): string[] {
  return Object.hasOwn(graph, stepKey) ? Object.keys(graph[stepKey]?.runAfter ?? {}) : [];
}
