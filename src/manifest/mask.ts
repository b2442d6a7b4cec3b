import { LRUCache } from 'lru-cache';
import { mapStrings } from '../expressions/json-path.ts';
import type { Json } from '../model/json.ts';
import { type Search, searchFor } from './spellings.ts';

/** Shown in place of a secret's value. */
export const MASK = '***';

/** Names of headers, parameters and fields that contain a credential. */
export const CREDENTIAL_NAME =
  /auth(?!or\b)|cookie|token|secret|passw|passphrase|pwd|credential|jwt|assertion|session|bearer|signature|(api|access|private|subscription|webhook)[-_]?key|^(sig|key|pin|otp|pass)$/i;

/** The undecoded pieces of a query; a piece without a name is only a value. */
export function queryOf(search: string): { readonly name: string | undefined; readonly value: string }[] {
  return search
    .replace(/^\?/, '')
    .split('&')
    .map((piece) => {
      const at = piece.indexOf('=');
      return at === -1 ? { name: undefined, value: piece } : { name: piece.slice(0, at), value: piece.slice(at + 1) };
    });
}

/** The password of a URL, and the values of its query whose names suggest credentials; decoded. */
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
    // A malformed text is echoed unchanged, so it is masked unchanged.
    return text;
  }
}

/**
 * An absolute URL in a form that can be stored and shown: user information, query values and the fragment are masked. A
 * URL that is already masked stays unchanged.
 */
