import { formatPath } from '../expressions/json-path.ts';

// Deep enough for any document; a value that contains itself ends here too.
const MAX_DEPTH = 500;

/**
 * Says what about a value JSON cannot hold, with the path below `name`; undefined where nothing is wrong. Properties that
 * are undefined pass: writing JSON leaves them out.
 */
export function findNonJson(value: unknown, name: string): string | undefined {
  const found = find(value, 0);
  return found && `${formatPath([name, ...found.path.toReversed()])} is ${found.what}`;
}

/** The path is collected from the inside out. */
interface Found {
  readonly path: (string | number)[];
  readonly what: string;
}

function find(value: unknown, depth: number): Found | undefined {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return undefined;
  if (typeof value === 'number') return Number.isFinite(value) ? undefined : { path: [], what: String(value) };
  if (typeof value !== 'object') return { path: [], what: value === undefined ? 'undefined' : `a ${typeof value}` };
  if (depth === MAX_DEPTH) return { path: [], what: `nested deeper than ${MAX_DEPTH} levels` };
  if (Array.isArray(value)) return findInArray(value, depth);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    return { path: [], what: `an instance of ${value.constructor?.name ?? 'a nameless class'}` };
  }
  for (const [key, item] of Object.entries(value)) {
    const found = item === undefined ? undefined : find(item, depth + 1);
    if (found !== undefined) return below(key, found);
  }
  return undefined;
}

function findInArray(items: readonly unknown[], depth: number): Found | undefined {
  for (let index = 0; index < items.length; index += 1) {
    const found = find(items[index], depth + 1);
    if (found !== undefined) return below(index, found);
  }
  return undefined;
}

function below(key: string | number, found: Found): Found {
  found.path.push(key);
  return found;
}
