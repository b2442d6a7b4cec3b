import type { Json } from './json.ts';

/** Says of a text that is not `isStorable` what is wrong with it. */
export const UNSTORABLE = 'contains a NUL character or half of a surrogate pair, which cannot be stored';

/** Whether every store keeps a text as it is: PostgreSQL takes neither NUL nor half of a surrogate pair. */
export function isStorable(text: string): boolean {
  return !text.includes('\0') && !/\p{Cs}/u.test(text);
}

/** The same of every text and every key in a value. */
export function isStorableValue(value: Json | undefined): boolean {
  if (typeof value === 'string') return isStorable(value);
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isStorableValue);
  return Object.entries(value).every(([key, item]) => isStorable(key) && isStorableValue(item as Json));
}
