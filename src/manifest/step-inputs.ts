import type { z } from 'zod';
import { formatPath, type JsonPath } from '../expressions/json-path.ts';
import { mapStrings } from '../expressions/map-strings.ts';
import { hasPlaceholder } from '../expressions/template.ts';
import type { Json, JsonObject } from '../model/json.ts';
import type { StepDefinition } from '../model/manifest.ts';
import { parseWith } from './describe-problem.ts';
import { errorAt, isWithin, type Problem } from './issues.ts';
import { didYouMean } from './nearest.ts';
import type { SecretReader } from './read-secret.ts';
import { isReference, resolveSecret, stepSecrets } from './secrets.ts';
import { plainTextSecret } from './webhook-checks.ts';

/** What the loader has to know of a step type. */
export interface HandlerRules {
  readonly inputs: z.ZodType;
  /** Paths with `*` for any key, such as `headers.*`. */
  readonly secretInputs: readonly string[];
}

export interface StepRules {
  /** By step type. */
  readonly handlers: ReadonlyMap<string, HandlerRules>;
  readonly readSecret: SecretReader;
}

/** The handler that a step names, its secrets, and whatever of its inputs no expression decides. */
export function checkStepInputs(step: StepDefinition, path: JsonPath, { handlers, readSecret }: StepRules): Problem[] {
  const handler = handlers.get(step.type);
  if (handler === undefined) {
    const known = [...handlers.keys()];
    const nearest = didYouMean(step.type, known);
    return [errorAt([...path, 'type'], `names no handler${nearest} Known: ${known.join(', ')}`)];
  }
  const problems: Problem[] = [];
  const inputsPath = [...path, 'inputs'];
  const values = new Map<string, string>();
  for (const secret of stepSecrets(step.inputs, handler.secretInputs)) {
    const at = [...inputsPath, ...secret.path];
    const resolved = resolveSecret(secret.text, readSecret);
    if ('error' in resolved) problems.push(errorAt(at, resolved.error));
    else values.set(formatPath(secret.path), resolved.value);
    if (!isReference(secret.text)) problems.push(plainTextSecret(at));
  }
  const inputs = mapStrings(step.inputs, (text, at) => values.get(formatPath(at)) ?? text);
  // In the place of a secret that cannot be read the schema judges the reference to it.
  const unread = new Set(problems.filter(({ severity }) => severity === 'error').map(({ path: at }) => at));
  const misfits = checkWithSchema(inputs, inputsPath, handler.inputs);
  return [...problems, ...misfits.filter(({ path: at }) => !isWithin(at, unread))];
}

function checkWithSchema(inputs: JsonObject, path: JsonPath, schema: z.ZodType): Problem[] {
  try {
    const parsed = parseWith(schema, inputs);
    if ('value' in parsed) return [];
    return parsed.problems
      .filter((problem) => problem.isUnknownKey === true || !isRendered(inputs, problem.path))
      .map((problem) => errorAt([...path, ...problem.path], problem.message));
  } catch {
    // A schema that is asynchronous, or that throws at a placeholder, is asked again when the step runs.
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
