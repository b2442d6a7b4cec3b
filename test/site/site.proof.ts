import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { cp, readFile, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, extname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { describeInBrowser, expectNoHindrance, launchBrowser } from '../browser/browser.ts';
import { commandsOf, follow } from '../docs/console.ts';
import { ROOT } from '../docs/pages.ts';
import { createWorkspace, startService } from '../e2e/service.ts';
import type { Browser, Page } from '../oracles/chromium.ts';
import { temporaryFolder } from '../temporary.ts';

let site: string;

/** As `npm run site` does. */
const build = (folder: string) => {
  const args = ['node_modules/jiti/lib/jiti-cli.mjs', 'scripts/site/build.ts', folder];
  return promisify(execFile)(process.execPath, args, { cwd: ROOT });
};

beforeAll(async () => {
  site = temporaryFolder('site');
  await build(site);
}, 300_000);

const filesOf = (extension: string) =>
  readdirSync(site, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith(extension) && !name.startsWith('files/'),
  );
const textOf = (name: string) => readFileSync(join(site, name), 'utf8');
const withoutCode = (text: string) => text.replace(/^```[\s\S]*?^```/gm, '').replace(/`[^`\n]*`/g, '');

/** The ids in a page that links may name. */
const placesOf = (html: string) => new Set([...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id));

/** Links within the site that lead nowhere, and resources that a page would load from elsewhere. */
function brokenIn(name: string): string[] {
  const html = textOf(name);
  const targets = [...html.matchAll(/<(\w+)[^>]*? (?:href|src)="([^"]*)"/g)].map(([, tag = '', to = '']) => ({
    tag,
    to,
  }));
  return targets.flatMap(({ tag, to }) => {
    if (/^[a-z]+:/.test(to)) return tag === 'a' ? [] : [`${name}: <${tag}> of ${to}`];
    const [path = '', anchor] = to.split('#');
    const file = path === '' ? join(site, name) : resolve(site, dirname(name), path);
    const isThere = existsSync(file) && (anchor === undefined || placesOf(readFileSync(file, 'utf8')).has(anchor));
    return isThere ? [] : [`${name}: ${to}`];
  });
}

describe('the site', () => {
  it('has no link that leads nowhere, and loads nothing from elsewhere', () => {
    const pages = filesOf('.html');
    expect(pages.length).toBeGreaterThan(150);
    expect(pages.flatMap(brokenIn)).toEqual([]);
    for (const name of pages) expect(textOf(name), name).not.toMatch(/@import|url\(\s*['"]?https?:/);
  });

  it('has a page for each document, publisher and example, and its twin in Markdown', () => {
    const sources = ['docs', 'examples'].flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.md') && !name.startsWith('.'))
        .map((name) => (folder === 'docs' ? name : `${folder}/${name}`)),
    );
    const wanted = sources.map((name) => name.replace(/(^|\/)README\.md$/, '$1index.md').replace(/\.md$/, '.html'));
    expect(wanted.filter((name) => name.startsWith('publishers/')).length).toBeGreaterThan(100);
    expect(wanted.filter((name) => !existsSync(join(site, name)))).toEqual([]);
    const pages = filesOf('.html');
    expect(pages.map((name) => name.replace(/html$/, 'md')).filter((name) => !existsSync(join(site, name)))).toEqual(
      [],
    );
    for (const name of pages) expect(textOf(name).match(/<h1/g), name).toHaveLength(1);
  });

  it('has twins whose links lead to twins', () => {
    const broken = filesOf('.md').flatMap((name) =>
      [...withoutCode(textOf(name)).matchAll(/\]\(([^)\s]+)\)/g)]
        .map(([, target = '']) => target)
        .filter((target) => !/^([a-z]+:|#)/.test(target))
        .filter((target) => {
          const path = target.replace(/#.*/, '');
          return path.endsWith('.html') || !existsSync(resolve(site, dirname(name), path));
        })
        .map((target) => `${name}: ${target}`),
    );
    expect(broken).toEqual([]);
    expect(textOf('publishers/stripe.md')).toContain('](../manifest.md#one-run-for-each-event)');
  });

  it('says in llms.txt what there is to read: every page, in Markdown, by its title', () => {
    const text = textOf('llms.txt');
    expect(text).toMatch(/^# Sluice\n\n> Sluice .+\n\n## /);
    const listed = [...text.matchAll(/^- \[(.+?)\]\((.+?)\)/gm)].map(([, title, url]) => ({ title, url }));
    expect(listed.map(({ url }) => url).sort()).toEqual(filesOf('.md').sort());
    for (const { title, url = '' } of listed) {
      expect(textOf(url).split('\n', 1)[0]?.replace(/[`*]/g, ''), url).toBe(`# ${title}`);
    }
  });

  it('searches in parts of pages that are there', () => {
    const [, json = ''] = /^window\.sluicePages = (.*);$/m.exec(textOf('search-data.js')) ?? [];
    const urls = (JSON.parse(json) as { url: string }[]).map(({ url }) => url);
    expect(new Set(urls.map((url) => url.replace(/#.*/, '')))).toEqual(new Set(filesOf('.html')));
    const broken = urls.filter((url) => {
      const [name = '', anchor] = url.split('#');
      return anchor !== undefined && !placesOf(textOf(name)).has(anchor);
    });
    expect(broken).toEqual([]);
  });

  it('shows placeholders of flows and of layouts as they are written', () => {
    expect(textOf('publishers/custom.html')).toContain('{timestamp}');
    expect(textOf('expressions.html')).toContain(`\${trigger.body.count}`);
  });

  it('is written only where nothing or an earlier site is', async () => {
    const folder = temporaryFolder('site');
    await writeFile(join(folder, 'mine.txt'), 'mine');
    await expect(build(folder)).rejects.toThrow(/holds something else than an earlier site/);
    expect(await readFile(join(folder, 'mine.txt'), 'utf8')).toBe('mine');
  });
});

it('the first screen shows what the commands on it print', async () => {
  const workspace = await createWorkspace();
  await cp(join(ROOT, 'manifests'), join(workspace.folder, 'manifests'), { recursive: true });
  const service = await startService(workspace);
  onTestFinished(async () => {
    await service.stop('SIGTERM');
  });
  await writeFile(join(workspace.folder, '.env'), `SLUICE_PORT=${new URL(service.url).port}\n`);
  const commands = commandsOf('docs/.site/home.md', 'executed by test/site/site.proof.ts');
  expect(commands).toHaveLength(4);
  await follow(commands, workspace);
});

describeInBrowser('the site in a browser', () => {
  let browser: Browser;
  let server: Server;
  let url: string;
  const problems: string[] = [];
  beforeAll(async () => {
    const types: Record<string, string> = { '.html': 'text/html', '.css': 'text/css', '.js': 'text/javascript' };
    server = createServer((request, response) => {
      const { pathname } = new URL(request.url ?? '/', 'http://site');
      // Served below a path, as many hosts do.
      const file = join(site, pathname.replace(/^\/docs/, '').replace(/\/$/, '/index.html'));
      if (!pathname.startsWith('/docs/') || !existsSync(file)) return response.writeHead(404).end();
      response.setHeader('content-type', types[extname(file)] ?? 'image/svg+xml');
      return response.end(readFileSync(file));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/docs`;
    browser = await launchBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    server?.close();
    expect(problems).toEqual([]);
  });

  async function open(address: string, width = 1440): Promise<Page> {
    const page = await browser.newPage({ viewport: { width, height: 900 } });
    page.on('pageerror', (error) => problems.push(String(error)));
    page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
    page.on('request', (request) => {
      if (!/^(http:\/\/127\.0\.0\.1:|file:|data:)/.test(request.url())) problems.push(`asked ${request.url()}`);
    });
    onTestFinished(() => page.close());
    await page.goto(address);
    return page;
  }

  it('has on its first screen what Sluice is, a refused delivery, and 60 seconds', async () => {
    const page = await open(`${url}/`);
    for (const text of [
      'Webhooks in, durable runs out',
      '60 seconds',
      'npm ci && npm start',
      'to accept it: sluice redeliver',
    ]) {
      const box = await page.getByText(text).first().boundingBox();
      expect((box?.y ?? Number.POSITIVE_INFINITY) + (box?.height ?? 0), text).toBeLessThanOrEqual(900);
    }
  });

  it.each([
    ['webhookNonceHeader', 'publishers/stripe.html', 'manifest.html#webhook'],
    ['SLUICE_EGRESS_ALLOW', 'manifest.html', 'settings.html#'],
    ['signature mismatch', 'adr/index.html', 'troubleshooting.html#signature_mismatch'],
    ['stripe', 'index.html', 'publishers/stripe.html'],
    ['expresions', 'operate.html', 'expressions.html'],
  ])('finds %s from %s first at %s, at both widths', async (asked, from, found) => {
    for (const width of [1440, 390]) {
      const page = await open(`${url}/${from}`, width);
      await page.keyboard.press('/');
      await page.keyboard.type(asked);
      const words = page.getByRole('region', { name: 'Search results' }).locator(`[data-asked="${asked}"]`);
      await words.waitFor();
      await words.getByRole('link').first().click();
      await page.waitForURL((address) => address.href.startsWith(`${url}/${found}`));
      await page.getByRole('heading', { level: 1 }).waitFor();
    }
  });

  it('finds from a disk too, opens the first result by Enter, and says if there is none', async () => {
    const page = await open(`file://${site}/install.html`);
    const search = page.getByRole('searchbox');
    await search.fill('qqqqqzzzz');
    await page.getByText('Nothing has all the words of').waitFor();
    await search.fill('<img src=x onerror=alert(1)>');
    await page.getByText('Nothing has all the words of “<img').waitFor();
    await search.fill('github legacy');
    await page.getByRole('region', { name: 'Search results' }).getByRole('link').first().waitFor();
    await search.press('Enter');
    await page.waitForURL((address) => address.pathname.includes('/publishers/github-legacy'));
  });

  it.each(['index.html', 'settings.html', 'ARCHITECTURE.html', 'publishers/index.html', 'examples/fan-out/index.html'])(
    'hinders nobody at %s, and does not scroll sideways',
    async (name) => {
      await expectNoHindrance(await open(`${url}/${name}`));
    },
  );

  it('shows a row of a wide table as lines on a phone, each with the name of its column', async () => {
    const page = await open(`${url}/settings.html`, 390);
    const row = page.getByRole('row').filter({ hasText: 'SLUICE_PORT' }).first();
    const cells = row.locator('td');
    const places = await cells.evaluateAll((all) =>
      all.map((cell) => {
        const { left, top } = (
          cell as unknown as { getBoundingClientRect(): { left: number; top: number } }
        ).getBoundingClientRect();
        return { left, top };
      }),
    );
    expect(places).toHaveLength(4);
    expect(new Set(places.map(({ left }) => left)).size).toBe(1);
    expect(new Set(places.map(({ top }) => top)).size).toBe(4);
    expect(await cells.nth(1).getAttribute('data-column')).toBe('default');
  });

  it('keeps the pages behind one line on a phone', async () => {
    const page = await open(`${url}/secure.html`, 390);
    const link = page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Operate it' });
    expect(await link.isVisible()).toBe(false);
    await page.getByText('All pages').click();
    await link.click();
    await page.getByRole('heading', { level: 1, name: 'Operate it' }).waitFor();
  });
});
