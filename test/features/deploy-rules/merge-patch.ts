import { isJsonArray, type Json, type JsonObject } from '../../../src/model/json.ts';

/** Applies a JSON merge patch as in RFC 7396. */
export function mergePatch(target: Json, patch: Json): Json {
  if (!isObject(patch)) return patch;
  const merged: Record<string, Json> = isObject(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key];
    else merged[key] = mergePatch(merged[key] ?? null, value);
  }
  return merged;
}

function isObject(value: Json): value is JsonObject {
  return typeof value === 'object' && value !== null && !isJsonArray(value);
}
