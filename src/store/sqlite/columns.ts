/** What a column takes; bytes travel apart. */
export type SqlValue = string | number | null;
