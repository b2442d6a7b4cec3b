/** Any value that survives a round trip through JSON. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

export type JsonObject = { readonly [key: string]: Json };

/**
 * A number that a double would change: `12345678901234567890`, `1.10`, `1E400`. It keeps the text that it was sent as, and
 * `JSON.stringify` writes that text; to the type it looks like an object.
 */
export type ExactNumber = { readonly rawJSON: string };

declare global {
  // As in ECMAScript 2026, in Node from 21 on; TypeScript's library does not have it yet.
  interface JSON {
    rawJSON(text: string): ExactNumber;
    isRawJSON(value: unknown): value is ExactNumber;
  }
}

export const exactNumber = (text: string): ExactNumber => JSON.rawJSON(text);
export const isExactNumber = (value: unknown): value is ExactNumber => JSON.isRawJSON(value);

/**
 * A number token that a double may change: with an exponent, a trailing zero behind the point, 16 digits, or a sign of
 * zero. It may find one inside a string, which costs time and changes nothing.
 */
const MAY_BE_EXACT = /(?:^|[\s:,[])(?:-0(?![.\d])|-?(?:[\d.]{16,}|\d+(?:\.\d+)?[eE]|\d+\.\d*0(?![\d.])|0\.000000))/;

/** As `JSON.parse`, but numbers that a double would change come as `ExactNumber`. Throws `SyntaxError`. */
export function parseJson(text: string): Json {
  return keepExactNumbers(JSON.parse(text), text);
}

/**
 * What `JSON.parse` made of the text, with its numbers exact.
 *
 * The reviver of `JSON.parse` is told each number's text too, and takes a second over a mebibyte; this takes 60 ms at most,
 * and next to nothing where the text has no such number.
 */
export function keepExactNumbers(value: Json, text: string): Json {
  if (!MAY_BE_EXACT.test(text)) return value;
  const marked = markExactNumbers(text);
  return marked === undefined ? value : withExactNumbers(JSON.parse(marked));
}

// No sender knows it, so no string of the data begins with it.
const MARK = `exact-${crypto.randomUUID()}:`;

/** The text with every number that a double would change as a marked string; undefined where there is none. */
function markExactNumbers(json: string): string | undefined {
  let marked = '';
  let copied = 0;
  for (let index = 0; index < json.length; index += 1) {
    const code = json.charCodeAt(index);
    if (code === QUOTE) {
      index = endOfString(json, index);
    } else if (code === MINUS || isDigit(code)) {
      const end = endOfNumber(json, index);
      const token = json.slice(index, end);
      if (changesAsDouble(token)) {
        marked += `${json.slice(copied, index)}"${MARK}${token}"`;
        copied = end;
      }
      index = end - 1;
    }
  }
  return copied === 0 ? undefined : marked + json.slice(copied);
}

const QUOTE = 0x22;
const MINUS = 0x2d;
const isDigit = (code: number) => code >= 0x30 && code <= 0x39;

function endOfNumber(json: string, start: number): number {
  let end = start + 1;
  // Digits and "+-.Ee": the text is known to be JSON, so nothing else can stand here.
  while (end < json.length && (isDigit(json.charCodeAt(end)) || '+-.Ee'.includes(json.charAt(end)))) end += 1;
  return end;
}

function changesAsDouble(token: string): boolean {
  const number = Number(token);
  // An integer beyond 2^53 counts as changed even where the double is the same: its neighbours are.
  return (
    String(number) !== token || (Number.isInteger(number) && !Number.isSafeInteger(number) && !token.includes('e'))
  );
}

/** Changes the value in place: it is not anybody else's yet. */
function withExactNumbers(value: Json): Json {
  if (typeof value === 'string') return value.startsWith(MARK) ? exactNumber(value.slice(MARK.length)) : value;
  if (typeof value !== 'object' || value === null) return value;
  for (const key of Object.keys(value)) {
    const item: Json = Reflect.get(value, key);
    const made = withExactNumbers(item);
    if (made !== item)
      Object.defineProperty(value, key, { value: made, enumerable: true, configurable: true, writable: true });
  }
  return value;
}

/** Whether lists and objects are nested deeper than that in a JSON text: read without recursion, so that any text may come. */
export function isNestedDeeper(json: string, levels: number): boolean {
  let depth = 0;
  for (let index = 0; index < json.length; index += 1) {
    switch (json[index]) {
      case '"':
        index = endOfString(json, index);
        break;
      case '[':
      case '{':
        depth += 1;
        if (depth > levels) return true;
        break;
      case ']':
      case '}':
        depth -= 1;
        break;
    }
  }
  return false;
}

function endOfString(json: string, start: number): number {
  let index = start + 1;
  while (index < json.length && json[index] !== '"') index += json[index] === '\\' ? 2 : 1;
  return index;
}
