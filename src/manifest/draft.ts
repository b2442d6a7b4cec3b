import type { z } from 'zod';
import { formatPath, type JsonPath } from '../expressions/json-path.ts';
import { kindOf } from '../expressions/values.ts';
import type { Edge, StepDefinition } from '../model/manifest.ts';
import { didYouMean, errorAt, gateWarningAt, isWithin, type Problem, parseWith, writtenOut } from './issues.ts';
import { isObject } from './json-text.ts';
import { placeElsewhere } from './misplaced.ts';
import { MANIFEST_PARTS, MAX_NAME, STEP_KEY, type Trigger } from './schema.ts';
import { TRIGGER_OBJECTS, WEBHOOK_FIELDS } from './webhook-fields.ts';

/**
 * The parts of a manifest that fit the schema. Other fields are missing here and have a problem, so that a mistake in
 * one place hides none in another; a step always keeps its place.
 */
interface Draft {
  readonly header: Partial<z.output<typeof MANIFEST_PARTS.header>>;
  readonly triggers: Readonly<Record<string, Trigger>>;
  readonly steps: Readonly<Record<string, StepDefinition>>;
  readonly problems: readonly Problem[];
  /** The paths that do not fit, as text. */
  readonly broken: ReadonlySet<string>;
  /** Whether the value at the path, or one around it, does not fit: then no conclusions can be drawn from it. */
  readonly isBroken: (path: JsonPath) => boolean;
}

/** Results that accumulate during fitting. */
interface Findings {
  readonly problems: Problem[];
  /** Paths that do not fit, as text. */
  readonly broken: Set<string>;
}

/** Fits a manifest in canonical spelling to the schema, part by part. */
export function draftManifest(manifest: unknown): Draft {
  const findings: Findings = { problems: [], broken: new Set() };
  const isBroken = (path: JsonPath) => isWithin(formatPath(path), findings.broken);
  const { problems } = findings;
  if (!isObject(manifest)) {
    problems.push(errorAt([], `is ${kindOf(manifest)}; an object is accepted`));
    return { header: {}, triggers: {}, steps: {}, problems, isBroken: () => true, broken: findings.broken };
  }
  const { triggers: givenTriggers = {}, steps: givenSteps = {}, ...rest } = manifest;
  const header = fitFields(MANIFEST_PARTS.header, rest, { path: [], findings });

  const triggers = new Map<string, Trigger>();
  for (const [key, given] of entriesOf(givenTriggers, ['triggers'], findings)) {
    if (key === '') problems.push(errorAt(['triggers', key], 'is an empty key'));
    const tooLong = `is a key of ${key.length} characters; at most ${MAX_NAME} are accepted`;
    if (key.length > MAX_NAME) problems.push(errorAt(['triggers', key], tooLong));
    const trigger = fitTrigger(given, ['triggers', key], findings);
    if (trigger !== undefined) triggers.set(key, trigger);
  }
  const steps = entriesOf(givenSteps, ['steps'], findings).map(([key, given]): [string, StepDefinition] => {
    const path = ['steps', key];
    if (!STEP_KEY.test(key)) {
      problems.push(errorAt(path, 'is not a step key; 1 to 64 letters, digits, "_" and "-" are accepted'));
    }
    return [key, fitStep(given, path, findings)];
  });
  return {
    header,
    triggers: Object.fromEntries(triggers),
    steps: Object.fromEntries(steps),
    problems,
    broken: findings.broken,
    isBroken,
  };
}

function entriesOf(value: unknown, path: JsonPath, findings: Findings): [string, unknown][] {
  if (isObject(value)) return Object.entries(value);
  refuse(findings, path, `is ${kindOf(value)}; an object is accepted${writtenOut(path.at(-1), value)}`);
  return [];
}

function fitTrigger(given: unknown, path: JsonPath, findings: Findings): Trigger | undefined {
  if (!isObject(given)) {
    refuse(findings, path, `is ${kindOf(given)}; an object is accepted`);
    return undefined;
  }
  const { inputs = {} } = given;
  const type = report(parseWith(MANIFEST_PARTS.triggerType, given.type), [...path, 'type'], findings);
  const inputsPath = [...path, 'inputs'];
  const objectsOf = (areOnManual: boolean) =>
    Object.entries(TRIGGER_OBJECTS).flatMap(([name, { schema, isOnManual = false }]) => {
      if (given[name] === undefined || isOnManual !== areOnManual) return [];
      const object = report(parseWith(schema, given[name]), [...path, name], findings);
      return object === undefined ? [] : [[name, object] as const];
    });
  const common = objectsOf(true);
  const enabled =
    given.enabled === undefined
      ? true
      : report(parseWith(MANIFEST_PARTS.enabled, given.enabled), [...path, 'enabled'], findings);
  const switched = enabled === false ? { enabled } : {};
  const keyed = { ...switched, ...Object.fromEntries(common) };
  for (const [field, { isOnManual }] of Object.entries(TRIGGER_OBJECTS)) {
    if (given[field] === undefined || type === undefined || type === 'webhook') continue;
    if (isOnManual === true && type === 'manual') continue;
    const why = isOnManual === true ? 'its runs have no body and no headers' : 'it has no deliveries';
    refuse(findings, [...path, field], `is not accepted on a ${type} trigger: ${why}`);
  }
  switch (type) {
    case 'manual': {
      // Its inputs are the author's own, but a field of another place would have no effect here.
      const lost = Object.keys(isObject(inputs) ? inputs : {}).filter((key) => LOST_ON_MANUAL.has(key));
      for (const key of lost)
        refuse(findings, [...inputsPath, key], `has no effect here${placeElsewhere([...inputsPath, key])}`);
      const fitted = report(parseWith(MANIFEST_PARTS.triggerInputs.manual, inputs), inputsPath, findings);
      return fitted && { type, inputs: fitted, ...keyed };
    }
    case 'cron': {
      const fitted = report(parseWith(MANIFEST_PARTS.triggerInputs.cron, inputs), inputsPath, findings);
      return fitted && { type, ...switched, inputs: fitted };
    }
    case 'webhook': {
      const known = knownInputs(inputs, inputsPath, findings.problems);
      const fitted = fitFields(MANIFEST_PARTS.triggerInputs.webhook, known, { path: inputsPath, findings });
      return { type, inputs: fitted, ...keyed, ...Object.fromEntries(objectsOf(false)) };
    }
    default:
      return undefined;
  }
}

