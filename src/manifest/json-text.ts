import { type ParseErrorCode, printParseErrorCode, visit } from 'jsonc-parser';
import { errorAt, type Problem } from './issues.ts';

const MAX_DEPTH = 100;
const MAX_SYNTAX_ERRORS = 20;

/**
 * A text as JSON. `value` is undefined where it is none; a key given twice, or an
 * integer beyond 2^53, is a problem, and what `JSON.parse` makes of it stands.
 */
export interface JsonText {
  readonly value: unknown;
  readonly problems: readonly Problem[];
}

/** Reads strict JSON: no comments, no trailing commas; a byte order mark in front is dropped. */
export function readJson(text: string): JsonText {
  const content = text.startsWith('\uFEFF') ? text.slice(1) : text;
  const { syntaxErrors, doubtful, deepest } = inspect(content);
  if (deepest > MAX_DEPTH) return noJson(`is nested deeper than ${MAX_DEPTH} levels`);
  if (syntaxErrors.length > 0) return { value: undefined, problems: syntaxErrors };
  try {
    return { value: JSON.parse(content), problems: doubtful };
  } catch {
    // The engine's own message quotes the text, and with it perhaps a secret.
    return noJson('is no JSON');
  }
}

function noJson(message: string): JsonText {
  return { value: undefined, problems: [errorAt([], message)] };
}

function inspect(text: string) {
  const syntaxErrors: Problem[] = [];
  const doubtful: Problem[] = [];
  const keysOfOpenObjects: Set<string>[] = [];
  let depth = 0;
  let deepest = 0;
  const begin = () => {
    depth += 1;
    deepest = Math.max(deepest, depth);
  };
  const end = () => {
    depth -= 1;
  };
  try {
    visit(
      text,
      {
        onError: (...[code, , , line, column]) => {
          if (syntaxErrors.length === MAX_SYNTAX_ERRORS) return;
          syntaxErrors.push(errorAt([], `line ${line + 1}, column ${column + 1}: ${syntaxMessage(code)}`));
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
        onLiteralValue: (...[value, offset, length, line, , pathOfValue]) => {
          const digits = text.slice(offset, offset + length);
          if (typeof value !== 'number' || Number.isSafeInteger(value) || !/^-?\d+$/.test(digits)) return;
          const message = `line ${line + 1}: ${digits} is larger than a number is exact; write it as "${digits}"`;
          doubtful.push(errorAt(pathOfValue(), message));
        },
        onObjectProperty: (...[key, , , line, , pathOfObject]) => {
          const keys = keysOfOpenObjects.at(-1);
          if (keys?.has(key))
            doubtful.push(errorAt([...pathOfObject(), key], `is given twice, again in line ${line + 1}`));
          keys?.add(key);
        },
      },
      { disallowComments: true, allowTrailingComma: false, allowEmptyContent: false },
    );
  } catch (error) {
    // The parser is recursive: only nesting exhausts the call stack.
    if (!(error instanceof RangeError)) throw error;
    deepest = Number.POSITIVE_INFINITY;
  }
  return { syntaxErrors, doubtful, deepest };
}

/** `CommaExpected` reads "comma expected". */
function syntaxMessage(code: ParseErrorCode): string {
  const name = printParseErrorCode(code);
  if (name === 'InvalidCommentToken') return 'comments are not accepted';
  return name.replace(/(?<=[a-z])[A-Z]/g, ' $&').toLowerCase();
}
