import { hash } from 'node:crypto';

/**
 * Names texts from outside by 128 bits of SHA-256, in the form of a UUID, so that texts of any length fit into an index.
 * The length of each goes before it: no two lists of texts are run together. Taken over UTF-16, since UTF-8 would make
 * one text of several that are not well-formed.
 */
export function digestOf(...texts: readonly string[]): string {
  const hex = hash('sha256', Buffer.from(texts.map((text) => `${text.length}:${text}`).join(''), 'utf16le'));
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`;
}
