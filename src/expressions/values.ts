import type { Environment } from '@marcbachmann/cel-js';
import { Duration, UnsignedInt } from '@marcbachmann/cel-js/evaluator';
import { isExactNumber, type Json } from '../model/json.ts';
import type { Budget } from './budget.ts';

/** Maximum depth that expressions read and write; no publisher's payload comes near, and the call stack is limited. */
export const MAX_DEPTH = 256;

/** A value without a counterpart on the other side. The message names its kind, never the value. */
export class ConversionError extends Error {
  /** Offset in the expression, if known. */
  position: number | undefined;
}

/** A JSON object, or one that an expression made; a property named `constructor` does not matter. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || (prototype === null && !isExactNumber(value));
}

const INTEGER = /^-?\d+$/;
const [MIN_INT, MAX_INT, MAX_UINT] = [-(2n ** 63n), 2n ** 63n - 1n, 2n ** 64n - 1n];

/**
 * A JSON value in the form that operators and functions of CEL accept: integers beyond 2^53 as `int`, or as `uint` if
 * they are beyond 2^63, every other number as a double.
 */
export function toOperand(value: unknown): unknown {
  if (!isExactNumber(value)) return value;
  const text = value.rawJSON;
  if (!INTEGER.test(text) || text === '-0' || text.length > MAX_UINT.toString().length) return Number(text);
  const integer = BigInt(text);
  if (integer >= MIN_INT && integer <= MAX_INT) return integer;
  return integer > 0n && integer <= MAX_UINT ? new UnsignedInt(integer) : Number(text);
}

/** The library does not check the smallest int where it is negated or divided by -1, nor a double that becomes an int. */
export function asInt(result: unknown): unknown {
  if (typeof result !== 'bigint' || (result >= MIN_INT && result <= MAX_INT)) return result;
  throw new ConversionError('integer overflow');
}

/**
 * Equality as in CEL, across types of numbers. Both values are JSON, or an expression made them of it; the library's
 * own equality charges nothing and finds inherited properties.
 */
export function isEqual(left: unknown, right: unknown, budget: Budget): boolean {
  budget.charge(1);
  if (left === right) return true;
  if (Array.isArray(left)) return Array.isArray(right) && areListsEqual(left, right, budget);
  if (isRecord(left)) return isRecord(right) && areRecordsEqual(left, right, budget);
  if (typeof left === 'string' && typeof right === 'string') {
    budget.chargeText(left.length === right.length ? left.length : 0);
    return left === right;
  }
  const one = toOperand(left);
  const other = toOperand(right);
  if (isNumber(one) && isNumber(other)) return areNumbersEqual(one, other);
  return isLeafEqual(one, other, budget);
}

function areListsEqual(left: readonly unknown[], right: readonly unknown[], budget: Budget): boolean {
  return left.length === right.length && left.every((item, index) => isEqual(item, right[index], budget));
}

function areRecordsEqual(
  left: Readonly<Record<string, unknown>>,
  right: Readonly<Record<string, unknown>>,
  budget: Budget,
): boolean {
  const keys = Object.keys(left);
  budget.chargeKeys(keys.length);
  if (keys.length !== Object.keys(right).length) return false;
  return keys.every((key) => Object.hasOwn(right, key) && isEqual(left[key], right[key], budget));
}

function isNumber(value: unknown): value is number | bigint | UnsignedInt {
  return typeof value === 'number' || typeof value === 'bigint' || value instanceof UnsignedInt;
}

function areNumbersEqual(left: number | bigint | UnsignedInt, right: number | bigint | UnsignedInt): boolean {
  // biome-ignore lint/suspicious/noDoubleEquals: an integer and a double are equal where their values are.
  return left.valueOf() == right.valueOf();
}

function isLeafEqual(left: unknown, right: unknown, budget: Budget): boolean {
  if (left instanceof Date) return right instanceof Date && left.getTime() === right.getTime();
  if (left instanceof Duration) {
    return right instanceof Duration && left.seconds === right.seconds && left.nanos === right.nanos;
  }
  if (!(left instanceof Uint8Array && right instanceof Uint8Array)) return left === right;
  budget.chargeText(left.length);
  return Buffer.compare(left, right) === 0;
}

/**
 * A CEL result as JSON: durations as strings, times as ISO 8601, bytes as base64; an integer beyond 2^53 keeps its
 * digits. JSON values are passed on uncopied.
 */
export function fromCel(value: unknown, budget: Budget, depth = 0): Json {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number') return fromDouble(value);
  if (typeof value === 'bigint') return fromInteger(value);
  if (depth > MAX_DEPTH) throw new ConversionError(`its result is nested deeper than ${MAX_DEPTH} levels`);
  if (Array.isArray(value)) return fromList(value, budget, depth);
  if (isRecord(value)) return fromRecord(value, budget, depth);
  if (isExactNumber(value)) return value;
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64');
  if (value instanceof Date) return value.toISOString();
  if (value instanceof UnsignedInt) return fromInteger(value.value);
  if (value instanceof Duration) return durationText(value);
  throw new ConversionError('its result is a type or namespace, which JSON cannot hold');
}

function fromDouble(value: number): Json {
  if (Number.isFinite(value)) return value;
  throw new ConversionError(`its result is ${value}, which JSON cannot hold`);
}

function fromInteger(value: bigint): Json {
  const asNumber = Number(value);
  return Number.isSafeInteger(asNumber) ? asNumber : JSON.rawJSON(value.toString());
}

