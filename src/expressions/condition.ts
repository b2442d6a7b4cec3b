import { isExactNumber, type Json, type JsonObject, parseJson } from '../model/json.ts';
import { type CompiledExpression, compileExpression, ExpressionError, prepareContext, type Vars } from './compile.ts';
import type { ExpressionContext, Reader } from './context.ts';
import { formatPath, type JsonPath, valueAt } from './json-path.ts';
import { ConversionError, kindOf } from './values.ts';

// Each step stores a trace: enough to see why, never a second copy of a large body.
const MAX_TRACED_CHARACTERS = 512;

/** Result of a condition. `trace` has the values of the paths that it names, spelled as in CEL. */
type ConditionOutcome =
  | { readonly result: boolean; readonly trace: JsonObject }
  /** It failed or yielded no boolean: callers must conclude neither true nor false. */
  | { readonly error: string; readonly trace: JsonObject };

/** Compiles a condition. Throws `ExpressionError`, also if the result cannot be a boolean. */
export function compileCondition(source: string, reads: Reader = 'step', vars?: Vars): CompiledExpression {
  const trimmed = source.trim();
  if (trimmed.startsWith('${') && trimmed.endsWith('}')) {
    const reason = `is an expression already: leave out the \${ }, as in ${trimmed.slice(2, -1).trim()}`;
    throw new ExpressionError({ expression: source, reason });
  }
  const condition = compileExpression(source, reads, vars);
  if (condition.type === 'bool' || condition.type === 'dyn') return condition;
  throw notBoolean(source, condition.type);
}

/**
 * Never throws. Values in the trace come from the context: mask secrets before it is stored. Conditions that are
 * evaluated together share `data` and its budget.
 */
export function evaluateCondition(
  condition: CompiledExpression,
  context: ExpressionContext,
  data: ReturnType<typeof prepareContext> = prepareContext(context),
): ConditionOutcome {
  const trace = traceOf(condition, context);
  try {
    const result = condition.evaluateIn(data);
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
    const value = path[0] === 'vars' ? valueAt(condition, path) : readableAt(context, path);
    if (value !== undefined) entries.push([formatPath(path, isIdentifier), copyOf(value)]);
  }
  return Object.fromEntries(entries);
}

function readableAt(context: ExpressionContext, path: JsonPath): unknown {
  try {
    return valueAt(context, path);
  } catch (error) {
    // The body cannot be parsed; if the condition reads it, the condition itself reports that.
    if (error instanceof ConversionError) return undefined;
    throw error;
  }
}

function copyOf(value: unknown): Json {
  const text = beginningOfJson(value);
  return text.length <= MAX_TRACED_CHARACTERS ? parseJson(text) : `${text.slice(0, MAX_TRACED_CHARACTERS)}…`;
}

/** The JSON text, or slightly more than the trace shows: the rest is not read, however large or deep it is. */
function beginningOfJson(value: unknown): string {
  let text = '';
  const isFull = () => text.length > MAX_TRACED_CHARACTERS;
  const write = (inner: unknown): void => {
    if (isFull()) return;
    if (typeof inner === 'string') {
      text += JSON.stringify(inner.slice(0, MAX_TRACED_CHARACTERS));
    } else if (typeof inner !== 'object' || inner === null || isExactNumber(inner)) {
      text += JSON.stringify(inner);
    } else if (Array.isArray(inner)) {
      writeAll(['[', ']'], inner, write);
    } else {
      const entries = Object.keys(inner).filter((key) => Reflect.get(inner, key) !== undefined);
      writeAll(['{', '}'], entries, (key) => {
        text += `${JSON.stringify(key.slice(0, MAX_TRACED_CHARACTERS))}:`;
        write(Reflect.get(inner, key));
      });
    }
  };
  const writeAll = <Item>([open, close]: [string, string], items: readonly Item[], one: (item: Item) => void): void => {
    text += open;
    for (const [index, item] of items.entries()) {
      if (isFull()) return;
      if (index > 0) text += ',';
      one(item);
    }
    text += close;
  };
  write(value);
  return text;
}

function isIdentifier(key: string): boolean {
  return /^[A-Za-z_]\w*$/.test(key);
}
