import { LRUCache } from 'lru-cache';
import { mapStrings } from '../expressions/json-path.ts';
import type { Json } from '../model/json.ts';

/** Shown in place of a secret's value. */
export const MASK = '***';

/** Names of headers, parameters and fields that hold a credential. */
export const CREDENTIAL_NAME =
  /auth(?!or\b)|cookie|token|secret|passw|passphrase|pwd|credential|jwt|assertion|session|bearer|signature|(api|access|private|subscription|webhook)[-_]?key|^(sig|key|pin|otp|pass)$/i;

/** The pieces of a query as written; a piece without a name is a value alone. */
export function queryOf(search: string): { readonly name: string | undefined; readonly value: string }[] {
  return search
    .replace(/^\?/, '')
    .split('&')
    .map((piece) => {
      const at = piece.indexOf('=');
      return at === -1 ? { name: undefined, value: piece } : { name: piece.slice(0, at), value: piece.slice(at + 1) };
    });
}

/** The password of a URL, and those values of its query that are credentials by their names; decoded. */
export function credentialsOf(url: string): string[] {
  if (!URL.canParse(url)) return [];
  const { password, search } = new URL(url);
  const named = queryOf(search).filter(({ name = '' }) => CREDENTIAL_NAME.test(decoded(name)));
  return [password, ...named.map(({ value }) => value)].map(decoded).filter((value) => value !== '');
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // As it is: what cannot be decoded is echoed as it came.
    return text;
  }
}

/**
 * An absolute URL as it may be stored and shown: user information, the values of the query and the fragment masked. One
 * that is masked already stays as it is.
 */
