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

/** The search index: every part of every page, as a script that also works on a site opened from a disk. */
export function searchData(pages: readonly Page[]): string {
  const parts = pages.flatMap(partsOf).map((part, id): Part => ({ id, ...part }));
  return `window.sluicePages = ${JSON.stringify(parts)};\n`;
}

function partsOf({ url, title, text }: Page): Omit<Part, 'id'>[] {
  // In code blocks, lines that look like headings are shell comments.
  const blocks = text.split(/(^```[\s\S]*?^```)/m);
  const marked = blocks.map((block) => (block.startsWith('```') ? block.replace(/^#/gm, '\\#') : block)).join('');
  return marked.split(/^(?=#{1,4} )/m).flatMap((part) => {
    const [, marks, heading] = /^(#{1,4}) (.+)\n/.exec(part) ?? [];
    if (marks === undefined || heading === undefined) return [];
    const anchor = marks === '#' ? '' : `#${slugOf(plain(heading))}`;
    const here = { url: `${url}${anchor}`, page: title };
    const whole = { ...here, heading: plain(heading), text: wordsOf(part.replace(/^.*\n/, '')) };
    return [whole, ...namesIn(part).map((name) => ({ ...here, ...name }))];
  });
}

const wordsOf = (text: string) => plain(text.replace(/^```.*$/gm, '').replace(/[|]|-{3,}/g, ' '));

/** Fields, settings, reasons and commands with a row in a table: a search for one should find its row first. */
const namesIn = (part: string) =>
  [...part.matchAll(/^\| `([^`|]+)`.*? \| (.+) \|$/gm)].map(([, heading = '', rest = '']) => ({
    heading,
    text: wordsOf(rest),
  }));
