import type { Environment } from '@marcbachmann/cel-js';
import { exactNumber } from '../model/json.ts';
import { ConversionError, toOperand } from './values.ts';

type Calculation<Operand> = (left: Operand, right: Operand) => Operand;

const DOUBLES: Readonly<Record<string, Calculation<number>>> = {
  '+': (left, right) => left + right,
  '-': (left, right) => left - right,
  '*': (left, right) => left * right,
  '/': (left, right) => left / right,
  '%': (left, right) => left % right,
};

const INTEGERS: Readonly<Record<string, Calculation<bigint>>> = {
  '+': (left, right) => left + right,
  '-': (left, right) => left - right,
  '*': (left, right) => left * right,
  '%': (left, right) => left % right,
};

/** Operands are numbers, or integers of CEL: a bigint, or an object with one as its value. */
function calculateMixed(operator: string, left: unknown, right: unknown): unknown {
  const [one, other] = [Object(left).valueOf(), Object(right).valueOf()];
  const isLarge = [one, other].some((value) => typeof value === 'bigint' && !Number.isSafeInteger(Number(value)));
  const isWhole = [one, other].every((value) => typeof value === 'bigint' || Number.isSafeInteger(value));
  const exactly = INTEGERS[operator];
  if (!isLarge || !isWhole || exactly === undefined) return DOUBLES[operator]?.(Number(one), Number(other));
  if (operator === '%' && Number(other) === 0) return Number.NaN;
  const result = toOperand(exactNumber(exactly(BigInt(one), BigInt(other)).toString()));
  if (typeof result === 'number') throw new ConversionError('integer overflow');
  return result;
}

/**
 * CEL has no arithmetic across its number types, but a number of JSON is a double, or an integer where it is beyond 2^53,
 * and every literal without a point is an int: `trigger.body.amount / 100` would fail. Mixed operands count as doubles here,
 * unless that would change an integer beyond 2^53.
 */
export function registerMixedArithmetic(environment: Environment): void {
  for (const operator of Object.keys(DOUBLES)) {
    const mixed = (left: unknown, right: unknown) => calculateMixed(operator, left, right);
    for (const [left, right] of [
      ['int', 'double'],
      ['double', 'int'],
      ['uint', 'double'],
      ['double', 'uint'],
      ['uint', 'int'],
      ['int', 'uint'],
    ]) {
      environment.registerOperator(`${left} ${operator} ${right}: dyn`, mixed);
    }
    if (operator === '%') environment.registerOperator('double % double: double', mixed);
  }
}
