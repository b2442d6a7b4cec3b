import { hash } from 'node:crypto';

/** A very long text, one that a database may not keep as it is, or one that looks like a digest, is known by its digest. */
export function keptText(text: string): string {
  const isPlain = text.length <= 255 && !/^sha256:|\p{Surrogate}|\0/u.test(text);
  return isPlain ? text : `sha256:${hash('sha256', Buffer.from(text, 'utf16le'))}`;
}
