import type { Json } from './json.ts';
import type { SearchKeys } from './search-keys.ts';

/** Says of a text that is not `isStorable` what is wrong with it. */
export const UNSTORABLE = 'contains a NUL character or half of a surrogate pair, which cannot be stored';

/** A URL that may be shown: who reads it does not learn the password in it. */
export const withoutUser = (url: string): string => url.replace(/\/\/[^/]*@/, '//');

/** A setting's URL as it may be stored; null where none is set. */
export const storableUrl = (url: string | undefined): string | null => (url === undefined ? null : withoutUser(url));

/** Whether every store keeps a text as it is: PostgreSQL takes neither NUL nor half of a surrogate pair. */
export function isStorable(text: string): boolean {
  return !text.includes('\0') && !/\p{Cs}/u.test(text);
}

/** As PostgreSQL can keep it: neither NUL nor half of a surrogate pair is text there. */
export function storable(text: string): string {
  return isStorable(text) ? text : text.replace(/\0|\p{Surrogate}/gu, '\ufffd');
}

/** The same of every text and every key in a value. */
export function isStorableValue(value: Json | undefined): boolean {
  if (typeof value === 'string') return isStorable(value);
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isStorableValue);
  return Object.entries(value).every(([key, item]) => isStorable(key) && isStorableValue(item as Json));
}

/**
 * One line of text for a person: what steers a terminal, or turns the direction in which a chat shows text, is escaped as JSON
 * does it. Senders control some of what is shown.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (character) =>
    character
      .split('')
      .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}

/** The same for several lines. */
export function printableLines(text: string): string {
  // The log passes through here, and nearly all of it is plain.
  return /^[\n -~]*$/.test(text) ? text : text.replace(/[^\n]+/g, printable);
}

/** Characters of a value that are kept; a longer one ends with `CUT`. */
const MAX_SEARCH_VALUE = 200;
const CUT = '…';
const PLAIN_VALUE = new RegExp(`^[!-~]{1,${MAX_SEARCH_VALUE}}$`);

/** The text as it is kept and shown: on one line, storable by every store, and cut; undefined where nothing is left. */
export function toSearchValue(text: string): string | undefined {
  // Nearly every key is an id or a name.
  if (PLAIN_VALUE.test(text)) return text;
  // More than is kept: what is taken out must not make room for what a reader of the whole text would not find there.
  const line = text
    .slice(0, MAX_SEARCH_VALUE + 1)
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .trim();
  if (line === '') return undefined;
  const isCut = text.length > MAX_SEARCH_VALUE;
  // PostgreSQL stores no half of a surrogate pair, which a cut may leave too.
  return `${line.slice(0, MAX_SEARCH_VALUE)}${isCut ? CUT : ''}`.replace(/\p{Cs}/gu, '\ufffd');
}

/** The text that a search compares: the beginning of the value in lower case, whether or not the value was cut off. */
export function foldSearchValue(text: string): string {
  const value = toSearchValue(text) ?? '';
  return (value.length > MAX_SEARCH_VALUE ? value.slice(0, MAX_SEARCH_VALUE) : value).toLowerCase();
}

/** A key as stores keep it: name, what is compared, and the value where that differs. */
export type SearchKeyRow = readonly [name: string, folded: string, value: string | null];

const NO_ROWS: readonly SearchKeyRow[] = [];

export function searchKeyRows(keys: SearchKeys | undefined): readonly SearchKeyRow[] {
  if (keys === undefined) return NO_ROWS;
  return Object.entries(keys).map(([name, value]) => {
    const folded = foldSearchValue(value);
    return [name, folded, folded === value ? null : value];
  });
}

/** After every text that begins with the text, as bytes sort. */
export function endOfPrefix(text: string): string {
  return `${text}\u{10ffff}`;
}

/**
 * The mark, in the schemas of answers, of what a sender wrote or what a flow made of it: a program that must not read that
 * leaves it out.
 */
export const CONTENT_MARK = 'x-sluice-content';

/** As the text of an element or the value of an attribute. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
