import type { Json } from '../model/json.ts';
import type { OrderKey, RunTrigger } from '../model/run.ts';
import { Budget } from './budget.ts';
import { type CompiledExpression, compileExpression, ExpressionError } from './compile.ts';
import { DELIVERY_BUDGET_STEPS, nameIn } from './delivery-expressions.ts';
import { ArrivingBody, declaredBy } from './trigger-body.ts';

const ACCEPTED = 'the key of an order is a text, a number or a boolean';

/** The data that gives a run its key, as in step inputs. */
interface ReadTrigger {
  readonly key: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  /** Throws `ConversionError` if it cannot be parsed. */
  readonly body: () => Json;
  readonly envelope: () => Json;
}

/** Compiles the expression that gives a run its key. Throws `ExpressionError`. */
export function compileOrderKey(source: string): CompiledExpression {
  const trimmed = source.trim();
  if (trimmed.startsWith('${') && trimmed.endsWith('}')) {
    const reason = `is an expression already: leave out the \${ }, as in ${trimmed.slice(2, -1).trim()}`;
    throw new ExpressionError({ expression: source, reason });
  }
  const expression = compileExpression(source);
  const other = expression.references.find(({ root }) => root !== 'trigger');
  if (other !== undefined) {
    const reason = `reads ${other.root}: no step has run when a run gets its key, so only \`trigger\` can be read`;
    throw new ExpressionError({ expression: source, reason, position: other.position });
  }
  if (['map', 'list'].some((type) => expression.type.startsWith(type))) {
    throw new ExpressionError({ expression: source, reason: `gives a ${expression.type}; ${ACCEPTED}` });
  }
  return expression;
}

/** Reads the keys of runs with an expression. If it does not compile, or fails, yields no key and the reason. */
export function orderKeyReader(source: string): (trigger: ReadTrigger) => OrderKey {
  let compiled: CompiledExpression | ExpressionError;
  try {
    compiled = compileOrderKey(source);
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    compiled = error;
  }
  return (trigger) => {
    if (compiled instanceof ExpressionError) return { key: null, problem: compiled.message };
    try {
      return { key: keyOf(compiled.evaluateIn(dataOf(trigger)), source), problem: null };
    } catch (error) {
      if (error instanceof ExpressionError) return { key: null, problem: error.message };
      throw error;
    }
  };
}

function dataOf({ key, headers, body, envelope }: ReadTrigger): Parameters<CompiledExpression['evaluateIn']>[0] {
  const trigger = {
    key,
    headers,
    get body() {
      return body();
    },
    get envelope() {
      return envelope();
    },
  };
  return { roots: { trigger }, budget: new Budget(DELIVERY_BUDGET_STEPS) };
}

/** A stored trigger in the form for reading keys. */
export function readTrigger(trigger: RunTrigger): ReadTrigger {
  const { key, headers } = trigger;
  const body = new ArrivingBody(trigger.body, declaredBy(trigger));
  return { key, headers, body: () => body.exactValue(), envelope: () => body.envelope() };
}

/** Throws `ExpressionError` if the value cannot be a key. */
function keyOf(value: Json, expression: string): string {
  return typeof value === 'boolean' ? String(value) : nameIn(value, expression, ACCEPTED);
}
