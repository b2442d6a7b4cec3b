import { isExactNumber, type Json } from '../model/json.ts';
import { Budget } from './budget.ts';
import { type CompiledExpression, ExpressionError } from './compile.ts';
import { compileValue } from './search-keys.ts';
import { kindOf } from './values.ts';

/**
 * What the expressions that decide about one delivery may cost together: a tenth of what those of a step may, 4 ms. They
 * are evaluated before the delivery is answered.
 */
const DELIVERY_BUDGET_STEPS = 100_000;

/** One delivery as its trigger's expressions read it, and what is left to spend on it. */
export type DeliveryData = Parameters<CompiledExpression['evaluateIn']>[0];

/** `body` throws `ConversionError` where it cannot be read as a value; header names are lower-case. */
export function deliveryData(delivery: {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: () => Json;
}): DeliveryData {
  const roots = {
    headers: delivery.headers,
    get body() {
      return delivery.body();
    },
  };
  return { roots, budget: new Budget(DELIVERY_BUDGET_STEPS) };
}

/** Whether a filter lets a delivery start a run; an error where it failed or gave no boolean. Never throws. */
export function evaluateFilter(filter: CompiledExpression, data: DeliveryData): boolean | { readonly error: string } {
  return withoutThrowing(() => {
    const result = filter.evaluateIn(data);
    if (typeof result === 'boolean') return result;
    throw new ExpressionError({
      expression: filter.source,
      reason: `gives ${kindOf(result)}; a filter gives true or false`,
    });
  });
}

const EVENT_ID = 'an event id is a text or a number';

/** An expression that names an event with the headers that it reads, or what is wrong with it. */
export function compileEventId(source: string): ReturnType<typeof compileValue> {
  const compiled = compileValue(source, EVENT_ID);
  return typeof compiled === 'object' && compiled.expression.type === 'bool' ? `gives a bool; ${EVENT_ID}` : compiled;
}

/** The id of an event, or why there is none. Never throws. */
export function evaluateEventId(
  expression: CompiledExpression,
  data: DeliveryData,
): string | { readonly error: string } {
  return withoutThrowing(() => nameIn(expression.evaluateIn(data), expression.source, EVENT_ID));
}

const COALESCE_KEY = 'a key of coalesced deliveries is a text or a number';

/** The key that deliveries share, with the headers that it reads, or what is wrong with it. */
export function compileCoalesceKey(source: string): ReturnType<typeof compileValue> {
  const compiled = compileValue(source, COALESCE_KEY);
  return typeof compiled === 'object' && compiled.expression.type === 'bool'
    ? `gives a bool; ${COALESCE_KEY}`
    : compiled;
}

/** The key of a delivery, or why it has none. Never throws. */
export function evaluateCoalesceKey(
  expression: CompiledExpression,
  data: DeliveryData,
): string | { readonly error: string } {
  return withoutThrowing(() => nameIn(expression.evaluateIn(data), expression.source, COALESCE_KEY));
}

/** A value that names something; throws `ExpressionError` where it cannot. */
function nameIn(value: Json, expression: string, accepted: string): string {
  if (typeof value === 'string' && value.trim() !== '') return value;
  if (isExactNumber(value)) return value.rawJSON;
  const isNumber = typeof value === 'number';
  if (isNumber && (Number.isSafeInteger(value) || !Number.isInteger(value))) return String(value);
  const lost = isNumber ? 'its digits were lost' : undefined;
  const kind = typeof value === 'string' ? 'an empty text' : kindOf(value);
  throw new ExpressionError({ expression, reason: lost ?? `gives ${kind}; ${accepted}` });
}

/** The same of a value that was found without an expression; `name` says where. */
export function readEventId(value: Json, name: string): string | { readonly error: string } {
  return withoutThrowing(() => nameIn(value, name, EVENT_ID));
}

function withoutThrowing<Result>(evaluate: () => Result): Result | { readonly error: string } {
  try {
    return evaluate();
  } catch (error) {
    if (error instanceof ExpressionError) return { error: error.message };
    throw error;
  }
}
