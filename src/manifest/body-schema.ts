import { createRequire } from 'node:module';
import type { Ajv, ErrorObject, ValidateFunction } from 'ajv';
import { LRUCache } from 'lru-cache';
import { BUDGET_STEPS, BudgetError } from '../expressions/budget.ts';
import { parseBody } from '../expressions/trigger-body.ts';
import type { Declared } from '../model/content.ts';
import { isJsonObject, type Json, type JsonObject } from '../model/json.ts';
import { repeatedIn } from './json-text.ts';
import { metered, nestingOf, SchemaMeter, sizeOfSchema, textOfMeaning } from './metered-schema.ts';

/**
 * Checks bodies with a JSON Schema. A check can take `BUDGET_STEPS` steps, and `STEPS_PER_BYTE` of the body; beyond
 * that, its only mistake is `too expensive`.
 */
export interface BodySchema {
  /** The schema as JSON. */
  readonly text: string;
  /** The first mistakes, each with its place in the body; empty if the body fits. Never quotes a value of the body. */
  mistakesIn(body: Uint8Array, declared: Declared): readonly string[];
}

const STEPS_PER_BYTE = 4;
const MAX_MISTAKES = 3;
const MAX_TEXT = 160;
// Compiling this many takes about a second.
const MAX_SCHEMAS = 3000;
/** By `nestingOf`. The code of some 1350 overflows the call stack; how many exactly depends on the caller. */
const MAX_NESTED = 1000;

/** A start compiles the manifests of the folder and the stored ones; equal schemas share one validator. */
const compiled = new LRUCache<string, BodySchema>({ max: 500 });

/**
 * Compiles a JSON Schema: draft 2020-12, or draft 07 if `$schema` says so. Yields an error for a schema that does not
 * fit its draft, has an unknown keyword or format, refers to another file, or has a pattern that is not RE2.
 */
export function compileBodySchema(schema: JsonObject): BodySchema | { readonly error: string } {
  try {
    const text = JSON.stringify(schema);
    const known = compiled.get(text);
    if (known !== undefined) return known;
    const meter = new SchemaMeter();
    const validate = compile(schema, meter);
    const judge: BodySchema = { text, mistakesIn: (body, declared) => mistakesIn(body, declared, { validate, meter }) };
    compiled.set(text, judge);
    return judge;
  } catch (error) {
    const told = error instanceof Error ? error.message : 'unknown';
    const why = error instanceof RangeError ? 'it is nested too deeply' : told;
    return { error: `is not a usable JSON Schema: ${cut(why)}` };
  }
}

/** Like `compileBodySchema`, for the text of a file. */
export function parseBodySchema(text: string): BodySchema | { readonly error: string } {
  let schema: Json = null;
  try {
    schema = JSON.parse(text);
  } catch {
    // The message of the parser quotes the file.
  }
  if (!isJsonObject(schema)) return { error: 'refers to a file that does not contain a JSON object' };
  const [twice] = repeatedIn(text);
  return twice === undefined
    ? compileBodySchema(schema)
    : { error: `refers to a file in which ${twice.path} ${twice.message}` };
}

/** The same text for schemas that accept the same bodies: ignores the order of keys and annotations for people. */
export function meaningOf(text: string): string {
  return textOfMeaning(JSON.parse(text));
}

/** Validators of schemas, by whether for draft 07: little takes longer than compiling the schema of schemas. */
const judges = new Map<boolean, Ajv>();

function compile(schema: JsonObject, meter: SchemaMeter): ValidateFunction {
  const size = sizeOfSchema(schema);
  if (size > MAX_SCHEMAS) throw new Error(`it consists of ${size} schemas; at most ${MAX_SCHEMAS} are accepted`);
  const nested = nestingOf(schema);
  if (nested > MAX_NESTED) {
    throw new Error(
      `it has ${nested} schemas side by side and inside each other, where each further level counts as 3 more; at most ${MAX_NESTED} are accepted`,
    );
  }
  const isDraft07 = typeof schema.$schema === 'string' && schema.$schema.includes('draft-07');
  const judge = judges.get(isDraft07) ?? ajvOf(isDraft07, new SchemaMeter());
  judges.set(isDraft07, judge);
  void judge.validateSchema(schema, true);
  const validate = ajvOf(isDraft07, meter).compile(metered(schema));
  try {
    validate({});
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new Error('it refers to itself without end');
  }
  return validate;
}

function ajvOf(isDraft07: boolean, meter: SchemaMeter): Ajv {
  // Loaded for the first schema: most services have none.
  const require = createRequire(import.meta.url);
  const { default: Ajv }: typeof import('ajv') = isDraft07 ? require('ajv') : require('ajv/dist/2020.js');
  const { default: addFormats }: typeof import('ajv-formats') = require('ajv-formats');
  const ajv = new Ajv({
    strict: true,
    strictTypes: false,
    strictTuples: false,
    strictRequired: false,
    validateSchema: false,
    // Inherited properties do not come from the sender.
    ownProperties: true,
    logger: false,
    // Inlining references and optimizing take time that is quadratic in the schema.
    inlineRefs: false,
    code: { regExp: meter.pattern, optimize: false },
  });
  addFormats.default(ajv, { mode: 'fast' });
  meter.equip(ajv);
  return ajv;
}

function mistakesIn(
  body: Uint8Array,
  declared: Declared,
  { validate, meter }: { readonly validate: ValidateFunction; readonly meter: SchemaMeter },
): readonly string[] {
  const parsed = parseBody(body, declared, 'doubles');
  if ('error' in parsed) return [parsed.error];
  try {
    // The steps of any evaluation, and some for each byte: honest checks grow with the body.
    meter.start(BUDGET_STEPS + STEPS_PER_BYTE * body.length);
    if (validate(parsed.value)) return [];
  } catch (error) {
    if (error instanceof BudgetError) return ['too expensive'];
    if (error instanceof RangeError) return ['the body is nested too deeply for the schema'];
    throw error;
  }
  return [...new Set((validate.errors ?? []).map(told))].slice(0, MAX_MISTAKES);
}

function told({ instancePath, message = 'does not fit', keyword, params }: ErrorObject): string {
  const name = keyword === 'additionalProperties' ? `: ${JSON.stringify(cut(String(params.additionalProperty)))}` : '';
  return `${instancePath === '' ? 'the body' : cut(instancePath)} ${cut(message)}${name}`;
}

function cut(text: string): string {
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;
}
