import { describe, expect, it, test } from 'vitest';
import { Budget } from '../../src/expressions/budget.ts';
import { compileExpression, ExpressionError } from '../../src/expressions/compile.ts';
import type { Json } from '../../src/model/json.ts';
import { type CelCase, celCases } from '../oracles/cel.ts';

/** An error is a sentence that names no value; anything else would be a crash. */
const FAILS = 'an error';

/** Where a result differs on purpose, and why. */
const OTHERWISE: Readonly<Record<string, string>> = {
  not_lt_dyn_int_big_lossy_double: 'ints and doubles are compared exactly, not as doubles',
  not_gt_dyn_big_double_int: 'ints and doubles are compared exactly, not as doubles',
  lte_dyn_big_double_int: 'ints and doubles are compared exactly, not as doubles',
  gte_dyn_int_big_lossy_double: 'ints and doubles are compared exactly, not as doubles',
  double_int_min_range: 'the double is exactly the least int',
  mod_not_support: 'doubles have a remainder',
  add_time_to_duration_nanos_positive: 'times have milliseconds',
  add_duration_nanos_over: 'times have milliseconds',
};

/** Files whose every case is answered as CEL answers it. */
const WHOLE = ['bindings_ext', 'integer_math', 'plumbing', 'string'];

const cases = celCases();
const nameOf = ({ path, name }: CelCase) => [...path, name].join(' / ');

function ours(source: string): string {
  try {
    const compiled = compileExpression(source, 'delivery');
    return written(compiled.evaluateIn({ roots: { body: null, headers: {} }, budget: new Budget() }));
  } catch (error) {
    if (error instanceof ExpressionError) return FAILS;
    throw error;
  }
}

const expected = ({ evalError, value = { boolValue: true } }: CelCase) => {
  const json = evalError === undefined ? toJson(value) : undefined;
  return json === undefined ? FAILS : written(json);
};

/** Of a value in protobuf's JSON; undefined if JSON cannot hold it. */
function toJson(value: Readonly<Record<string, unknown>>): Json | undefined {
  const [kind = '', held] = Object.entries(value)[0] ?? [];
  if (kind === 'int64Value' || kind === 'uint64Value') return JSON.rawJSON(String(held));
  if (kind === 'doubleValue') return typeof held === 'number' ? held : undefined;
  if (kind === 'nullValue') return null;
  if (kind === 'typeValue') return undefined;
  const { values = [], entries = [] } = Object(held);
  if (kind === 'listValue') return values.map(toJson);
  if (kind !== 'mapValue') return kind === 'objectValue' ? Object(held).value : (held as Json);
  return Object.fromEntries(
    entries.map(({ key, value: item }: { key: object; value: object }) => [Object.values(key)[0], toJson({ ...item })]),
  );
}

const written = (json: Json): string =>
  JSON.stringify(json, (_key, value) => (isPlain(value) ? inOrder(value) : value));

const isPlain = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);
const inOrder = (value: object) => Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));

describe("CEL's own cases have its value, or a clear error", () => {
  const different = cases.filter((each) => ![FAILS, expected(each)].includes(ours(each.expr))).map(({ name }) => name);

  it('but for those that differ on purpose', () => {
    expect(different.sort()).toEqual(Object.keys(OTHERWISE).sort());
  });

  test.each(WHOLE)('%s is answered as a whole', (file) => {
    const own = cases.filter(({ path }) => path[0] === file);
    expect(own).not.toEqual([]);
    expect(own.filter((each) => ours(each.expr) !== expected(each)).map(nameOf)).toEqual([]);
  });
});
