import { Duration, UnsignedInt } from '@marcbachmann/cel-js/evaluator';
import type { Json } from '../model/json.ts';

// Deeper values would exhaust the call stack; no publisher's payload comes near.
const MAX_DEPTH = 256;

/** A value that has no counterpart on the other side. The message names its kind, never the value. */
export class ConversionError extends Error {}

/**
 * JSON as CEL reads it: numbers stay doubles, objects become maps.
 * A Map has no prototype to reach, and an object with a property named `constructor` would be of no known type.
 */
export function toCel(value: unknown, depth = 0): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (depth > MAX_DEPTH) throw new ConversionError(`the data it reads is nested deeper than ${MAX_DEPTH} levels`);
  if (Array.isArray(value)) return value.map((item) => toCel(item, depth + 1));
  return new Map(
    Object.entries(value)
      .filter(([, item]) => item !== undefined)
      .map(([key, item]) => [key, toCel(item, depth + 1)]),
  );
}

/** A result of CEL as JSON: integers beyond 2^53 and durations as strings, times as ISO 8601, bytes as base64. */
export function fromCel(value: unknown): Json {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number') return fromDouble(value);
  if (typeof value === 'bigint') return fromInteger(value);
  if (Array.isArray(value)) return value.map(fromCel);
  if (value instanceof Map) return fromEntries([...value]);
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64');
  if (value instanceof Date) return value.toISOString();
  if (value instanceof UnsignedInt) return fromInteger(BigInt(value.toString()));
  if (value instanceof Duration) return value.toString();
  if (typeof value === 'object' && isPlain(value)) return fromEntries(Object.entries(value));
  throw new ConversionError('its result is a type or namespace, which JSON cannot hold');
}

function fromDouble(value: number): Json {
  if (Number.isFinite(value)) return value;
  throw new ConversionError(`its result is ${value}, which JSON cannot hold`);
}

function fromInteger(value: bigint): Json {
  const asNumber = Number(value);
  return Number.isSafeInteger(asNumber) ? asNumber : value.toString();
}

function fromEntries(entries: readonly (readonly [unknown, unknown])[]): Json {
  return Object.fromEntries(entries.map(([key, item]) => [String(key), fromCel(item)]));
}

function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** The kind of a value in words: `null`, `an array`, `a string`. */
export function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}
