/** Values by which people find a delivery and its run, such as an order number, by name. */
export type SearchKeys = Readonly<Record<string, string>>;

/** The most keys of a trigger. */
export const MAX_SEARCH_KEYS = 8;

/** Names are columns of the page and parameters of the API. */
export const SEARCH_KEY_NAME = /^[A-Za-z][A-Za-z0-9_-]{0,31}$/;

const MAX_KEY = 1000;

/** Reads `order:SO-1010`, a name and a whole value. */
export function readSearchKey(text: string): SearchKeys | undefined {
  const [, name, value] = /^([A-Za-z][\w-]{0,31}):(.*\S.*)$/s.exec(text) ?? [];
  return name === undefined || value === undefined || value.length > MAX_KEY ? undefined : { [name]: value };
}
