import { type Node, type ParseErrorCode, parse, parseTree, printParseErrorCode, visit } from 'jsonc-parser';
import { formatPath, type JsonPath } from '../expressions/json-path.ts';
import { errorAt, type Problem } from './issues.ts';
import type { SecretReader } from './read-secret.ts';

const MAX_DEPTH = 100;
const MAX_SYNTAX_ERRORS = 20;

/**
 * A parsed JSON text. `value` is undefined if the text is not JSON. A key given twice and an integer beyond 2^53 are
 * problems; `value` then holds what `JSON.parse` made of them.
 */
interface JsonText {
  readonly value: unknown;
  readonly problems: readonly Problem[];
  /** The same text at the same positions, with spaces in place of everything that is not strict JSON. */
  readonly strict: string;
}

/** Reads JSON with comments and trailing commas; drops a leading byte order mark. */
export function readJson(text: string): JsonText {
  const content = text.startsWith('\uFEFF') ? text.slice(1) : text;
  const { syntaxErrors, ambiguities, deepest, lenient } = inspect(content);
  if (deepest > MAX_DEPTH) return noJson(`is nested deeper than ${MAX_DEPTH} levels`);
  if (syntaxErrors.length > 0) return { value: undefined, problems: syntaxErrors, strict: '' };
  let strict = '';
  for (const { offset, length } of lenient.sort((one, other) => one.offset - other.offset)) {
    strict += content.slice(strict.length, offset);
    strict += content.slice(offset, offset + length).replace(/[^\r\n]/g, ' ');
  }
  strict += content.slice(strict.length);
  try {
    return { value: JSON.parse(strict), problems: ambiguities, strict };
  } catch {
    // The engine's own message quotes the text, and perhaps a secret in it.
    return noJson('is not JSON');
  }
}

/**
 * The JSON of a file that a setting names, or one line for each mistake in it. None quotes the file, which may contain
 * secrets, nor the setting, in case someone pasted the content there.
 */
