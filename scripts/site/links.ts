import { statSync } from 'node:fs';
import { join, posix } from 'node:path';
import { isInRepository, outsideCode, type Page, ROOT, urlOf } from './pages.ts';

export interface Links {
  /**
   * The target of a page's link in the site, as HTML or as Markdown twin; undefined if it is not in the site. Throws if
   * it leads nowhere.
   */
  resolve(target: string, from: Page, kind: 'html' | 'md'): string | undefined;
  /** Files of the repository that pages link to; the site needs them under `files/`. */
  readonly files: ReadonlySet<string>;
}

export function createLinks(pages: readonly Page[]): Links {
  const sources = new Map(pages.map((page) => [page.source, page.url]));
  sources.set('README.md', urlOf('README.md'));
  const files = new Set<string>();
  return {
    files,
    resolve(target, from, kind) {
      if (/^([a-z]+:|#)/.test(target)) return target;
      const [path = '', anchor] = target.split('#');
      const source = posix.join(posix.dirname(from.source), path);
      const page = sources.get(source);
      const folder = posix.dirname(from.url);
      if (page !== undefined) {
        const url = kind === 'html' ? page : page.replace(/html$/, 'md');
        return `${posix.relative(folder, url)}${anchor === undefined ? '' : `#${anchor}`}`;
      }
      if (!isInRepository(source)) throw new Error(`${from.source} links to ${target}, which is not there`);
      if (statSync(join(ROOT, source)).isDirectory()) return undefined;
      files.add(source);
      return posix.relative(folder, `files/${source}`);
    },
  };
}

/** A page's Markdown, with links to other twins. */
export function twinOf(page: Page, links: Links): string {
  return outsideCode(page.text, (part) =>
    part.replace(/(?<!`)\[((?:[^\][]|\[[^\]]*\])+)\]\(([^)\s]+)\)/g, (whole, label: string, target: string) => {
      const resolved = links.resolve(target, page, 'md');
      return resolved === undefined ? label : whole.replace(`](${target})`, `](${resolved})`);
    }),
  );
}
