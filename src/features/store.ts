import { bookStore } from '../store/decisions/books.ts';
import type { StorePart } from '../store/part.ts';

/** What features add to the store. */
export const storeParts: readonly StorePart[] = [bookStore];
