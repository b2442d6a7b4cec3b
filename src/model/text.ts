import type { Json } from './json.ts';
import type { SearchKeys } from './search-keys.ts';

/** The problem of a text that is not `isStorable`. */
export const UNSTORABLE = 'contains a NUL character or half of a surrogate pair, which cannot be stored';

/** A URL that can be shown, without its user name and password. */
export const withoutUser = (url: string): string => url.replace(/\/\/[^/]*@/, '//');

/** A setting's URL in a form that can be stored; null if unset. */
export const storableUrl = (url: string | undefined): string | null => (url === undefined ? null : withoutUser(url));

/** Whether every store keeps a text unchanged: PostgreSQL accepts neither NUL nor half of a surrogate pair. */
export function isStorable(text: string): boolean {
  return !text.includes('\0') && !/\p{Cs}/u.test(text);
}

/** The text in a form that PostgreSQL can store, without NUL and halves of surrogate pairs. */
export function storable(text: string): string {
  return isStorable(text) ? text : text.replace(/\0|\p{Surrogate}/gu, '\ufffd');
}

/** `isStorable` for every text and key in a value. */
export function isStorableValue(value: Json | undefined): boolean {
  if (typeof value === 'string') return isStorable(value);
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isStorableValue);
  return Object.entries(value).every(([key, item]) => isStorable(key) && isStorableValue(item as Json));
}

/**
 * One line of text for a person: characters that control a terminal, or the text direction of a chat, are escaped as in
 * JSON. Senders control some of what is shown.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (character) =>
    character
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}

/** `printable` for several lines. */
export function printableLines(text: string): string {
  // Every log line comes through here, and almost all are plain.
  return /^[\n -~]*$/.test(text) ? text : text.replace(/[^\n]+/g, printable);
}

/** The most stored characters of a value; a longer one ends with `CUT`. */
const MAX_SEARCH_VALUE = 200;
const CUT = '…';
const PLAIN_VALUE = new RegExp(`^[!-~]{1,${MAX_SEARCH_VALUE}}$`);

/** The stored and shown form: one line, storable by every store, and cut; undefined if nothing is left. */
export function toSearchValue(text: string): string | undefined {
  // Almost every key is an id or a name.
  if (PLAIN_VALUE.test(text)) return text;
  // One more than is kept, cut before cleaning: removed characters must not make room for later text.
  const line = text
    .slice(0, MAX_SEARCH_VALUE + 1)
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .trim();
  if (line === '') return undefined;
  const isCut = text.length > MAX_SEARCH_VALUE;
  // PostgreSQL stores no half of a surrogate pair; a cut can leave one too.
  return `${line.slice(0, MAX_SEARCH_VALUE)}${isCut ? CUT : ''}`.replace(/\p{Cs}/gu, '\ufffd');
}

/** The text that a search compares: the beginning of the value in lower case, whether or not the value was cut off. */
export function foldSearchValue(text: string): string {
  const value = toSearchValue(text) ?? '';
  return (value.length > MAX_SEARCH_VALUE ? value.slice(0, MAX_SEARCH_VALUE) : value).toLowerCase();
}

/** A stored key: name, compared text, and the value if that differs. */
export type SearchKeyRow = readonly [name: string, folded: string, value: string | null];

const NO_ROWS: readonly SearchKeyRow[] = [];

export function searchKeyRows(keys: SearchKeys | undefined): readonly SearchKeyRow[] {
  if (keys === undefined) return NO_ROWS;
  return Object.entries(keys).map(([name, value]) => {
    const folded = foldSearchValue(value);
    return [name, folded, folded === value ? null : value];
  });
}

/** Sorts after every text with this prefix, in byte order. */
export function endOfPrefix(text: string): string {
  return `${text}\u{10ffff}`;
}

/** Marks sender content, or a flow's result of it, in answer schemas: programs that must not read it leave it out. */
export const CONTENT_MARK = 'x-sluice-content';

/** For the text of an element or the value of an attribute. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
