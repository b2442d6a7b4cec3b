import type { FunctionComponent } from 'preact';

/** What a feature adds to the page. `features/page.ts` lists the parts. */
export interface PagePart {
  readonly name: string;
  /** A panel of the overview. */
  readonly overview?: FunctionComponent;
}
