import { isListedIn, LISTS, type Page, type Section } from './pages.ts';

const line = ({ url, title, summary }: Page) =>
  `- [${title}](${url.replace(/html$/, 'md')})${summary === '' ? '' : `: ${summary}`}`;

/** `llms.txt` (llmstxt.org): the list of pages, as Markdown that links to Markdown. */
export function llmsText(pages: readonly Page[], sections: readonly Section[]): string {
  const home = pages.find(({ url }) => url === 'index.html');
  const lists = Object.entries(LISTS).map(([title, list]) => ({
    title,
    pages: pages.filter((page) => isListedIn(list, page)),
  }));
  const parts = [...sections, ...lists];
  const text = parts.map((part) => `## ${part.title}\n\n${part.pages.map(line).join('\n')}\n`);
  return `# Sluice\n\n> ${home?.summary ?? ''}\n\n${text.join('\n')}`;
}