const LOST_ON_MANUAL = new Set([
  ...WEBHOOK_FIELDS.all,
  ...Object.keys(TRIGGER_OBJECTS),
  ...['serialize', 'serializeOnFailure', 'cronExpression'],
]);

/** A step without the parts that do not fit; some get their default. */
function fitStep(given: unknown, path: JsonPath, findings: Findings): StepDefinition {
  const whole = parseWith(MANIFEST_PARTS.step, given);
  if ('value' in whole) return whole.value;
  if (!isObject(given)) {
    report(whole, path, findings);
    return { type: '', inputs: {}, runAfter: {} };
  }
  const { runAfter: givenEdges = {}, steps: givenChildren, ...own } = given;
  const { type = '', inputs = {}, ...rest } = fitFields(ownFieldsOfStep, own, { path, findings });
  const edges = entriesOf(givenEdges, [...path, 'runAfter'], findings).map(([key, edge]): [string, Edge] => {
    const at = [...path, 'runAfter', key];
    if (typeof edge === 'string')
      refuse(findings, at, `is a string; an array or an object is accepted, such as [${JSON.stringify(edge)}]`);
    const fitted = typeof edge === 'string' ? undefined : report(parseWith(MANIFEST_PARTS.edge, edge), at, findings);
    // Even if the edge is wrong, the order of the two steps is known.
    return [key, fitted ?? { statuses: ['Succeeded'] }];
  });
  const fitted = { type, inputs, runAfter: Object.fromEntries(edges), ...rest };
  if (givenChildren === undefined) return fitted;
  const childrenPath = [...path, 'steps'];
  const children = entriesOf(givenChildren, childrenPath, findings).map(([key, child]): [string, StepDefinition] => [
    key,
    fitStep(child, [...childrenPath, key], findings),
  ]);
  return { ...fitted, steps: Object.fromEntries(children) };
}

const ownFieldsOfStep = MANIFEST_PARTS.step.omit({ runAfter: true, steps: true });

/**
 * Leaves out inputs that no gate reads. A name that begins like a field counts as misspelt and is refused; any other is
 * the author's own, but may have been meant to configure a gate.
 */
function knownInputs(inputs: unknown, path: JsonPath, problems: Problem[]): unknown {
  if (!isObject(inputs)) return inputs;
  const known = Object.entries(inputs).filter(([key]) => {
    if (WEBHOOK_FIELDS.all.includes(key)) return true;
    const isShortened = WEBHOOK_FIELDS.all.some((field) => field.toLowerCase() === `webhook${key}`.toLowerCase());
    const elsewhere = isShortened ? undefined : placeElsewhere([...path, key]);
    if (elsewhere !== undefined) {
      problems.push(errorAt([...path, key], `is not known here${elsewhere}`));
    } else if (/^webhook/i.test(key)) {
      problems.push(errorAt([...path, key], `is not known${didYouMean(key, WEBHOOK_FIELDS.all)}`));
    } else {
      problems.push(gateWarningAt([...path, key], `is ignored${didYouMean(`webhook${key}`, WEBHOOK_FIELDS.all)}`));
    }
    return false;
  });
  return Object.fromEntries(known);
}

/** The fields of an object that fit; others are left out. */
function fitFields<Shape extends z.ZodRawShape>(
  schema: z.ZodObject<Shape>,
  given: unknown,
  { path, findings }: { readonly path: JsonPath; readonly findings: Findings },
): Partial<z.output<z.ZodObject<Shape>>> {
  const parsed = parseWith(schema, given);
  if ('value' in parsed) return parsed.value as Partial<z.output<z.ZodObject<Shape>>>;
  report(parsed, path, findings);
  if (!isObject(given)) return {};
  const misfits = new Set(parsed.problems.map((problem) => String(problem.path[0])));
  const fitting = Object.entries(given).filter(([key]) => !misfits.has(key));
  return schema.partial().parse(Object.fromEntries(fitting)) as Partial<z.output<z.ZodObject<Shape>>>;
}

function report<Output>(
  parsed: ReturnType<typeof parseWith<Output>>,
  path: JsonPath,
  findings: Findings,
): Output | undefined {
  if ('value' in parsed) return parsed.value;
  for (const problem of parsed.problems) {
    const at = [...path, ...problem.path];
    const elsewhere = problem.isUnknownKey ? placeElsewhere(at) : undefined;
    refuse(findings, at, elsewhere === undefined ? problem.message : `is not known here${elsewhere}`);
  }
  return undefined;
}

function refuse({ problems, broken }: Findings, path: JsonPath, message: string): void {
  problems.push(errorAt(path, message));
  broken.add(formatPath(path));
}
