import type { Ajv } from 'ajv';
import { RE2JS } from 're2js';
import { Budget } from '../expressions/budget.ts';
import type { Json, JsonObject } from '../model/json.ts';
import { isJsonArray, isJsonObject } from '../model/json.ts';

/**
 * What a check of a body by a schema costs, counted while it runs: whoever writes the body must not hold up the process,
 * and a count gives the same verdict on a busy machine. A step is some 40 ns, as in expressions.
 */
export class SchemaMeter {
  #budget = new Budget(Number.POSITIVE_INFINITY);
  /** Of all patterns of the schema. */
  #states = 0;

  /** For the next check, and only for it. */
  start(steps: number): void {
    this.#budget = new Budget(steps);
  }

  readonly charge = (steps: number): void => this.#budget.charge(steps);

  /**
   * Prepares an Ajv for schemas of `metered`: looks at what they charge for, finds equal items and allowed values by their
   * text instead of comparing each with each, and reads no long text as a URL without being paid for how its pattern
   * backtracks.
   */
  equip(ajv: Ajv): void {
    const { charge } = this;
    ajv.addKeyword({
      keyword: CHARGE,
      before: '$ref',
      errors: false,
      validate: (_: unknown, value: Json) => {
        charge(1 + sizeOf(value));
        return true;
      },
    });
    ajv.removeKeyword('uniqueItems');
    ajv.addKeyword({
      keyword: 'uniqueItems',
      type: 'array',
      schemaType: 'boolean',
      error: { message: 'must NOT have duplicate items' },
      validate: (isAsked: boolean, items: readonly Json[]) => !isAsked || areDistinct(items, charge),
    });
    ajv.removeKeyword('enum');
    ajv.addKeyword({
      keyword: 'enum',
      schemaType: 'array',
      error: { message: 'must be equal to one of the allowed values' },
      compile(allowed: readonly Json[]) {
        const texts = new Set(allowed.map((value) => textOf(value, () => {})));
        return (value: Json) => texts.has(textOf(value, charge));
      },
    });
    const { url } = ajv.formats;
    if (url instanceof RegExp) {
      const isUrl = (text: string) => {
        charge(text.length ** 2 / URL_CHARACTERS_PER_STEP);
        return url.test(text);
      };
      ajv.addFormat('url', isUrl);
    }
  }

