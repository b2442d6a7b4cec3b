import type { Json } from '../model/json.ts';

/** Freezes a JSON value with all that is in it; what is frozen already is taken to be so throughout. */
export function freezeJson(value: Json): Json {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const item of Object.values(value)) freezeJson(item);
  return Object.freeze(value);
}
