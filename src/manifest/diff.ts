import { formatPath, type JsonPath } from '../expressions/json-path.ts';
import { isJsonArray, isJsonObject, isSame, type Json, type JsonObject, own } from '../model/json.ts';

/** One difference between two manifests. */
interface Difference {
  /** JSON path such as `steps.fetch.inputs.url`; empty if the values themselves differ. */
  readonly path: string;
  readonly kind: 'added' | 'removed' | 'changed';
  /** Absent if that side has no such place. */
  readonly before?: Json;
  readonly after?: Json;
}

/**
 * The differences between two manifests, each at the outermost place that one of them lacks. Key order does not matter;
 * arrays of equal length are compared entry by entry, others as a whole.
 */
export function diffSnapshots(before: Json, after: Json): readonly Difference[] {
  return differences(before, after).map(({ at, ...difference }) => ({ path: formatPath(at), ...difference }));
}

/** Like `diffSnapshots`, with paths as lists of keys for looking into the manifests again. */
export function differences(before: Json, after: Json, at: JsonPath = []): LocatedDifference[] {
  if (isJsonObject(before) && isJsonObject(after)) return differentKeys(before, after, at);
  if (isJsonArray(before) && isJsonArray(after) && before.length === after.length) {
    return before.flatMap((item, index) => differences(item, after[index] ?? null, [...at, index]));
  }
  return isSame(before, after) ? [] : [{ at, kind: 'changed', before, after }];
}

interface LocatedDifference extends Omit<Difference, 'path'> {
  readonly at: JsonPath;
}

function differentKeys(before: JsonObject, after: JsonObject, at: JsonPath): LocatedDifference[] {
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].flatMap((key): LocatedDifference[] => {
    const one = own(before, key);
    const other = own(after, key);
    const path = [...at, key];
    if (one === undefined) return other === undefined ? [] : [{ at: path, kind: 'added', after: other }];
    if (other === undefined) return [{ at: path, kind: 'removed', before: one }];
    return differences(one, other, path);
  });
}
