import type { StorePart } from '../store/part.ts';
import { booksStore } from './books/store.ts';
import { reconcileStore } from './reconcile/store.ts';

/** What features add to the store. */
export const storeParts: readonly StorePart[] = [booksStore, reconcileStore];
