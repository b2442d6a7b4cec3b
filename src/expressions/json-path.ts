import { isExactNumber, isJsonArray, type Json, type JsonObject } from '../model/json.ts';

export type JsonPath = readonly (string | number)[];

const PLAIN_KEY = /^[\w$-]+$/;

/** A path in which null means every item of a list: `body.items[].sku`. */
export type OpenPath = readonly (string | number | null)[];

/** `steps.notify.inputs.headers["x y"][0]`: keys that need no quotes are dotted, list positions are in brackets. */
export function formatPath(path: OpenPath, isPlain: (key: string) => boolean = (key) => PLAIN_KEY.test(key)): string {
  let text = '';
  for (const key of path) {
    if (typeof key !== 'string') text += `[${key ?? ''}]`;
    else if (!isPlain(key)) text += `[${JSON.stringify(key)}]`;
    else text += text === '' ? key : `.${key}`;
  }
  return text;
}

type MapString = (text: string, path: JsonPath) => string;
type MapKey = (key: string) => string;

/** The value at a path of own properties; undefined if there is none. */
export function valueAt(value: unknown, path: JsonPath): unknown {
  let found = value;
  for (const key of path) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, key)) return undefined;
    found = Reflect.get(found, key);
  }
  return found;
}

/** The same value with every string replaced; keys stay unchanged unless `mapKey` is given. */
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