  /** A pattern in linear time: a sender chooses the text, and V8's own engine backtracks. */
  readonly pattern = Object.assign(
    (pattern: string) => {
      const program = RE2JS.compile(pattern);
      const isOnePass = Boolean(program.re2Input.onepass);
      const states = program.programSize();
      this.#states += states;
      if (this.#states > MAX_STATES) throw new Error(`its patterns have more than ${MAX_STATES} states together`);
      return {
        test: (text: string) => {
          // Where a character leads to one state, that is all; else the program may be in as many as it has, or as it has read.
          const perCharacter = isOnePass ? 1 : Math.max(1, Math.min(states, text.length));
          this.charge(1 + (text.length * perCharacter) / STATES_PER_STEP);
          return program.test(text);
        },
        // By its text the library tells patterns apart.
        toString: () => pattern,
      };
    },
    { code: 'new RegExp' },
  );
}

const CHARGE = 'sluiceCharge';
/** Each takes some microseconds to make, and a short pattern such as (a{1,30}){1,30} has thousands. */
const MAX_STATES = 100_000;
const URL_CHARACTERS_PER_STEP = 32;
const CHARACTERS_PER_STEP = 32;
const STATES_PER_STEP = 4;
/** An object of more is a hash table to the engine: to sort its keys and look each up takes 1.5 µs a key and more. */
const MANY_KEYS = 1_000;
/** Less than that: a body pays for all of its keys once by its length, see `STEPS_PER_BYTE`. */
const STEPS_PER_SORTED_KEY = 20;

/** Where a keyword has schemas. Ajv refuses keywords that it does not know, so that there are no others. */
const SCHEMAS_IN: Readonly<Record<string, 'schema' | 'schemas by name'>> = {
  additionalItems: 'schema',
  additionalProperties: 'schema',
  allOf: 'schema',
  anyOf: 'schema',
  contains: 'schema',
  else: 'schema',
  if: 'schema',
  items: 'schema',
  not: 'schema',
  oneOf: 'schema',
  prefixItems: 'schema',
  propertyNames: 'schema',
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: 'schema',
  unevaluatedItems: 'schema',
  unevaluatedProperties: 'schema',
  $defs: 'schemas by name',
  definitions: 'schemas by name',
  dependencies: 'schemas by name',
  dependentSchemas: 'schemas by name',
  patternProperties: 'schemas by name',
  properties: 'schemas by name',
};

/** Keywords whose work is small, whatever the value, or which charge for it themselves. */
const CHEAP: ReadonlySet<string> = new Set([
  ...[
    'type',
    'minimum',
    'maximum',
    'exclusiveMinimum',
    'exclusiveMaximum',
    'multipleOf',
    'pattern',
    'enum',
    'minItems',
  ],
  ...['maxItems', '$schema', '$id', '$anchor', '$comment', 'title', 'description', 'default', 'examples', 'deprecated'],
  ...['readOnly', 'writeOnly'],
]);

/**
 * The schema, each of whose schemas charges for the value that it is asked about, before it looks inside. One that does not
 * look inside is paid for by the one around it: Ajv nests its code by properties, and the call stack bears some thousands.
 */
export function metered(schema: JsonObject): JsonObject {
  if (Object.keys(schema).every((keyword) => CHEAP.has(keyword))) return schema;
  return { ...withSchemas(schema, metered), [CHARGE]: true };
}

/** How many schemas it consists of, and names that depend on others. */
export function sizeOfSchema(schema: JsonObject): number {
  let size = 1 + Object.keys(schema.dependentRequired ?? {}).length + Object.keys(schema.dependencies ?? {}).length;
  withSchemas(schema, (inner) => {
    size += sizeOfSchema(inner);
    return inner;
  });
  return size;
}

/** Keywords that judge nothing. `default` and `examples` are not among them: a reference may lead into them. */
const ANNOTATIONS: ReadonlySet<string> = new Set([
  '$comment',
  'title',
  'description',
  'deprecated',
  'readOnly',
  'writeOnly',
]);

/** One text for schemas that differ in their annotations and the order of their keys alone. */
export function textOfMeaning(schema: JsonObject): string {
  return textOf(withoutAnnotations(schema), () => {});
}

function withoutAnnotations(schema: JsonObject): JsonObject {
  const judging = Object.entries(schema).filter(([keyword]) => !ANNOTATIONS.has(keyword));
  return withSchemas(Object.fromEntries(judging), withoutAnnotations);
}

/** The schema with the schemas in it changed; what is no schema, such as an allowed value, stays as it is. */
function withSchemas(schema: JsonObject, change: (inner: JsonObject) => JsonObject): JsonObject {
  const changed = (value: Json): Json => {
    if (isJsonArray(value)) return value.map(changed);
    return isJsonObject(value) ? change(value) : value;
  };
  const entries = Object.entries(schema).map(([keyword, value]) => {
    const kind = Object.hasOwn(SCHEMAS_IN, keyword) ? SCHEMAS_IN[keyword] : undefined;
    if (kind === 'schema') return [keyword, changed(value)];
    if (kind === undefined || !isJsonObject(value)) return [keyword, value];
    return [keyword, Object.fromEntries(Object.entries(value).map(([name, each]) => [name, changed(each)]))];
  });
  return Object.fromEntries(entries);
}

/** What looking at all of a value costs, but for what its parts are charged for themselves. */
function sizeOf(value: Json): number {
  if (typeof value === 'string') return value.length / CHARACTERS_PER_STEP;
  if (typeof value !== 'object' || value === null) return 0;
  return isJsonArray(value) ? value.length : Object.keys(value).length;
}

function areDistinct(items: readonly Json[], charge: (steps: number) => void): boolean {
  const seen = new Set<string>();
  for (const item of items) seen.add(textOf(item, charge));
  return seen.size === items.length;
}

/** One text for equal values, whatever the order of their keys. */
function textOf(value: Json, charge: (steps: number) => void): string {
  charge(1 + sizeOf(value));
  if (isJsonArray(value)) return `[${value.map((item) => textOf(item, charge)).join()}]`;
  if (!isJsonObject(value)) return JSON.stringify(value);
  const keys = Object.keys(value);
  if (keys.length > MANY_KEYS) charge(keys.length * STEPS_PER_SORTED_KEY);
  keys.sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${textOf(value[key] ?? null, charge)}`).join()}}`;
}
