/** What people look for a delivery and its run by, such as the number of an order: a value for each name. */
export type SearchKeys = Readonly<Record<string, string>>;

/** A trigger names at most so many. */
export const MAX_SEARCH_KEYS = 8;

/** Names are columns of the page and parameters of the API. */
export const SEARCH_KEY_NAME = /^[A-Za-z][A-Za-z0-9_-]{0,31}$/;
