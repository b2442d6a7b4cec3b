import { jsonLanguage } from '@codemirror/lang-json';
import { classHighlighter, highlightCode } from '@lezer/highlight';
import { parser } from '@lezer/javascript';
import { renderMermaidSVG } from '../../test/oracles/site.ts';
import type { Links } from './links.ts';
import type { Page } from './pages.ts';

/** The part of markdown-it's tokens that is read here. */
interface Token {
  readonly type: string;
  tag: string;
  content: string;
  info: string;
  hidden: boolean;
  readonly children: readonly Token[] | null;
  attrGet(name: string): string | null;
  attrSet(name: string, value: string): void;
}

export interface MarkdownIt {
  readonly core: { readonly ruler: { push(name: string, rule: (state: State) => void): void } };
  readonly renderer: { readonly rules: Record<string, (tokens: Token[], at: number) => string> };
  readonly utils: { escapeHtml(text: string): string };
}

interface State {
  readonly tokens: Token[];
  readonly env: { readonly page: { readonly url: string } };
}

interface Rules {
  readonly links: Links;
  /** The page being rendered, by Eleventy's address for it. */
  pageAt(address: string): Page;
}

/** Gives headings GitHub's names, resolves links in the site, and colours code. */
export function addRules(markdown: MarkdownIt, { links, pageAt }: Rules): void {
  const { escapeHtml } = markdown.utils;
  markdown.core.ruler.push('site', ({ tokens, env }) => {
    nameHeadings(tokens);
    labelCells(tokens);
    const page = pageAt(env.page.url);
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      const attribute = token.type === 'link_open' ? 'href' : token.type === 'image' ? 'src' : undefined;
      const target = attribute === undefined ? null : token.attrGet(attribute);
      if (attribute === undefined || target === null) continue;
      const resolved = links.resolve(target, page, 'html');
      if (resolved === undefined) token.tag = 'span';
      token.attrSet(attribute, resolved ?? '');
    }
  });
  const { rules } = markdown.renderer;
  rules.fence = (tokens, at) => {
    const { info = '', content = '' } = tokens[at] ?? {};
    if (info === 'mermaid') return `<figure>${picture(content)}</figure>\n`;
    return `<pre tabindex="0"><code>${colour(content, info, escapeHtml)}</code></pre>\n`;
  };
  rules.table_open = () => '<div class="table" tabindex="0"><table>';
  rules.table_close = () => '</table></div>';
}

/** The name that GitHub gives to a heading. */
export const slugOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');

const textOf = (token: Token | undefined): string =>
  (token?.children ?? []).map(({ type, content }) => (/^(text|code_inline)$/.test(type) ? content : '')).join('');

function nameHeadings(tokens: readonly Token[]): void {
  const seen = new Map<string, number>();
  tokens.forEach((token, at) => {
    if (token.type !== 'heading_open') return;
    const slug = slugOf(textOf(tokens[at + 1]));
    const times = seen.get(slug) ?? 0;
    seen.set(slug, times + 1);
    token.attrSet('id', times === 0 ? slug : `${slug}-${times}`);
  });
}

/** Labels each cell of a wide table with its column's name: on phones, rows are shown one below the other. */
function labelCells(tokens: readonly Token[]): void {
  let columns: string[] = [];
  let column = 0;
  tokens.forEach((token, at) => {
    if (token.type === 'thead_open') columns = [];
    if (token.type === 'th_open') columns.push(textOf(tokens[at + 1]));
    if (token.type === 'tr_open') column = 0;
    if (token.type !== 'td_open') return;
    if (columns.length > 2) token.attrSet('data-column', columns[column] ?? '');
    column += 1;
  });
}

/** A picture in the page's colours; it loads no font from other hosts. */
function picture(text: string): string {
  const colours = { bg: 'var(--page)', fg: 'var(--text)', muted: 'var(--quiet)', transparent: true };
  return renderMermaidSVG(text, colours).replace(/@import url\([^)]*\);/g, '');
}

const PARSERS: Readonly<Record<string, typeof parser>> = {
  json: jsonLanguage.parser as typeof parser,
  ts: parser.configure({ dialect: 'ts' }),
};

function colour(code: string, language: string, escapeHtml: (text: string) => string): string {
  const languageParser = PARSERS[language];
  if (languageParser === undefined) {
    const lines = escapeHtml(code).split('\n');
    if (language !== 'console') return lines.join('\n');
    return lines.map((line) => (line.startsWith('$ ') ? `<b>${line}</b>` : line)).join('\n');
  }
  let html = '';
  highlightCode(
    code,
    languageParser.parse(code),
    classHighlighter,
    (text, classes) => {
      html += classes === '' ? escapeHtml(text) : `<span class="${classes}">${escapeHtml(text)}</span>`;
    },
    () => {
      html += '\n';
    },
  );
  return html;
}
