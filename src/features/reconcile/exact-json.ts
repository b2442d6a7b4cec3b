import { endOfString, type Json } from '../../model/json.ts';

/**
 * Possible original texts of the value at a path of keys in a JSON document, as a publisher may have written it without
 * white space; likeliest first: spelled as in the document, so that numbers and escapes stay; as JavaScript; as Rails.
 */
export function exactTexts(document: string, path: readonly string[], value: Json): readonly [string, ...string[]] {
  const plain = JSON.stringify(value);
  const found = textAt(document, path);
  const [first = plain, ...others] = new Set([...(found === undefined ? [] : [found]), plain, inRails(plain)]);
  return [first, ...others];
}

/** No recursion, no tree: a payload of many mebibytes has millions of values, as deep as its sender likes. */
function textAt(document: string, path: readonly string[]): string | undefined {
  let at = afterSpace(document, 0);
  for (const key of path) {
    const found = startOfValue(document, at, key);
    if (found === undefined) return undefined;
    at = found;
  }
  return withoutSpace(document, at, endOf(document, at));
}

/** Where the value of a key of the object at `start` begins; of equal keys the last counts, as in `JSON.parse`. */
function startOfValue(json: string, start: number, key: string): number | undefined {
  if (json[start] !== '{') return undefined;
  let found: number | undefined;
  for (let at = afterSpace(json, start + 1); json[at] === '"'; ) {
    const end = endOf(json, at);
    const value = afterSpace(json, afterSpace(json, end) + 1);
    if (JSON.parse(json.slice(at, end)) === key) found = value;
    at = afterSpace(json, afterSpace(json, endOf(json, value)) + 1);
  }
  return found;
}

/** The end of the value that begins at `start`, in a text that is known to be JSON. */
function endOf(json: string, start: number): number {
  if (json[start] === '"') return endOfString(json, start) + 1;
  let depth = 0;
  for (let at = start; at < json.length; at += 1) {
    const character = json[at] ?? '';
    if (character === '"') at = endOfString(json, at);
    else if (character === '{' || character === '[') depth += 1;
    else if (character === '}' || character === ']') {
      depth -= 1;
      if (depth <= 0) return depth === 0 ? at + 1 : at;
    } else if (depth === 0 && (character === ',' || SPACE.has(character))) return at;
  }
  return json.length;
}

const SPACE: ReadonlySet<string> = new Set([' ', '\t', '\n', '\r']);

function afterSpace(json: string, start: number): number {
  let at = start;
  while (SPACE.has(json[at] ?? '')) at += 1;
  return at;
}

function withoutSpace(json: string, start: number, end: number): string {
  const kept: string[] = [];
  let from = start;
  for (let at = start; at < end; ) {
    if (json[at] === '"') at = endOfString(json, at) + 1;
    else if (SPACE.has(json[at] ?? '')) {
      kept.push(json.slice(from, at));
      from = afterSpace(json, at);
      at = from;
    } else at += 1;
  }
  kept.push(json.slice(from, end));
  return kept.join('');
}

/** ActiveSupport escapes characters that HTML and JavaScript could misread: its `JSON::Encoding`, read 2026-11. */
function inRails(json: string): string {
  return json.replace(/[<>&\u2028\u2029]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
