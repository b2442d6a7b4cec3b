import { isExactNumber, type Json } from '../model/json.ts';
import { Budget } from './budget.ts';
import { type CompiledExpression, ExpressionError } from './compile.ts';
import { compileValue } from './search-keys.ts';
import type { ArrivingBody } from './trigger-body.ts';
import { kindOf } from './values.ts';

/**
 * What the expressions that decide about one delivery may cost together: a tenth of what those of a step may, 4 ms. They
 * are evaluated before the delivery is answered.
 */
export const DELIVERY_BUDGET_STEPS = 100_000;

/** One delivery as its trigger's expressions read it, and what is left to spend on it. */
export type DeliveryData = Parameters<CompiledExpression['evaluateIn']>[0];

/** Header names are lower-case. */
export function deliveryData(headers: Readonly<Record<string, string>>, arriving: ArrivingBody): DeliveryData {
  const roots = {
    headers,
    get body() {
      return arriving.exactValue();
    },
    get envelope() {
      return arriving.envelope();
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
const KEY = 'a key of deliveries is a text or a number';

/** An expression with the headers that it reads, or what is wrong with it. */
type CompiledName = ReturnType<typeof compileValue>;

/** The name that a delivery has by an expression, or why it has none. */
type Name = string | { readonly error: string };

/** An expression that names an event. */
export const compileEventId = (source: string): CompiledName => compileName(source, EVENT_ID);

/** One that gives the key that deliveries share, or answer. */
export const compileKey = (source: string): CompiledName => compileName(source, KEY);

/** Never throws. */
export const evaluateEventId = (expression: CompiledExpression, data: DeliveryData): Name =>
  evaluateName(expression, data, EVENT_ID);

/** Never throws. */
export const evaluateKey = (expression: CompiledExpression, data: DeliveryData): Name =>
  evaluateName(expression, data, KEY);

function compileName(source: string, accepted: string): CompiledName {
  const compiled = compileValue(source, accepted);
  return typeof compiled === 'object' && compiled.expression.type === 'bool' ? `gives a bool; ${accepted}` : compiled;
}

function evaluateName(expression: CompiledExpression, data: DeliveryData, accepted: string): Name {
  return withoutThrowing(() => nameIn(expression.evaluateIn(data), expression.source, accepted));
}

/** A value that names something; throws `ExpressionError`, which says what is accepted, where it cannot. */
export function nameIn(value: Json, expression: string, accepted: string): string {
  if (typeof value === 'string' && value.trim() !== '') return value;
  if (isExactNumber(value)) return value.rawJSON;
  const isNumber = typeof value === 'number';
  if (isNumber && (Number.isSafeInteger(value) || !Number.isInteger(value))) return String(value);
  const lost = isNumber ? 'its digits were lost' : undefined;
  const kind = typeof value === 'string' ? 'an empty text' : kindOf(value);
  throw new ExpressionError({ expression, reason: lost ?? `gives ${kind}; ${accepted}` });
}

/** The id of an event that was found without an expression; `name` says where. Never throws. */
export function readEventId(value: Json, name: string): Name {
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
