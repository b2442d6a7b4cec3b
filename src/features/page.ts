import type { PagePart } from '../dashboard/web/part.ts';
import { booksPage } from './books/page.tsx';

/** What features add to the page, in the order in which it shows them. */
export const pageParts: readonly PagePart[] = [booksPage];