function fromList(list: readonly unknown[], budget: Budget, depth: number): Json {
  budget.chargeItems(list.length);
  let copy: Json[] | undefined;
  for (let index = 0; index < list.length; index += 1) {
    const item = fromCel(list[index], budget, depth + 1);
    if (copy === undefined && item !== list[index]) copy = list.slice(0, index) as Json[];
    copy?.push(item);
  }
  return copy ?? (list as readonly Json[]);
}

function fromRecord(record: Readonly<Record<string, unknown>>, budget: Budget, depth: number): Json {
  const keys = Object.keys(record);
  budget.chargeKeys(keys.length);
  const entries: [string, Json][] = [];
  let isSame = true;
  for (const key of keys) {
    const item = record[key];
    if (item === undefined) continue;
    const made = fromCel(item, budget, depth + 1);
    isSame &&= made === item;
    entries.push([key, made]);
  }
  return isSame ? (record as { readonly [key: string]: Json }) : Object.fromEntries(entries);
}

const NANOS = 1_000_000_000n;
const NANOS_PER_MS = 1_000_000n;

const nanosOf = ({ seconds, nanos }: Duration) => seconds * NANOS + BigInt(nanos);

const [FIRST_TIME, LAST_TIME] = [Date.parse('0001-01-01T00:00:00Z'), Date.parse('9999-12-31T23:59:59.999Z')];

const nanosIn = (value: unknown) =>
  value instanceof Date
    ? BigInt(value.getTime()) * NANOS_PER_MS
    : value instanceof Duration
      ? nanosOf(value)
      : undefined;

/**
 * A sum or a difference of times or durations; undefined for other operands. The library loses a second where a duration
 * is negative, digits of a difference over 104 days, and takes a time beyond the year 9999 for one.
 */
export function ofTimes(operator: '+' | '-', left: unknown, right: unknown): Date | Duration | undefined {
  const [one, other] = [nanosIn(left), nanosIn(right)];
  const isTime = left instanceof Date !== right instanceof Date;
  const isNone = right instanceof Date && (operator === '+') === left instanceof Date;
  if (one === undefined || other === undefined || isNone) return undefined;
  const nanos = operator === '+' ? one + other : one - other;
  if (!isTime && (nanos < MIN_INT || nanos > MAX_INT))
    throw new ConversionError('a duration is shorter than 2562048 hours');
  if (!isTime) return new Duration(nanos / NANOS, Number(nanos % NANOS));
  const ms = Number(nanos / NANOS_PER_MS) - (nanos % NANOS_PER_MS < 0n ? 1 : 0);
  if (ms >= FIRST_TIME && ms <= LAST_TIME) return new Date(ms);
  throw new ConversionError('a time is in the years 1 to 9999');
}

/** Operands that the library orders as CEL does: durations by all their digits, texts by characters, not UTF-16 units. */
export function inOrder(left: unknown, right: unknown): readonly [unknown, unknown] {
  if (typeof left === 'string' && typeof right === 'string') return [bytesOf(left), bytesOf(right)];
  if (!(left instanceof Duration && right instanceof Duration)) return [toOperand(left), toOperand(right)];
  const nanos = nanosOf(left) - nanosOf(right);
  return [new Duration(nanos / NANOS, Number(nanos % NANOS)), new Duration(0)];
}

const bytesOf = (text: string) => Buffer.from(text).toString('latin1');

/** Such as `90s` or `-1.5s`. */
function durationText(duration: Duration): string {
  const nanos = nanosOf(duration);
  const magnitude = nanos < 0n ? -nanos : nanos;
  const fraction = String(magnitude % NANOS)
    .padStart(9, '0')
    .replace(/0+$/, '');
  return `${nanos < 0n ? '-' : ''}${magnitude / NANOS}${fraction && `.${fraction}`}s`;
}

/** The kind of a value in words: `null`, `an array`, `a string`. */
export function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  if (isExactNumber(value)) return 'a number';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

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
  '/': (left, right) => left / right,
  '%': (left, right) => left % right,
};

/** Operands are numbers or CEL integers: a bigint, or an object whose value is one. */
function calculateMixed(operator: string, left: unknown, right: unknown): unknown {
  const [one, other] = [Object(left).valueOf(), Object(right).valueOf()];
  const isInteger = typeof one === 'bigint' && typeof other === 'bigint';
  const isLarge = [one, other].some((value) => typeof value === 'bigint' && !Number.isSafeInteger(Number(value)));
  const isWhole = [one, other].every((value) => typeof value === 'bigint' || Number.isSafeInteger(value));
  const exactly = isInteger || (isLarge && isWhole && operator !== '/') ? INTEGERS[operator] : undefined;
  if (exactly === undefined) return DOUBLES[operator]?.(Number(one), Number(other));
  if ('/%'.includes(operator) && Number(other) === 0) throw new ConversionError('division by zero');
  const result = toOperand(JSON.rawJSON(exactly(BigInt(one), BigInt(other)).toString()));
  if (typeof result === 'number') throw new ConversionError('integer overflow');
  return result;
}

/**
 * CEL has no arithmetic across its number types, but a JSON number is a double, or an integer if it is beyond 2^53, and
 * every literal without a point is an int: `trigger.body.amount / 100` would fail. Mixed operands count as doubles
 * here, unless that would change an integer beyond 2^53.
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
