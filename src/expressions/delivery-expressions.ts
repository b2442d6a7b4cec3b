import type { Json } from '../model/json.ts';
import { Budget } from './budget.ts';
import { type CompiledExpression, ExpressionError } from './compile.ts';
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

function withoutThrowing<Result>(evaluate: () => Result): Result | { readonly error: string } {
  try {
    return evaluate();
  } catch (error) {
    if (error instanceof ExpressionError) return { error: error.message };
    throw error;
  }
}
