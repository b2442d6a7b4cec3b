import type { Ajv } from 'ajv';
import { RE2JS } from 're2js';
import { Budget } from '../expressions/budget.ts';
import type { Json, JsonObject } from '../model/json.ts';
import { isJsonArray, isJsonObject } from '../model/json.ts';

/**
 * Counts the cost of checking a body with a schema while the check runs: the author of a body must not be able to hold
 * up the process, and a count gives the same verdict on a busy machine. A step takes some 40 ns, as in expressions.
 */
export class SchemaMeter {
  #budget = new Budget(Number.POSITIVE_INFINITY);
  /** The states of all patterns of the schema. */
  #states = 0;

  /** Sets the budget of the next check only. */
  start(steps: number): void {
    this.#budget = new Budget(steps);
  }

  readonly charge = (steps: number): void => this.#budget.charge(steps);

  /**
   * Prepares an Ajv for schemas of `metered`: charges for values, finds equal items and allowed values by their text
   * instead of comparing each pair, and charges for reading long text as a URL, because the pattern for that
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

  /** Matches a pattern in linear time: the sender chooses the text, and V8's own engine backtracks. */
  readonly pattern = Object.assign(
    (pattern: string) => {
      const program = RE2JS.compile(pattern);
      const isOnePass = Boolean(program.re2Input.onepass);
      const states = program.programSize();
      this.#states += states;
      if (this.#states > MAX_STATES) throw new Error(`its patterns have more than ${MAX_STATES} states together`);
      return {
        test: (text: string) => {
          // If each character leads to one state, one; otherwise as many as the program has, or as characters were
          // read.
          const perCharacter = isOnePass ? 1 : Math.max(1, Math.min(states, text.length));
          this.charge(1 + (text.length * perCharacter) / STATES_PER_STEP);
          return program.test(text);
        },
        // The library distinguishes patterns by their text.
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
/** V8 stores a larger object as a hash table: sorting its keys and looking each up takes 1.5 µs a key and more. */
const MANY_KEYS = 1_000;
/** Less than that: a body pays once for all of its keys by its length, see `STEPS_PER_BYTE`. */
const STEPS_PER_SORTED_KEY = 20;

/** Keywords that contain schemas. The list is complete, because Ajv refuses unknown keywords. */
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

/** Keywords that cost little for any value, or that charge for it themselves. */
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
 * The schema, in which each inner schema charges for its value before looking inside. A schema that does not look
 * inside is charged by its parent: Ajv nests its code by properties, and the call stack holds only some thousands.
 */
export function metered(schema: JsonObject): JsonObject {
  if (Object.keys(schema).every((keyword) => CHEAP.has(keyword))) return schema;
  return { ...withSchemas(schema, metered), [CHARGE]: true };
}

/** The number of schemas inside, and of names that depend on others. */
export function sizeOfSchema(schema: JsonObject): number {
  let size = 1 + Object.keys(schema.dependentRequired ?? {}).length + Object.keys(schema.dependencies ?? {}).length;
  withSchemas(schema, (inner) => {
    size += sizeOfSchema(inner);
    return inner;
  });
  return size;
}

/**
 * How deep Ajv nests its code for a schema: each schema is inside of the check of the one before it, side by side and
 * above. The code of a level takes as much of the call stack as some schemas.
 */
export function nestingOf(schema: JsonObject): number {
  let count = 0;
  let deepest = 0;
  // A reference is compiled apart from the schema that has it.
  const { $defs: _, definitions: _of07, ...own } = schema;
  withSchemas(own, (inner) => {
    count += 1;
    const nested = nestingOf(inner);
    deepest = Math.max(deepest, nested === 0 ? 0 : LEVEL + nested);
    return inner;
  });
  const apart = [schema.$defs, schema.definitions].flatMap((named) =>
    named !== undefined && isJsonObject(named) ? Object.values(named) : [],
  );
  const inDefinitions = apart.filter(isJsonObject).map(nestingOf);
  return Math.max(count + deepest, ...inDefinitions);
}

const LEVEL = 3;

/** Keywords that accept everything. Without `default` and `examples`: a reference can lead into them. */
const ANNOTATIONS: ReadonlySet<string> = new Set([
  '$comment',
  'title',
  'description',
  'deprecated',
  'readOnly',
  'writeOnly',
]);

/** The same text for schemas that only differ in annotations and the order of their keys. */
export function textOfMeaning(schema: JsonObject): string {
  return textOf(withoutAnnotations(schema), () => {});
}

function withoutAnnotations(schema: JsonObject): JsonObject {
  const judging = Object.entries(schema).filter(([keyword]) => !ANNOTATIONS.has(keyword));
  return withSchemas(Object.fromEntries(judging), withoutAnnotations);
}

/** The schema with its inner schemas changed; everything else, such as an allowed value, stays the same. */
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

/** The cost of looking at a whole value, without the parts that are charged separately. */
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

/** The same text for equal values, whatever the order of their keys. */
function textOf(value: Json, charge: (steps: number) => void): string {
  charge(1 + sizeOf(value));
  if (isJsonArray(value)) return `[${value.map((item) => textOf(item, charge)).join()}]`;
  if (!isJsonObject(value)) return JSON.stringify(value);
  const keys = Object.keys(value);
  if (keys.length > MANY_KEYS) charge(keys.length * STEPS_PER_SORTED_KEY);
  keys.sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${textOf(value[key] ?? null, charge)}`).join()}}`;
}
