import { isExactNumber, type Json, type JsonObject } from '../model/json.ts';
import type { JsonPath } from './json-path.ts';

type MapString = (text: string, path: JsonPath) => string;
type MapKey = (key: string) => string;

/** The same value with every string replaced; keys are left alone unless `mapKey` is given. */
export function mapStrings(value: JsonObject, map: MapString, mapKey?: MapKey): JsonObject;
export function mapStrings(value: Json, map: MapString, mapKey?: MapKey): Json;
export function mapStrings(value: Json, map: MapString, mapKey: MapKey = (key) => key): Json {
  const mapValue = (inner: Json, path: JsonPath): Json => {
    if (typeof inner === 'string') return map(inner, path);
    if (typeof inner !== 'object' || inner === null || isExactNumber(inner)) return inner;
    if (isJsonArray(inner)) return inner.map((item, index) => mapValue(item, [...path, index]));
    return Object.fromEntries(
      Object.entries(inner).map(([key, item]) => [mapKey(key), mapValue(item, [...path, key])]),
    );
  };
  return mapValue(value, []);
}

/** `Array.isArray` that narrows a readonly array too. */
export function isJsonArray(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}
