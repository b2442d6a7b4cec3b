import { formatPath } from '../expressions/json-path.ts';
import { isExactNumber } from '../model/json.ts';
import { MAX_BYTES } from '../model/run.ts';
import { StepFailure } from './step-failure.ts';

// Deep enough for any document; a value that contains itself ends here too.
const MAX_DEPTH = 500;

/** The problem of a value that should be stored. */
interface JsonProblem {
  readonly kind: 'notJson' | 'tooLarge';
  /** Names the path below `name`. */
  readonly message: string;
}

/**
 * Finds a part of a value that JSON cannot represent, or reports that it has more than `maxBytes` as JSON; undefined if
 * the value is fine. Undefined properties are accepted: JSON leaves them out.
 *
 * The walk ends with the first byte too many. A few characters of an expression can make a list that contains one body
 * thousands of times, which takes no memory until it is written out.
 */
export function problemOfJson(value: unknown, name: string, maxBytes: number): JsonProblem | undefined {
  const walk: Walk = { bytes: 0, maxBytes };
  const found = find(value, 0, walk);
  if (found === TOO_LARGE) {
    return { kind: 'tooLarge', message: `has at least ${walk.bytes} bytes as JSON; at most ${maxBytes} are kept` };
  }
  return found && { kind: 'notJson', message: `${formatPath([name, ...found.path.toReversed()])} is ${found.what}` };
}

/** How many bytes a value has as JSON. The walk ends early if it has more than `maxBytes`. */
export function bytesOfJson(value: unknown, maxBytes: number): number {
  const walk: Walk = { bytes: 0, maxBytes };
  find(value, 0, walk);
  return walk.bytes;
}

interface Walk {
  bytes: number;
  readonly maxBytes: number;
}

/** The path is collected from the inside out. */
interface Found {
  readonly path: (string | number)[];
  readonly what: string;
}

const TOO_LARGE: Found = { path: [], what: 'too large' };

function find(value: unknown, depth: number, walk: Walk): Found | undefined {
  if (typeof value === 'string') return take(stringBytes(value, walk), walk);
  if (value === null) return take(4, walk);
  if (typeof value === 'boolean') return take(value ? 4 : 5, walk);
  if (typeof value === 'number') {
    return Number.isFinite(value) ? take(String(value).length, walk) : { path: [], what: String(value) };
  }
  if (typeof value !== 'object') return { path: [], what: value === undefined ? 'undefined' : `a ${typeof value}` };
  if (depth === MAX_DEPTH) return { path: [], what: `nested deeper than ${MAX_DEPTH} levels` };
  if (Array.isArray(value)) return findInArray(value, depth, walk);
  if (isExactNumber(value)) return take(value.rawJSON.length, walk);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    return { path: [], what: `an instance of ${value.constructor?.name ?? 'a nameless class'}` };
  }
  let members = 0;
  for (const [key, item] of Object.entries(value)) {
    if (item === undefined) continue;
    // A colon, and a comma before all but the first.
    const found = take(stringBytes(key, walk) + (members === 0 ? 1 : 2), walk) ?? find(item, depth + 1, walk);
    if (found !== undefined) return below(key, found);
    members += 1;
  }
  return take(2, walk);
}

function findInArray(items: readonly unknown[], depth: number, walk: Walk): Found | undefined {
  for (let index = 0; index < items.length; index += 1) {
    const found = find(items[index], depth + 1, walk) ?? take(1, walk);
    if (found !== undefined) return below(index, found);
  }
  return take(items.length === 0 ? 2 : 1, walk);
}

function take(bytes: number, walk: Walk): Found | undefined {
  walk.bytes += bytes;
  return walk.bytes > walk.maxBytes ? TOO_LARGE : undefined;
}

/** Includes the quotes. Does not write out a text that is too long in any case. */
function stringBytes(text: string, { bytes, maxBytes }: Walk): number {
  if (bytes + text.length + 2 > maxBytes) return text.length + 2;
  return /^[ !#-[\]-~]*$/.test(text) ? text.length + 2 : Buffer.byteLength(JSON.stringify(text));
}

function below(key: string | number, found: Found): Found {
  if (found !== TOO_LARGE) found.path.push(key);
  return found;
}

/** The problem of a step's output. */
export function problemOfOutput(output: unknown): StepFailure | undefined {
  if (output === null) return undefined;
  const problem = problemOfJson(output, 'output', MAX_BYTES.output);
  if (problem === undefined) return undefined;
  return problem.kind === 'notJson'
    ? new StepFailure('output_not_json', `${problem.message}, which JSON cannot hold`)
    : new StepFailure('output_too_large', `the output ${problem.message}`);
}
