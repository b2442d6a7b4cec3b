import { Budget } from '../../expressions/budget.ts';
import { ExpressionError } from '../../expressions/compile.ts';
import { isOfBody } from '../../expressions/context.ts';
import { type CompiledValue, compileValue, secretHeader } from '../../expressions/delivery-expressions.ts';
import type { ArrivingBody } from '../../expressions/trigger-body.ts';
import { kindOf } from '../../expressions/values.ts';
import { CREDENTIAL_NAME } from '../../manifest/mask.ts';
import type { ObjectMistake } from '../../manifest/trigger-part.ts';
import { isExactNumber, type Json } from '../../model/json.ts';
import { oncePer } from '../../model/once-per.ts';
import type { SearchKeys } from '../../model/search-keys.ts';
import { toSearchValue } from '../../model/text.ts';

/** Follows the reason why a key is refused. */
export const KEPT = 'values of search keys are stored and shown';

/** The most keys of a trigger. */
const MAX_SEARCH_KEYS = 8;

/** Names are columns of the page and parameters of the API. */
const SEARCH_KEY_NAME = /^[A-Za-z][A-Za-z0-9_-]{0,31}$/;

/**
 * Total cost of all search keys of one delivery: a hundredth of that of a step's expressions, 0.4 ms. They are read
 * before the delivery is answered.
 */
const KEY_BUDGET_STEPS = 10_000;

/** The data that search keys read. */
interface KeyedDelivery {
  /** Throws `ConversionError` if it cannot be parsed. */
  readonly body: () => Json;
  /** The same as the body if absent. */
  readonly envelope?: () => Json;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
}

/** One compiled search key of a trigger. */
export interface CompiledKey extends CompiledValue {
  readonly name: string;
}

/** Compiles the search keys of a manifest; each one that does not compile is a mistake. */
export function compileKeys(given: Readonly<Record<string, string>>): {
  readonly keys: readonly CompiledKey[];
  readonly mistakes: readonly ObjectMistake[];
} {
  const keys: CompiledKey[] = [];
  const mistakes: ObjectMistake[] = [];
  for (const [index, [name, source]] of Object.entries(given).entries()) {
    const key =
      index >= MAX_SEARCH_KEYS ? `is one too many: at most ${MAX_SEARCH_KEYS} are accepted` : compileKey(name, source);
    if (typeof key === 'string') mistakes.push({ field: name, message: key });
    else keys.push(key);
  }
  return { keys, mistakes };
}

/** The compiled key, or its problem. */
function compileKey(name: string, source: string): CompiledKey | string {
  if (!SEARCH_KEY_NAME.test(name)) {
    return 'is not the name of a search key; a letter and up to 31 letters, digits, "_" and "-" are accepted';
  }
  const compiled = compileValue(source, ACCEPTED);
  return typeof compiled === 'string' ? compiled : { name, ...compiled };
}

/** Mistakes of search keys, whatever the trigger's scheme: values are stored, shown and searched. */
export function keyMistakes(written: Readonly<Record<string, string>>): ObjectMistake[] {
  const { keys, mistakes } = compileKeys(written);
  const secrets = keys.flatMap(({ name: field, headers, expression }): ObjectMistake[] => {
    const header = headers.find((each) => CREDENTIAL_NAME.test(each));
    if (header !== undefined) return [{ field, message: secretHeader(header, KEPT) }];
    const read = expression.references.filter(({ root }) => isOfBody(root)).map(({ path }) => String(path.at(-1)));
    const secret = read.find((each) => CREDENTIAL_NAME.test(each));
    if (secret === undefined) return [];
    const message = `reads "${secret}", which looks like a secret: the values are stored and shown in plain text`;
    return [{ kind: 'warning', field, message }];
  });
  return [...mistakes, ...secrets];
}

/** Reads the keys of one delivery. Never throws: a key that fails has no value, and its problem says why. */
export function readKeys(
  keys: readonly CompiledKey[],
  delivery: KeyedDelivery,
): { readonly values: Record<string, string>; readonly problems: string[] } {
  const values: Record<string, string> = {};
  const problems: string[] = [];
  const roots = {
    headers: delivery.headers,
    get body() {
      return delivery.body();
    },
    get envelope() {
      return (delivery.envelope ?? delivery.body)();
    },
  };
  const data = { roots, budget: new Budget(KEY_BUDGET_STEPS) };
  for (const { name, expression } of keys) {
    try {
      const found = toText(expression.evaluateIn(data), expression.source);
      if (found !== undefined) values[name] = found;
    } catch (error) {
      if (!(error instanceof ExpressionError)) throw error;
      problems.push(`${name}: ${error.message}`);
    }
  }
  return { values, problems };
}

/** Reads the keys of runs that are started by hand; those of deliveries are read with the scheme's. */
export const readerOf = oncePer((written: Readonly<Record<string, string>>) => {
  const { keys } = compileKeys(written);
  return {
    expressions: keys.map(({ expression }) => expression.source),
    read(headers: KeyedDelivery['headers'], body: ArrivingBody): SearchKeys | undefined {
      const { values } = readKeys(keys, { headers, body: () => body.value() });
      return Object.keys(values).length === 0 ? undefined : values;
    },
  };
});

/** A value as a search key; undefined if there is nothing to search for. */
export function toText(value: Json, expression: string): string | undefined {
  if (value === null) return undefined;
  if (typeof value === 'string') return toSearchValue(value);
  if (typeof value === 'boolean' || Number.isSafeInteger(value)) return String(value);
  if (isExactNumber(value)) return toSearchValue(value.rawJSON);
  if (typeof value === 'number' && !Number.isInteger(value)) return String(value);
  const reason = typeof value === 'number' ? 'its digits were lost' : `gives ${kindOf(value)}; ${ACCEPTED}`;
  throw new ExpressionError({ expression, reason });
}

const ACCEPTED = 'a search key is a text, a number or a boolean';
