/** Any value that survives a round trip through JSON. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

export type JsonObject = { readonly [key: string]: Json };

/** `Array.isArray` that narrows a readonly array too. */
export function isJsonArray(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}

export function isJsonObject(value: Json): value is JsonObject {
  return typeof value === 'object' && value !== null && !isJsonArray(value);
}

/** The value of an own key of the object. */
export function own(object: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** Whether two values are equal, whatever the order of their keys. */
export function isSame(one: Json | undefined, other: Json | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  if (isJsonObject(one) && isJsonObject(other)) {
    const keys = Object.keys(one);
    return keys.length === Object.keys(other).length && keys.every((key) => isSame(own(one, key), own(other, key)));
  }
  if (isJsonArray(one) && isJsonArray(other)) {
    return one.length === other.length && one.every((item, index) => isSame(item, other[index]));
  }
  return one === other;
}

/**
 * A number that a double would change: `12345678901234567890`, `1.10`, `1E400`. It keeps its original text, which
 * `JSON.stringify` writes; its type is an object.
 */
type ExactNumber = { readonly rawJSON: string };

declare global {
  // As in ECMAScript 2026, in Node since 21; TypeScript's library lacks it so far.
  interface JSON {
    rawJSON(text: string): ExactNumber;
    isRawJSON(value: unknown): value is ExactNumber;
  }
}

export const isExactNumber = (value: unknown): value is ExactNumber => JSON.isRawJSON(value);

/**
 * A number token that a double may change: with an exponent, a trailing zero after the point, 16 digits, or a sign of
 * zero. It can match inside a string, which costs time but changes nothing.
 */
const MAY_BE_EXACT = /(?:^|[\s:,[])(?:-0(?![.\d])|-?(?:[\d.]{16,}|\d+(?:\.\d+)?[eE]|\d+\.\d*0(?![\d.])|0\.000000))/;

/** Like `JSON.parse`, but yields numbers that a double would change as `ExactNumber`. Throws `SyntaxError`. */
export function parseJson(text: string): Json {
  return keepExactNumbers(JSON.parse(text), text);
}

/**
 * The value from `JSON.parse` with exact numbers. Costs almost nothing if the text has no such number; otherwise a
 * hand-written parser reads the text again. The reviver of `JSON.parse` also gets the text of each number, but takes a
 * second for a mebibyte; this takes at most a tenth of that.
 */
export function keepExactNumbers(value: Json, text: string): Json {
  return MAY_BE_EXACT.test(text) ? new ExactReader(text).read() : value;
}

/** Parses text that is known to be valid JSON. */
class ExactReader {
  readonly #json: string;
  #at = 0;

  constructor(json: string) {
    this.#json = json;
  }

  read(): Json {
    switch (this.#next()) {
      case '{':
        return this.#readObject();
      case '[':
        return this.#readList();
      case '"':
        return this.#readString();
      case 't':
        return this.#skip(4, true);
      case 'f':
        return this.#skip(5, false);
      case 'n':
        return this.#skip(4, null);
      default:
        return this.#readNumber();
    }
  }

  /** The next character that is not a space. */
  #next(): string {
    while (this.#json.charCodeAt(this.#at) <= SPACE) this.#at += 1;
    return this.#json.charAt(this.#at);
  }

  #skip<Value>(characters: number, value: Value): Value {
    this.#at += characters;
    return value;
  }

  #readObject(): Json {
    const object: Record<string, Json> = {};
    for (this.#at += 1; this.#next() !== '}'; ) {
      const key = this.#readString();
      this.#next();
      this.#at += 1;
      const value = this.read();
      if (key !== '__proto__') object[key] = value;
      else Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
      if (this.#next() === ',') this.#at += 1;
    }
    return this.#skip(1, object);
  }

  #readList(): Json {
    const list: Json[] = [];
    for (this.#at += 1; this.#next() !== ']'; ) {
      list.push(this.read());
      if (this.#next() === ',') this.#at += 1;
    }
    return this.#skip(1, list);
  }

  #readString(): string {
    this.#next();
    const start = this.#at;
    const end = endOfString(this.#json, start);
    this.#at = end + 1;
    const text = this.#json.slice(start + 1, end);
    return text.includes('\\') ? JSON.parse(this.#json.slice(start, end + 1)) : text;
  }

  #readNumber(): Json {
    const start = this.#at;
    while (isOfNumber(this.#json.charCodeAt(this.#at))) this.#at += 1;
    const token = this.#json.slice(start, this.#at);
    const number = Number(token);
    // An integer beyond 2^53 is kept as text even if its double is the same: those of its neighbours are not.
    const isSame = String(number) === token && (Number.isSafeInteger(number) || !INTEGER.test(token));
    return isSame ? number : JSON.rawJSON(token);
  }
}

const SPACE = 0x20;
const INTEGER = /^-?\d+$/;

/** Digits, and `+-.Ee`. */
function isOfNumber(code: number): boolean {
  return (code >= 0x30 && code <= 0x39) || code === 0x2b || code === 0x2d || code === 0x2e || (code | 0x20) === 0x65;
}

/** Whether a JSON text nests lists and objects deeper than `levels`; reads any text, without recursion. */
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

/** Index of the closing quotation mark of the string that begins at `start`; past the end if there is none. */
export function endOfString(json: string, start: number): number {
  let index = start + 1;
  while (index < json.length && json[index] !== '"') index += json[index] === '\\' ? 2 : 1;
  return index;
}
