import { slugOf } from './markdown.ts';
import { type Page, plain } from './pages.ts';

/** A part of a page, from one heading to the next. */
interface Part {
  readonly id: number;
  readonly url: string;
  readonly page: string;
  readonly heading: string;
  readonly text: string;
}

/** What the page searches in: every part of every page, as a script that also works where the site is opened from a disk. */
export function searchData(pages: readonly Page[]): string {
  const parts = pages.flatMap(partsOf).map((part, id): Part => ({ id, ...part }));
  return `window.sluicePages = ${JSON.stringify(parts)};\n`;
}

function partsOf({ url, title, text }: Page): Omit<Part, 'id'>[] {
  // Headings in blocks of code are comments of a shell.
  const blocks = text.split(/(^```[\s\S]*?^```)/m);
  const marked = blocks.map((block) => (block.startsWith('```') ? block.replace(/^#/gm, '\\#') : block)).join('');
  return marked.split(/^(?=#{1,4} )/m).flatMap((part) => {
    const [, marks, heading] = /^(#{1,4}) (.+)\n/.exec(part) ?? [];
    if (marks === undefined || heading === undefined) return [];
    const words = plain(
      part
        .replace(/^.*\n/, '')
        .replace(/^```.*$/gm, '')
        .replace(/[|]|-{3,}/g, ' '),
    );
    const anchor = marks === '#' ? '' : `#${slugOf(plain(heading))}`;
    return [{ url: `${url}${anchor}`, page: title, heading: plain(heading), text: words }];
  });
}
