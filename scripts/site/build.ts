// Builds the documentation site: `npm run site` writes it into `site/`, or into the given folder.
import { copyFileSync, cpSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { Eleventy } from '../../test/oracles/site.ts';
import { documentOf } from './layout.ts';
import { createLinks, twinOf } from './links.ts';
import { llmsText } from './llms.ts';
import { addRules, type MarkdownIt } from './markdown.ts';
import { type Page, ROOT, readPages, sectionsOf } from './pages.ts';
import { searchData } from './search-data.ts';

/** The part of Eleventy's configuration that is used here. */
interface Configuration {
  setQuietMode(isQuiet: boolean): void;
  readonly ignores: Set<string>;
  setTemplateFormats(formats: readonly string[]): void;
  addTemplate(path: string, text: string, data: Readonly<Record<string, string>>): void;
  amendLibrary(engine: 'md', amend: (library: MarkdownIt) => void): void;
  addTransform(
    name: string,
    transform: (this: { readonly page: { readonly url: string } }, html: string) => string,
  ): void;
}

const ASSETS = join(ROOT, 'docs/.site');

export async function buildSite(output: string): Promise<void> {
  makeRoom(output);
  const pages = readPages();
  const sections = sectionsOf(pages);
  const links = createLinks(pages);
  const byAddress = new Map(pages.map((page) => [addressOf(page), page]));
  const pageAt = (address: string): Page => {
    const page = byAddress.get(address);
    if (page === undefined) throw new Error(`there is no page at ${address}`);
    return page;
  };
  const eleventy = new Eleventy('docs/.site', output, {
    quietMode: true,
    config(configuration: Configuration) {
      configuration.setQuietMode(true);
      configuration.setTemplateFormats(['md']);
      // It is added below, with the text that follows it.
      configuration.ignores.add('docs/.site/home.md');
      configuration.amendLibrary('md', (markdown) => addRules(markdown, { links, pageAt }));
      configuration.addTransform('document', function (html) {
        return documentOf(pageAt(this.page.url), html, sections);
      });
      for (const page of pages) {
        // Placeholders of flows look like the template languages that Eleventy would process in Markdown.
        const data = { permalink: page.url, templateEngineOverride: 'md' };
        configuration.addTemplate(page.url.replace(/html$/, 'md'), page.text, data);
      }
    },
  });
  await eleventy.write();
  for (const page of pages) writeFileSync(join(output, page.url.replace(/html$/, 'md')), twinOf(page, links));
  writeFileSync(join(output, 'llms.txt'), llmsText(pages, sections));
  writeFileSync(join(output, 'search-data.js'), searchData(pages));
  const { resolve: find } = createRequire(import.meta.url);
  copyFileSync(join(dirname(find('minisearch')), '../umd/index.js'), join(output, 'minisearch.js'));
  for (const name of ['site.css', 'search.js', 'icon.svg']) copyFileSync(join(ASSETS, name), join(output, name));
  for (const file of links.files) {
    mkdirSync(dirname(join(output, 'files', file)), { recursive: true });
    cpSync(join(ROOT, file), join(output, 'files', file));
  }
}

const addressOf = ({ url }: Page) => `/${url.replace(/(^|\/)index\.html$/, '$1')}`;

/** Removes an earlier site. Throws if the folder contains anything else. */
function makeRoom(output: string): void {
  const isSite = existsSync(join(output, 'llms.txt'));
  if (existsSync(output) && readdirSync(output).length > 0 && !isSite) {
    throw new Error(`${output} holds something else than an earlier site`);
  }
  rmSync(output, { recursive: true, force: true });
  mkdirSync(output, { recursive: true });
}

if (import.meta.filename === process.argv[1]) await buildSite(resolve(process.argv[2] ?? join(ROOT, 'site')));
