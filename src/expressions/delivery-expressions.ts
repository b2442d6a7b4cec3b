import { isExactNumber, type Json } from '../model/json.ts';
import { Budget } from './budget.ts';
import { type CompiledExpression, compileExpression, ExpressionError } from './compile.ts';
import type { ArrivingBody } from './trigger-body.ts';
import { kindOf } from './values.ts';

/**
 * Total cost of the expressions that decide about one delivery: a tenth of that of a step's, 4 ms. They are evaluated
 * before the delivery is answered.
 */
export const DELIVERY_BUDGET_STEPS = 100_000;

/** One delivery as its trigger's expressions read it, and the remaining budget. */
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

/** Whether a filter lets a delivery start a run; an error if it failed or yielded no boolean. Never throws. */
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

/** An expression over a delivery whose value is stored. */
export interface CompiledValue {
  /** Lower-case names of the headers that it reads. */
  readonly headers: readonly string[];
  readonly expression: CompiledExpression;
}

/** The compiled expression, or its problem; `accepted` names the accepted results. */
export function compileValue(source: string, accepted: string): CompiledValue | string {
  try {
    const expression = compileExpression(headerOf(source) ?? source, 'delivery');
    if (['map', 'list'].some((type) => expression.type.startsWith(type))) {
      return `gives a ${expression.type}; ${accepted}`;
    }
    const headers = expression.references.filter(({ root }) => root === 'headers').map(({ path }) => path[1]);
    // The headers must be known in advance, so that none of them is a secret.
    if (headers.some((header) => typeof header !== 'string')) return 'has to name the header: headers["x-name"]';
    return { headers: headers.map(String), expression };
  } catch (error) {
    if (error instanceof ExpressionError) return error.message;
    throw error;
  }
}

/** `headers.x-github-event` in correct CEL, where it would be a subtraction. */
function headerOf(source: string): string | undefined {
  const [, name] = /^\s*headers\.([\w-]*-[\w-]*)\s*$/.exec(source) ?? [];
  return name === undefined ? undefined : `headers[${JSON.stringify(name)}]`;
}

/** Why an expression may not read a header; `kept` says what is stored. */
export const secretHeader = (header: string, kept: string) =>
  `reads the header ${header}, which may hold a secret or a signature; ${kept}`;

/** The name that an expression gives a delivery, or why there is none. */
type Name = string | { readonly error: string };

/** Compiles an expression that identifies an event. */
export const compileEventId = (source: string): CompiledValue | string => compileName(source, EVENT_ID);

/** Compiles an expression for the key by which deliveries share runs, or answer steps. */
export const compileKey = (source: string): CompiledValue | string => compileName(source, KEY);

/** Never throws. */
export const evaluateEventId = (expression: CompiledExpression, data: DeliveryData): Name =>
  evaluateName(expression, data, EVENT_ID);

/** Never throws. */
export const evaluateKey = (expression: CompiledExpression, data: DeliveryData): Name =>
  evaluateName(expression, data, KEY);

function compileName(source: string, accepted: string): CompiledValue | string {
  const compiled = compileValue(source, accepted);
  return typeof compiled === 'object' && compiled.expression.type === 'bool' ? `gives a bool; ${accepted}` : compiled;
}

function evaluateName(expression: CompiledExpression, data: DeliveryData, accepted: string): Name {
  return withoutThrowing(() => nameIn(expression.evaluateIn(data), expression.source, accepted));
}

/** A value as a name; throws `ExpressionError`, which names the accepted values, if it cannot be one. */
export function nameIn(value: Json, expression: string, accepted: string): string {
  if (typeof value === 'string' && value.trim() !== '') return value;
  if (isExactNumber(value)) return value.rawJSON;
  const isNumber = typeof value === 'number';
  if (isNumber && (Number.isSafeInteger(value) || !Number.isInteger(value))) return String(value);
  const lost = isNumber ? 'its digits were lost' : undefined;
  const kind = typeof value === 'string' ? 'an empty text' : kindOf(value);
  throw new ExpressionError({ expression, reason: lost ?? `gives ${kind}; ${accepted}` });
}

/** The id of an event that was found without an expression; `name` is its place. Never throws. */
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
