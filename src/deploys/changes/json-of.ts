import type { Json } from '../../model/json.ts';

/** A part of a snapshot as the JSON that it was read from. */
export function jsonOf(part: object | string | number | boolean | null): Json;
export function jsonOf(part: unknown): Json | undefined;
export function jsonOf(part: unknown): Json | undefined {
  return part as Json | undefined;
}