export function maskUrl(url: string): string {
  const [, origin = '', path = '', search, fragment] =
    /^([^/?#]*\/\/[^/?#]*)?([^?#]*)(\?[^#]*)?(#.*)?$/s.exec(url) ?? [];
  const query = search === undefined ? '' : `?${maskQuery(search.slice(1))}`;
  return `${origin.replace(/\/\/.*@/s, `//${MASK}@`)}${path}${query}${fragment === undefined ? '' : `#${MASK}`}`;
}

/** Like `maskUrl`, but keeps the values of its query whose names suggest no credential. */
export function maskCredentials(url: string): string {
  const at = url.indexOf('?');
  if (at === -1) return maskUrl(url);
  return `${maskUrl(url.slice(0, at))}?${maskQuery(url.slice(at + 1), (name) => !CREDENTIAL_NAME.test(name))}`;
}

/**
 * A text that was refused as a URL, so it may not be one: a password in it may contain `/`, `?` or `@`, and `://` or the
 * host may be missing. Everything before the last `@` counts as user information; text after a colon counts as a
 * password unless it is a port.
 */
export function maskRefusedUrl(text: string): string {
  const [, scheme = '', rest = ''] = /^([a-z][a-z0-9+.-]*:\/\/)?(.*)$/is.exec(text) ?? [];
  const at = rest.lastIndexOf('@');
  if (at !== -1) return scheme + MASK + maskUrl(rest.slice(at));
  return scheme + maskUrl(rest.replace(/:(?!\d{1,5}(?:[/?#]|$))[^/?#]+/, `:${MASK}`));
}

/** Keeps names and masks values; `keeps` decides by name whether a value stays too. */
export function maskQuery(query: string, keeps: (name: string) => boolean = () => false): string {
  if (query === '') return '';
  const pieces = queryOf(query).map(({ name, value }) => {
    if (name === undefined) return value === '' ? '' : MASK;
    return `${name}=${keeps(decoded(name)) ? value : MASK}`;
  });
  return pieces.join('&');
}

/** Whether a stored text contains a mask in place of a secret. */
export function isMasked(text: string): boolean {
  return text === MASK || maskedPlaces.some((place) => place.test(text));
}

const maskedPlaces = [/^[a-z]+:\/\/\*\*\*@/i, /^[a-z]+:.*[?&](?:[^=&#]*=)?\*\*\*(?:&|#|$)/i, /^[a-z]+:.*#\*\*\*$/i];

/** Masks the secrets that it was made for, in strings and keys. */
type Masker = (value: Json) => Json;

// A shorter value would blot out half of every text, and protects nothing.
const MIN_SECRET_LENGTH = 4;
const MIN_PART_LENGTH = 8;
const MIN_WORD_LENGTH = 16;
// As many sets of secrets as a large installation has steps with secrets.
const KEPT_MASKERS = 500;
const maskers = new LRUCache<string, Masker>({ max: KEPT_MASKERS });

const PLAIN_WORD = /^[A-Z]?[a-z]*([-_][A-Z]?[a-z]+)*$/;

/**
 * Compiles the secrets of a step. Masks each secret and its parts (the credential of `Bearer abc`, the pairs of a
 * cookie, user and password of Basic, path, segments and query values of a URL), as plain text, percent-encoded or
 * escaped for JSON or HTML in any mix, in base64 or base64url at any alignment, and in hex; a secret also in lower case,
 * as in the host of a URL, if it is as long as other parts. A secret, and a query value whose name suggests one, needs 4 characters; any other part 8, or
 * 16 if it looks like a plain word. Takes time linear in the text, see `searchFor`.
 */
export function maskerOf(secrets: readonly string[]): Masker {
  if (secrets.length === 0) return asItIs;
  const key = JSON.stringify(secrets);
  const known = maskers.get(key);
  if (known !== undefined) return known;
  const made = compile(secrets);
  maskers.set(key, made);
  return made;
}

const asItIs: Masker = (value) => value;

function compile(secrets: readonly string[]): Masker {
  const texts = [...new Set([...secrets.flatMap(textsOf), ...secrets.flatMap(inHost)])];
  if (texts.length === 0) return asItIs;
  const search = searchFor(texts);
  const mask = (text: string) => maskText(text, search);
  return (value) => mapStrings(value, mask, mask);
}

/** Masks overlapping occurrences as one, so that no part of either stays. */
function maskText(text: string, search: Search): string {
  let masked = '';
  let end = 0;
  search(text, (from, to) => {
    if (from >= end) masked += text.slice(end, from) + MASK;
    end = Math.max(end, to);
  });
  return end === 0 ? text : masked + text.slice(end);
}

/** The secret and the parts of it that need protection. */
function textsOf(secret: string): string[] {
  const [, credential = ''] = /^[A-Za-z][\w-]* +(\S+)$/.exec(secret) ?? [];
  const url = /^https?:/i.test(secret) && URL.canParse(secret) ? new URL(secret) : undefined;
  const written = url === undefined ? [] : [url.href];
  const whole = [secret, ...written, credential, ...basicOf(secret), ...credentialsOf(secret)];
  const values =
    url === undefined ? [] : [url.search.slice(1), ...queryOf(url.search).map(({ value }) => decoded(value))];
  // Only parts that do not look like a word: a flow reads the masked answers, and `customers` must stay.
  const parts = (url === undefined ? pairsOf(secret) : pathPartsOf(url)).filter(
    (part) => !PLAIN_WORD.test(part) || part.length >= MIN_WORD_LENGTH,
  );
  return [
    ...whole.filter(({ length }) => length >= MIN_SECRET_LENGTH),
    ...[...values, ...parts].filter(({ length }) => length >= MIN_PART_LENGTH),
  ];
}

/** A secret as it is in the host of a URL, where parsing makes it lower-case; none that may be a word of other texts. */
function inHost(secret: string): string[] {
  const isWord = PLAIN_WORD.test(secret) && secret.length < MIN_WORD_LENGTH;
  return secret.length < MIN_PART_LENGTH || isWord || NOT_IN_HOST.test(secret) ? [] : [secret.toLowerCase()];
}

const NOT_IN_HOST = /[\s#%/:<>?@[\\\]^|]/;

/** User and password together, and the password alone. */
function basicOf(secret: string): string[] {
  const [, encoded = ''] = /^basic +([\w+/-]+=*)$/i.exec(secret) ?? [];
  const pair = Buffer.from(encoded, 'base64').toString();
  return pair.includes(':') ? [pair, pair.slice(pair.indexOf(':') + 1)] : [];
}

/** The path and its segments; not the host, which errors name. */
function pathPartsOf({ pathname, username }: URL): string[] {
  return [pathname.slice(1), ...pathname.split('/'), username].map(decoded);
}

/** The values of `name=value` in a cookie or in the parameters of an authorization. */
function pairsOf(secret: string): string[] {
  const [, parameters = ''] = /^(?:[A-Za-z][\w-]* +)?(.*)$/s.exec(secret) ?? [];
  return parameters.split(/[;,&]\s*/).flatMap((pair) => {
    const at = pair.indexOf('=');
    // Text that ends in "=" is base64, not a pair.
    return at < 1 || /^=*$/.test(pair.slice(at)) ? [] : [pair.slice(at + 1).replace(/^"(.*)"$/, '$1')];
  });
}
