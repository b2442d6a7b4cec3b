import type { StorePart } from '../store/part.ts';
import { booksStore } from './books/store.ts';
import { consumersStore } from './consumers/store.ts';
import { reconcileStore } from './reconcile/store.ts';
import { rhythmStore } from './rhythm/store.ts';

/** What features add to the store. */
export const storeParts: readonly StorePart[] = [booksStore, reconcileStore, consumersStore, rhythmStore];
