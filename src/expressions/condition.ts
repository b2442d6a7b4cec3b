import type { Json, JsonObject } from '../model/json.ts';
import { type CompiledExpression, compileExpression } from './compile.ts';
import type { ExpressionContext } from './context.ts';
import { ExpressionError } from './errors.ts';
import { formatPath, type JsonPath } from './json-path.ts';
import { kindOf } from './values.ts';

// A trace is kept with every step: enough to see why, never a second copy of a large body.
const MAX_TRACED_CHARACTERS = 512;

/** What a condition said. `trace` holds the values of the paths that it names, as CEL spells them. */
export type ConditionOutcome =
  | { readonly result: boolean; readonly trace: JsonObject }
  /** It failed or gave no boolean: neither true nor false may be concluded. */
  | { readonly error: string; readonly trace: JsonObject };

/** Compiles a `when`. Throws `ExpressionError`, also where the result can be no boolean. */
export function compileCondition(source: string, reads: 'step' | 'response' = 'step'): CompiledExpression {
  const condition = compileExpression(source, reads);
  if (condition.type === 'bool' || condition.type === 'dyn') return condition;
  throw notBoolean(source, condition.type);
}

/** Never throws. Values in the trace are as they stand in the context: whoever keeps it masks secrets first. */
export function evaluateCondition(condition: CompiledExpression, context: ExpressionContext): ConditionOutcome {
  const trace = traceOf(condition, context);
  try {
    const result = condition.evaluate(context);
    if (typeof result === 'boolean') return { result, trace };
    throw notBoolean(condition.source, kindOf(result));
  } catch (error) {
    if (error instanceof ExpressionError) return { error: error.message, trace };
    throw error;
  }
}

function notBoolean(expression: string, kind: string): ExpressionError {
  return new ExpressionError({ expression, reason: `gives ${kind}; a condition gives true or false` });
}

function traceOf(condition: CompiledExpression, context: ExpressionContext): JsonObject {
  const entries: [string, Json][] = [];
  for (const { path } of condition.references) {
    const value = valueAt(context, path);
    if (value !== undefined) entries.push([formatPath(path, isIdentifier), copyOf(value)]);
  }
  return Object.fromEntries(entries);
}

function valueAt(context: ExpressionContext, path: JsonPath): unknown {
  let value: unknown = context;
  for (const key of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
}

function copyOf(value: unknown): Json {
  try {
    const text = JSON.stringify(value);
    if (text.length <= MAX_TRACED_CHARACTERS) return JSON.parse(text);
    return `${text.slice(0, MAX_TRACED_CHARACTERS)}… (${text.length} characters)`;
  } catch {
    // Only data that is nested beyond the call stack has no JSON text.
    return '(nested too deeply to show)';
  }
}

function isIdentifier(key: string): boolean {
  return /^[A-Za-z_]\w*$/.test(key);
}
