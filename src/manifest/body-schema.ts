import { createRequire } from 'node:module';
import { Script } from 'node:vm';
import type { ErrorObject, ValidateFunction } from 'ajv';
import { LRUCache } from 'lru-cache';
import { RE2JS } from 're2js';
import { parseBody } from '../expressions/trigger-body.ts';
import type { Json, JsonObject } from '../model/json.ts';

/** Judges bodies by a JSON Schema. */
export interface BodySchema {
  /** The first mistakes, each with its place in the body; empty where the body fits. Never quotes a value of the body. */
  mistakesIn(body: Uint8Array, contentType: string | undefined): readonly string[];
}

/** A body whose sender wants it to be dear must not hold the process longer than this. */
const LIMIT_MS = 250;
const MAX_MISTAKES = 3;
const MAX_TEXT = 160;

/** The work of these may grow faster than the body does; that of all others is linear in it. */
const MAY_BE_SLOW: ReadonlySet<string> = new Set(['$ref', '$dynamicRef', '$recursiveRef', 'uniqueItems', 'format']);

/** A start compiles the manifests of the folder and the stored ones; equal schemas share one validator. */
const compiled = new LRUCache<string, BodySchema>({ max: 500 });

/**
 * Compiles a JSON Schema: draft 2020-12, or draft 07 where `$schema` says so. Yields what is wrong with it instead: it does
 * not fit its draft, has an unknown keyword or format, refers to another file, or has a pattern that is not RE2.
 */
export function compileBodySchema(schema: JsonObject): BodySchema | { readonly error: string } {
  const text = JSON.stringify(schema);
  const known = compiled.get(text);
  if (known !== undefined) return known;
  try {
    const validate = compile(schema);
    const run = mayBeSlow(schema) ? inTime(validate) : validate;
    const judge: BodySchema = { mistakesIn: (body, contentType) => mistakesIn(body, contentType, { validate, run }) };
    compiled.set(text, judge);
    return judge;
  } catch (error) {
    return {
      error: `is not a usable JSON Schema: ${cut(error instanceof Error ? error.message : 'unknown')}`,
    };
  }
}

/** As `compileBodySchema`, of a file's text. */
export function parseBodySchema(text: string): BodySchema | { readonly error: string } {
  try {
    const schema: Json = JSON.parse(text);
    if (typeof schema === 'object' && schema !== null && !isArray(schema)) return compileBodySchema(schema);
  } catch {
    // The message of the parser quotes the file.
  }
  return { error: 'refers to a file that does not contain a JSON object' };
}

function isArray(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}

function compile(schema: JsonObject): ValidateFunction {
  // Loaded for the first schema: most services have none.
  const require = createRequire(import.meta.url);
  const isDraft07 = typeof schema.$schema === 'string' && schema.$schema.includes('draft-07');
  const { default: Ajv }: typeof import('ajv') = isDraft07 ? require('ajv') : require('ajv/dist/2020.js');
  const { default: addFormats }: typeof import('ajv-formats') = require('ajv-formats');
  const ajv = new Ajv({
    strict: true,
    strictTypes: false,
    strictTuples: false,
    strictRequired: false,
    // A property that every object inherits is not one that the sender wrote.
    ownProperties: true,
    logger: false,
    code: { regExp: linearPattern },
  });
  addFormats.default(ajv, { mode: 'fast' });
  return ajv.compile(schema);
}

/** Patterns run in linear time: a sender chooses the text, and V8's own engine backtracks. */
const linearPattern = Object.assign(
  (pattern: string) => {
    const program = RE2JS.compile(pattern);
    // By its text the library tells patterns apart.
    return { test: (text: string) => program.test(text), toString: () => pattern };
  },
  { code: 'new RegExp' },
);

function mayBeSlow(schema: Json): boolean {
  if (schema === null || typeof schema !== 'object') return false;
  if (Array.isArray(schema)) return schema.some(mayBeSlow);
  return Object.entries(schema).some(([key, value]) => MAY_BE_SLOW.has(key) || mayBeSlow(value));
}

const WORK = Symbol.for('sluice.bodySchemaWork');
const globals = globalThis as { [WORK]?: () => boolean };
let script: Script | undefined;

/** The same check, which throws where it takes longer than `LIMIT_MS`. Starting the clock costs some 0.1 ms. */
function inTime(validate: ValidateFunction): (value: unknown) => boolean {
  return (value) => {
    script ??= new Script("globalThis[Symbol.for('sluice.bodySchemaWork')]()");
    globals[WORK] = () => validate(value) === true;
    try {
      return script.runInThisContext({ timeout: LIMIT_MS }) === true;
    } finally {
      delete globals[WORK];
    }
  };
}

function mistakesIn(
  body: Uint8Array,
  contentType: string | undefined,
  { validate, run }: { readonly validate: ValidateFunction; readonly run: (value: unknown) => unknown },
): readonly string[] {
  const parsed = parseBody(body, contentType, 'doubles');
  if ('error' in parsed) return [parsed.error];
  try {
    if (run(parsed.value) === true) return [];
  } catch (error) {
    if (error instanceof RangeError) return ['the body is nested too deeply for the schema'];
    if (error instanceof Error && 'code' in error && error.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') {
      return [`the schema needs more than ${LIMIT_MS} ms for the body`];
    }
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
