import type { JsonPath } from '../expressions/json-path.ts';
import { kindOf } from '../expressions/values.ts';
import type { StepDefinition, Trigger } from '../model/manifest.ts';
import { type Parsed, parseWith } from './describe-problem.ts';
import { errorAt, gateWarningAt, type Problem } from './issues.ts';
import { isObject } from './keys.ts';
import { didYouMean, nearestName } from './nearest.ts';
import { headerSchema, STEP_KEY, stepSchema, triggerInputsSchemas, triggerTypeSchema } from './schema.ts';
import { WEBHOOK_FIELDS } from './webhook-inputs.ts';

/** What of a manifest fits the schema. A part that does not is missing here and has its problems. */
export interface Draft {
  /** Undefined where id, name or version do not fit. */
  readonly header:
    | {
        readonly id: string;
        readonly name?: string | undefined;
        readonly version: string;
        readonly timeoutSeconds?: number | undefined;
      }
    | undefined;
  readonly triggers: Readonly<Record<string, Trigger>>;
  readonly steps: Readonly<Record<string, StepDefinition>>;
  /** Keys of all steps, those that do not fit included. */
  readonly stepKeys: readonly string[];
  readonly problems: readonly Problem[];
}

/** Fits a manifest in canonical spelling to the schema, part by part. */
export function draftManifest(manifest: unknown): Draft {
  if (!isObject(manifest)) return emptyDraft([errorAt([], `is ${kindOf(manifest)}; an object is accepted`)]);
  const problems: Problem[] = [];
  const { triggers: givenTriggers = {}, steps: givenSteps = {}, ...rest } = manifest;
  const header = report(parseWith(headerSchema, rest), [], problems);

  const triggers = new Map<string, Trigger>();
  for (const [key, given] of entriesOf(givenTriggers, 'triggers', problems)) {
    if (key === '') problems.push(errorAt(['triggers', key], 'is an empty key'));
    const trigger = fitTrigger(given, ['triggers', key], problems);
    if (trigger !== undefined) triggers.set(key, trigger);
  }
  const steps = new Map<string, StepDefinition>();
  const stepEntries = entriesOf(givenSteps, 'steps', problems);
  for (const [key, given] of stepEntries) {
    const path = ['steps', key];
    if (!STEP_KEY.test(key)) {
      problems.push(errorAt(path, 'is no step key; 1 to 64 letters, digits, "_" and "-" are accepted'));
    }
    const step = report(parseWith(stepSchema, given), path, problems);
    if (step !== undefined) steps.set(key, step);
  }
  return {
    header,
    triggers: Object.fromEntries(triggers),
    steps: Object.fromEntries(steps),
    stepKeys: stepEntries.map(([key]) => key),
    problems,
  };
}

function emptyDraft(problems: readonly Problem[]): Draft {
  return { header: undefined, triggers: {}, steps: {}, stepKeys: [], problems };
}

function entriesOf(value: unknown, key: string, problems: Problem[]): [string, unknown][] {
  if (isObject(value)) return Object.entries(value);
  problems.push(errorAt([key], `is ${kindOf(value)}; an object is accepted`));
  return [];
}

function fitTrigger(given: unknown, path: JsonPath, problems: Problem[]): Trigger | undefined {
  if (!isObject(given)) {
    problems.push(errorAt(path, `is ${kindOf(given)}; an object is accepted`));
    return undefined;
  }
  const { inputs = {} } = given;
  const type = report(parseWith(triggerTypeSchema, given.type), [...path, 'type'], problems);
  const inputsPath = [...path, 'inputs'];
  switch (type) {
    case 'manual': {
      const fitted = report(parseWith(triggerInputsSchemas.manual, inputs), inputsPath, problems);
      return fitted && { type, inputs: fitted };
    }
    case 'cron': {
      const fitted = report(parseWith(triggerInputsSchemas.cron, inputs), inputsPath, problems);
      return fitted && { type, inputs: fitted };
    }
    case 'webhook': {
      const known = knownInputs(inputs, inputsPath, problems);
      const fitted = report(parseWith(triggerInputsSchemas.webhook, known), inputsPath, problems);
      return fitted && { type, inputs: fitted };
    }
    default:
      return undefined;
  }
}

/**
 * Leaves out what no gate reads. A name that begins like a field is taken for a misspelt one and refused; any other is
 * somebody's own, but may have been meant to configure a gate.
 */
function knownInputs(inputs: unknown, path: JsonPath, problems: Problem[]): unknown {
  if (!isObject(inputs)) return inputs;
  const known = Object.entries(inputs).filter(([key]) => {
    if (WEBHOOK_FIELDS.includes(key)) return true;
    if (/^webhook/i.test(key)) {
      problems.push(errorAt([...path, key], `is not known${didYouMean(key, WEBHOOK_FIELDS)}`));
    } else {
      const nearest = nearestName(`webhook${key}`, WEBHOOK_FIELDS);
      problems.push(gateWarningAt([...path, key], `is not read; did you mean "${nearest}"?`));
    }
    return false;
  });
  return Object.fromEntries(known);
}

function report<Output>(parsed: Parsed<Output>, path: JsonPath, problems: Problem[]): Output | undefined {
  if ('value' in parsed) return parsed.value;
  problems.push(...parsed.problems.map((problem) => errorAt([...path, ...problem.path], problem.message)));
  return undefined;
}