export function maskUrl(url: string): string {
  const [, origin = '', path = '', search, fragment] =
    /^([^/?#]*\/\/[^/?#]*)?([^?#]*)(\?[^#]*)?(#.*)?$/s.exec(url) ?? [];
  const query = search === undefined ? '' : `?${maskQuery(search.slice(1))}`;
  return `${origin.replace(/\/\/.*@/s, `//${MASK}@`)}${path}${query}${fragment === undefined ? '' : `#${MASK}`}`;
}

/** Names stay, values are masked; `keeps` says of a name whether its value stays too. */
export function maskQuery(query: string, keeps: (name: string) => boolean = () => false): string {
  if (query === '') return '';
  const pieces = queryOf(query).map(({ name, value }) => {
    if (name === undefined) return value === '' ? '' : MASK;
    return `${name}=${keeps(decoded(name)) ? value : MASK}`;
  });
  return pieces.join('&');
}

/** Whether a text that was stored holds a mask in the place of a secret. */
export function isMasked(text: string): boolean {
  return text === MASK || maskedPlaces.some((place) => place.test(text));
}

const maskedPlaces = [/^[a-z]+:\/\/\*\*\*@/i, /^[a-z]+:.*[?&](?:[^=&#]*=)?\*\*\*(?:&|#|$)/i, /^[a-z]+:.*#\*\*\*$/i];

/** Masks the secrets that it was made for, in strings and keys. */
type Masker = (value: Json) => Json;

// A shorter value would blot out half of every text, and guards nothing.
const MIN_SECRET_LENGTH = 4;
const MIN_PART_LENGTH = 8;
const MIN_WORD_LENGTH = 16;
// As many sets of secrets as a large installation has steps that hold any.
const KEPT_MASKERS = 500;
const maskers = new LRUCache<string, Masker>({ max: KEPT_MASKERS });

const PLAIN_WORD = /^[A-Z]?[a-z]*([-_][A-Z]?[a-z]+)*$/;

/**
 * Compiles the secrets of a step. Masked are each secret and its parts (the credential of `Bearer abc`, the pairs of a
 * cookie, user and password of Basic, path, segments and query values of a URL), as plain text, percent-encoded or
 * escaped for JSON or HTML in any mix, in base64 or base64url at any alignment, and in hex. A secret, and a query value
 * whose name says that it is one, needs 4 characters; any other part 8, or 16 where it looks like a plain word. The time
 * it takes is linear in the text.
 */
export function maskerOf(secrets: readonly string[]): Masker {
  const key = JSON.stringify(secrets);
  const known = maskers.get(key);
  if (known !== undefined) return known;
  const made = compile(secrets);
  maskers.set(key, made);
  return made;
}

function compile(secrets: readonly string[]): Masker {
  const texts = [...new Set(secrets.flatMap(textsOf))];
  if (texts.length === 0) return (value) => value;
  const spellings = texts.flatMap((text) => [spelled(text), hexOf(text), ...base64Of(text)]);
  // The longest first: of those that start at one place, the alternation takes the first that fits.
  const pattern = [...new Set(spellings)].sort((one, other) => other.length - one.length).join('|');
  const search = new RegExp(pattern, 'g');
  const mask = (text: string) => maskText(text, search);
  return (value) => mapStrings(value, mask, mask);
}

/** Occurrences that overlap are masked as one, so that no rest of either stays. */
function maskText(text: string, search: RegExp): string {
  let masked = '';
  let end = 0;
  search.lastIndex = 0;
  for (let found = search.exec(text); found !== null; found = search.exec(text)) {
    if (found.index >= end) masked += text.slice(end, found.index) + MASK;
    end = Math.max(end, search.lastIndex);
    search.lastIndex = found.index + 1;
  }
  return end === 0 ? text : masked + text.slice(end);
}

/** The secret and those of its parts that are worth guarding. */
function textsOf(secret: string): string[] {
  const [, credential = ''] = /^[A-Za-z][\w-]* +(\S+)$/.exec(secret) ?? [];
  const url = /^https?:/i.test(secret) && URL.canParse(secret) ? new URL(secret) : undefined;
  const whole = [secret, credential, ...basicOf(secret), ...credentialsOf(secret)];
  const values =
    url === undefined ? [] : [url.search.slice(1), ...queryOf(url.search).map(({ value }) => decoded(value))];
  // Only what does not look like a word: a flow reads the answers that are masked, and `customers` has to stay.
  const parts = (url === undefined ? pairsOf(secret) : pathPartsOf(url)).filter(
    (part) => !PLAIN_WORD.test(part) || part.length >= MIN_WORD_LENGTH,
  );
  return [
    ...whole.filter(({ length }) => length >= MIN_SECRET_LENGTH),
    ...[...values, ...parts].filter(({ length }) => length >= MIN_PART_LENGTH),
  ];
}

/** User and password together, and the password alone. */
function basicOf(secret: string): string[] {
  const [, encoded = ''] = /^basic +([\w+/-]+=*)$/i.exec(secret) ?? [];
  const pair = Buffer.from(encoded, 'base64').toString();
  return pair.includes(':') ? [pair, pair.slice(pair.indexOf(':') + 1)] : [];
}

/** The path and its segments, and not the host, which errors name. */
function pathPartsOf({ pathname, username }: URL): string[] {
  return [pathname.slice(1), ...pathname.split('/'), username].map(decoded);
}

/** The values of `name=value` in a cookie or in the parameters of an authorization. */
function pairsOf(secret: string): string[] {
  const [, parameters = ''] = /^(?:[A-Za-z][\w-]* +)?(.*)$/s.exec(secret) ?? [];
  return parameters.split(/[;,&]\s*/).flatMap((pair) => {
    const at = pair.indexOf('=');
    // What ends in "=" is base64, and no pair.
    return at < 1 || /^=*$/.test(pair.slice(at)) ? [] : [pair.slice(at + 1).replace(/^"(.*)"$/, '$1')];
  });
}

const NAMED_ENTITIES: Readonly<Record<string, string>> = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot', "'": 'apos' };
const JSON_LETTERS: Readonly<Record<string, string>> = { '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't' };

/** A pattern for a text in which each character may be escaped or not: a server escapes what it likes. */
function spelled(text: string): string {
  return (text.match(/\\+|[\s\S]/gu) ?? []).map(spelledPiece).join('');
}

// Every repetition has a bound, so that no text takes more than linear time; twice encoded is found, deeper is not.
function spelledPiece(piece: string): string {
  const [char = ''] = piece;
  if (char === '\\') {
    const { length } = piece;
    return `(?:\\\\{${length},${length * 4}}|(?:%(?:25){0,2}5[cC]|&#0{0,2}92;|&#[xX]0{0,2}5[cC];){${length}})`;
  }
  const units = [...Array(piece.length).keys()].map((at) => `\\\\{1,3}u${anyCaseHex(piece.charCodeAt(at), 4)}`);
  const bytes = [...Buffer.from(piece)].map((byte) => `%(?:25){0,2}${anyCaseHex(byte, 2)}`);
  const spellings = [escapeRegExp(piece), bytes.join(''), units.join('')];
  if (piece === ' ') spellings.push('\\+');
  if (/["'/]/.test(piece)) spellings.push(`\\\\{1,3}${piece}`);
  const letter = JSON_LETTERS[piece];
  if (letter !== undefined) spellings.push(`\\\\{1,3}${letter}`);
  if (/^[!-/:-@[-`{-~]$/.test(piece)) spellings.push(...entitiesOf(piece));
  return `(?:${spellings.join('|')})`;
}

function entitiesOf(char: string): string[] {
  const code = char.charCodeAt(0);
  const name = NAMED_ENTITIES[char];
  return [`&#0{0,2}${code};`, `&#[xX]0{0,2}${anyCaseHex(code, 2)};`, ...(name === undefined ? [] : [`&${name};`])];
}

function hexOf(text: string): string {
  return [...Buffer.from(text)].map((byte) => anyCaseHex(byte, 2)).join('');
}

function anyCaseHex(value: number, digits: number): string {
  const hex = value.toString(16).padStart(digits, '0');
  return hex.replace(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`);
}

/**
 * The text wherever it is in what was encoded: behind bytes that fill up a group of three, or one or two more. The
 * digits that only the text decides are searched for; those at its ends that hold bits of its neighbours too go with
 * them where they are behind.
 */
function base64Of(text: string): string[] {
  const bytes = Buffer.from(text);
  return [0, 1, 2].map((offset) => {
    const digits = Buffer.concat([Buffer.alloc(offset), bytes])
      .toString('base64')
      .replace(/=+$/, '');
    const isShared = (offset + bytes.length) % 3 !== 0;
    const own = digits.slice(offset === 0 ? 0 : offset + 1, isShared ? -1 : undefined);
    const pattern = [...own].map(spelledDigit).join('');
    return isShared ? `${pattern}(?:${BASE64_DIGIT}(?:=|%(?:25){0,2}3[dD]|\\\\u003[dD]){0,2})?` : pattern;
  });
}

const BASE64_DIGIT = '(?:[A-Za-z0-9+/_-]|%(?:25){0,2}2[bBfF])';

function spelledDigit(digit: string): string {
  if (digit === '+') return '(?:[+-]|%(?:25){0,2}2[bB]|\\\\{1,3}u002[bB])';
  if (digit === '/') return '(?:[/_]|%(?:25){0,2}2[fF]|\\\\{1,3}/|\\\\{1,3}u002[fF])';
  return digit;
}

function escapeRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/-]/g, '\\$&');
}
