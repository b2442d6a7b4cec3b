export { fromJson, toError, toJson } from '../json-columns.ts';

/** What a column takes; bytes travel apart. */
export type SqlValue = string | number | null;
