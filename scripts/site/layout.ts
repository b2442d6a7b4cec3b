import { posix } from 'node:path';
import { escapeHtml } from '../../src/model/text.ts';
import { isListedIn, type Page, type Section } from './pages.ts';

/** A complete document around a page's rendered Markdown. */
export function documentOf(page: Page, content: string, sections: readonly Section[]): string {
  const to = (url: string) => posix.relative(posix.dirname(page.url), url);
  const isHome = page.url === 'index.html';
  const title = isHome ? 'Sluice: webhooks in, durable runs out' : `${page.title} – Sluice`;
  const twin = to(page.url.replace(/html$/, 'md'));
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<meta name="description" content="${escapeHtml(page.summary)}">
<link rel="icon" href="${to('icon.svg')}">
<link rel="stylesheet" href="${to('site.css')}">
<link rel="alternate" type="text/markdown" href="${twin}">
<script defer src="${to('search.js')}" data-root="${to('index.html').replace(/index\.html$/, '')}"></script>
</head>
<body${isHome ? ' class="home"' : ''}>
<a class="skip" href="#content">Skip to the text</a>
<header>
<a class="brand" href="${to('index.html')}">Sluice</a>
<div class="search">
<input type="search" id="search" placeholder="Search" aria-label="Search the documentation" aria-controls="found" autocomplete="off">
<div id="found" role="region" aria-live="polite" aria-label="Search results" hidden></div>
</div>
</header>
<div class="columns">
<details class="navigation" open>
<summary>All pages</summary>
<nav aria-label="Pages">
${sections.map((section) => navigation(section, page, to)).join('\n')}
</nav>
</details>
<main id="content">
${isHome ? firstScreen(content) : content}
<footer><a href="${twin}">This page as Markdown</a></footer>
</main>
${isHome ? '' : outline(content)}
</div>
</body>
</html>
`;
}

/** The home with its first three parts side by side: what Sluice is, a refused delivery, and 60 seconds. */
function firstScreen(content: string): string {
  const parts = content.split(/(?=<h2 )/);
  const first = parts.slice(0, 3).map((part) => `<section>\n${part}</section>`);
  return `<div class="first">\n${first.join('\n')}\n</div>\n${parts.slice(3).join('')}`;
}

function navigation({ title, pages }: Section, current: Page, to: (url: string) => string): string {
  const isWithin = ({ url, source }: Page) => url === current.url || isListedIn(source, current);
  const items = pages.map((page) => {
    const name = page.url === 'index.html' ? 'What it is' : page.title;
    return `<li><a href="${to(page.url)}"${isWithin(page) ? ' aria-current="page"' : ''}>${escapeHtml(name)}</a></li>`;
  });
  return `<h2>${escapeHtml(title)}</h2>\n<ul>\n${items.join('\n')}\n</ul>`;
}

/** The headings of a page, if it has several. */
function outline(content: string): string {
  const headings = [...content.matchAll(/<h2 id="([^"]+)">([\s\S]*?)<\/h2>/g)];
  if (headings.length < 3) return '<aside></aside>';
  const items = headings.map(
    ([, id, html = '']) => `<li><a href="#${id}">${html.replace(/<\/?a[^>]*>/g, '')}</a></li>`,
  );
  return `<aside aria-label="On this page">\n<h2>On this page</h2>\n<ul>\n${items.join('\n')}\n</ul>\n</aside>`;
}
