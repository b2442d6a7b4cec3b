import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, posix, resolve } from 'node:path';

export const ROOT = resolve(import.meta.dirname, '../..');
const HOME = 'docs/.site/home.md';

export interface Page {
  /** Path of its Markdown in the repository. */
  readonly source: string;
  /** Path in the site; its Markdown twin ends with `.md` instead of `.html`. */
  readonly url: string;
  readonly title: string;
  /** Its first sentences, as plain text. */
  readonly summary: string;
  readonly text: string;
}

/** Sources by section, in the order of the navigation; all other pages go into the last one. */
const SECTIONS: Readonly<Record<string, readonly string[]>> = {
  Start: [HOME, 'docs/first-flow.md', 'docs/install.md', 'examples/README.md', 'docs/publishers/README.md'],
  'Write flows': [
    'docs/manifest.md',
    'docs/expressions.md',
    'docs/changing-flows.md',
    'docs/promotion.md',
    'docs/testing-flows.md',
    'docs/approvals.md',
    'docs/extending.md',
  ],
  'Run it': [
    'docs/operate.md',
    'docs/settings.md',
    'docs/secure.md',
    'docs/alerts.md',
    'docs/reconcile.md',
    'docs/troubleshooting.md',
    'docs/replicas.md',
    'docs/recovery.md',
    'docs/performance.md',
  ],
  'About Sluice': ['docs/compared.md', 'docs/ARCHITECTURE.md', 'docs/adr/README.md'],
};

/** Pages that list the pages in their folder, which are too many for the navigation. */
export const LISTS: Readonly<Record<string, string>> = {
  Publishers: 'docs/publishers/README.md',
  Examples: 'examples/README.md',
  Decisions: 'docs/adr/README.md',
};

/** Whether a list page lists another page. */
export const isListedIn = (list: string, { source }: Page): boolean =>
  Object.values(LISTS).includes(list) && source !== list && source.startsWith(`${posix.dirname(list)}/`);

const markdownIn = (folder: string) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md') && !name.startsWith('.'))
    .map((name) => `${folder}/${name.replaceAll('\\', '/')}`)
    .sort();

/** All pages of the site: the home, the documents, the examples, and the top-level pages except the README. */
export function readPages(): Page[] {
  const top = ['CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md'];
  return [HOME, ...markdownIn('docs'), ...markdownIn('examples'), ...top].map(readPage);
}

function readPage(source: string): Page {
  const own = readFileSync(join(ROOT, source), 'utf8');
  const text = withoutComments(source === HOME ? `${own}\n${restOfReadme()}` : own);
  const title = /^# (.+)$/m.exec(text)?.[1];
  if (title === undefined) throw new Error(`${source} has no title`);
  return { source, url: urlOf(source), title: plain(title), summary: summaryOf(text), text };
}

/** The home starts with its own text; the rest comes from the README, with links as seen from the home. */
function restOfReadme(): string {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');
  const from = readme.indexOf('\n## Your own webhook\n');
  if (from < 0) throw new Error('README.md has no part "Your own webhook", with which the home goes on');
  return outsideCode(readme.slice(from), (text) => text.replace(/\]\((?![a-z]+:|#)/g, '](../../'));
}

export const urlOf = (source: string): string =>
  source === HOME || source === 'README.md'
    ? 'index.html'
    : source
        .replace(/^docs\//, '')
        .replace(/(^|\/)README\.md$/, '$1index.md')
        .replace(/\.md$/, '.html');

/** Replaces in Markdown, except in code blocks. */
export const outsideCode = (text: string, replace: (part: string) => string): string =>
  text
    .split(/(^```[\s\S]*?^```)/m)
    .map((part) => (part.startsWith('```') ? part : replace(part)))
    .join('');

const withoutComments = (text: string) => outsideCode(text, (part) => part.replace(/^<!--.*?-->\n/gm, ''));

/** Markdown as plain text. */
export const plain = (text: string): string =>
  text
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/<(https?:[^>]+)>/g, '$1')
    .replace(/[`*]|<[^>]+>/g, '')
    .replace(/\s+/g, ' ')
    .trim();

function summaryOf(text: string): string {
  const paragraph = /^# .+\n+((?:(?![#|`>-]).+\n)+)/m.exec(text)?.[1] ?? '';
  const sentences = plain(paragraph).match(/.+?[.:](?=\s|$)/g) ?? [];
  let summary = '';
  for (const sentence of sentences) {
    if (summary !== '' && summary.length + sentence.length > 160) break;
    summary += sentence;
  }
  return summary.trim().replace(/:$/, '.');
}

export interface Section {
  readonly title: string;
  readonly pages: readonly Page[];
}

/** The navigation. Throws if it names a page that does not exist. */
export function sectionsOf(pages: readonly Page[]): Section[] {
  const named = Object.entries(SECTIONS).map(([title, sources]) => ({
    title,
    pages: sources.map((source) => {
      const page = pages.find((each) => each.source === source);
      if (page === undefined) throw new Error(`the navigation names ${source}, which is not there`);
      return page;
    }),
  }));
  const shown = new Set(named.flatMap((section) => section.pages));
  const isListed = (page: Page) => Object.values(LISTS).some((list) => isListedIn(list, page));
  const others = pages.filter((page) => !shown.has(page) && !isListed(page));
  return named.map((section, at) =>
    at === named.length - 1 ? { ...section, pages: [...section.pages, ...others] } : section,
  );
}

export const isInRepository = (path: string): boolean => existsSync(join(ROOT, path));