export function readJsonFile(
  name: string,
  readSecret: SecretReader,
): { readonly value: unknown } | { readonly lines: readonly string[] } {
  if (/[[\]{}"\n]/.test(name)) return { lines: ['is what a file would hold; write its path'] };
  const file = readSecret(`file:${name}`);
  const isPath = /^(?:\.{0,2}[/\\]|[a-z]:[/\\])|\.json$/i.test(name);
  const shown = isPath ? `the file ${name}` : 'the file';
  if ('error' in file) return { lines: [isPath ? file.error : `the file ${file.error.split(name).at(-1)?.trim()}`] };
  const { value, problems } = readJson(file.value);
  if (value === undefined) return { lines: [`${shown} is not JSON`] };
  if (problems.length === 0) return { value };
  return { lines: problems.map(({ path, message }) => `${path} ${message} in ${shown}`) };
}

/** Keys that an object of a JSON text has twice; the last one counts. */
export const repeatedIn = (text: string): readonly Problem[] => inspect(text).repeated;

/** The apparent content of text that is not JSON, such as half a file: only good enough for naming it. */
export function guessJson(text: string): unknown {
  try {
    return parse(text.startsWith('\uFEFF') ? text.slice(1) : text, [], LENIENT);
  } catch (error) {
    // As in `inspect`.
    if (!(error instanceof RangeError)) throw error;
    return undefined;
  }
}

const LENIENT = { disallowComments: false, allowTrailingComma: true };

function noJson(message: string): JsonText {
  return { value: undefined, problems: [errorAt([], message)], strict: '' };
}

function inspect(text: string) {
  const syntaxErrors: Problem[] = [];
  const ambiguities: Problem[] = [];
  const repeated: Problem[] = [];
  const keysOfOpenObjects: Set<string>[] = [];
  /** Comments, and trailing commas. */
  const lenient: { readonly offset: number; readonly length: number }[] = [];
  let lastComma: number | undefined;
  let depth = 0;
  let deepest = 0;
  const begin = () => {
    depth += 1;
    deepest = Math.max(deepest, depth);
    lastComma = undefined;
  };
  const end = () => {
    depth -= 1;
    if (lastComma !== undefined) lenient.push({ offset: lastComma, length: 1 });
    lastComma = undefined;
  };
  try {
    visit(
      text,
      {
        onError: (...[code, , , line, column]) => {
          if (syntaxErrors.length === MAX_SYNTAX_ERRORS) return;
          syntaxErrors.push({ ...errorAt([], syntaxMessage(code)), line: line + 1, column: column + 1 });
        },
        onObjectBegin: () => {
          begin();
          keysOfOpenObjects.push(new Set());
        },
        onObjectEnd: () => {
          end();
          keysOfOpenObjects.pop();
        },
        onArrayBegin: begin,
        onArrayEnd: end,
        onComment: (offset, length) => {
          lenient.push({ offset, length });
        },
        onSeparator: (character, offset) => {
          if (character === ',') lastComma = offset;
        },
        onLiteralValue: (...[value, offset, length, line, , pathOfValue]) => {
          lastComma = undefined;
          const digits = text.slice(offset, offset + length);
          if (typeof value !== 'number' || Number.isSafeInteger(value) || !/^-?\d+$/.test(digits)) return;
          const message = `line ${line + 1}: ${digits} cannot be represented exactly; write it as "${digits}"`;
          ambiguities.push(errorAt(pathOfValue(), message));
        },
        onObjectProperty: (...[key, , , line, , pathOfObject]) => {
          const keys = keysOfOpenObjects.at(-1);
          if (keys?.has(key)) {
            const twice = errorAt([...pathOfObject(), key], `is given twice, again on line ${line + 1}`);
            ambiguities.push(twice);
            repeated.push(twice);
          }
          keys?.add(key);
        },
      },
      { ...LENIENT, allowEmptyContent: false },
    );
  } catch (error) {
    // The parser is recursive: only nesting exhausts the call stack.
    if (!(error instanceof RangeError)) throw error;
    deepest = Number.POSITIVE_INFINITY;
  }
  return { syntaxErrors, ambiguities, repeated, deepest, lenient };
}

/** Turns `CommaExpected` into "comma expected". */
function syntaxMessage(code: ParseErrorCode): string {
  return printParseErrorCode(code)
    .replace(/(?<=[a-z])[A-Z]/g, ' $&')
    .toLowerCase();
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

interface TextPlace {
  readonly line: number;
  readonly column: number;
}

/**
 * Finds values of a text by their path as spelled there; if one is missing, finds the nearest value around it. Parses
 * the text at the first call: most texts never need it.
 */
export function placesIn(text: string): (path: string) => TextPlace | undefined {
  let places: ReadonlyMap<string, TextPlace> | undefined;
  return (path) => {
    places ??= allPlaces(text.startsWith('\uFEFF') ? text.slice(1) : text);
    let known = path;
    while (known !== '' && !places.has(known)) {
      const [segment = known] = LAST_SEGMENT.exec(known) ?? [];
      known = known.slice(0, -segment.length);
    }
    return places.get(known);
  };
}

/** The nodes have the offsets of the text. */
export const treeOf = (text: string): Node | undefined => parseTree(text, [], LENIENT);

function allPlaces(text: string): ReadonlyMap<string, TextPlace> {
  const places = new Map<string, TextPlace>();
  let line = 1;
  let lineStart = 0;
  let lineEnd = text.indexOf('\n');
  const visitNode = (node: Node, path: JsonPath, start: number) => {
    // Values come in the order of the text.
    for (; lineEnd !== -1 && lineEnd < start; lineEnd = text.indexOf('\n', lineStart)) {
      line += 1;
      lineStart = lineEnd + 1;
    }
    places.set(formatPath(path), { line, column: start - lineStart + 1 });
    for (const [index, child] of (node.children ?? []).entries()) {
      const [name, value] = child.children ?? [];
      if (node.type === 'array') visitNode(child, [...path, index], child.offset);
      else if (name !== undefined && value !== undefined) {
        const isLarge = value.type === 'object' || value.type === 'array';
        visitNode(value, [...path, String(name.value)], isLarge ? name.offset : value.offset);
      }
    }
  };
  const root = treeOf(text);
  if (root !== undefined) visitNode(root, [], root.offset);
  return places;
}

export const LAST_SEGMENT = /(\.[\w$-]+|\[\d+\]|\["(?:[^"\\]|\\.)*"\])$/;
