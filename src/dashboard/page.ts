import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { HttpError } from '../errors.ts';
import type { ApiRoutes } from './services.ts';

const ONE_YEAR_SECONDS = 31_536_000;

/** The page: one HTML shell for every address below `/flows` that is not part of the API, and the files that it loads. */
export const pageRoutes: ApiRoutes = (app) => {
  const assets = readPageAssets();
  const shell = assets === undefined ? undefined : shellOf(assets);

  const sendShell = async (request: FastifyRequest, reply: FastifyReply) => {
    if (isReserved(request.url)) return reply.callNotFound();
    if (shell === undefined) throw new HttpError(404, 'The page is not built; run npm run build');
    return reply
      .type('text/html; charset=utf-8')
      .header('content-security-policy', shell.csp)
      .send(shell.html(themeOf(request)));
  };
  // Who may see the page is asked for the login here already: to anyone else this address is like any other.
  app.get('/', { schema: { hide: true } }, (_request, reply) => reply.redirect('/flows', 302));
  for (const url of ['/flows', '/flows/*']) app.get(url, { schema: { hide: true } }, sendShell);

  app.get('/flows/assets/:version/*', { schema: { hide: true } }, async (request, reply) => {
    const { version = '', '*': path = '' } = request.params as { version?: string; '*'?: string };
    const asset = version === assets?.version ? assets.files.get(path) : undefined;
    return asset === undefined ? reply.callNotFound() : sendAsset(asset, request, reply);
  });
};

/** Addresses that never belong to the page: unknown ones are answered as the API answers. */
export function isReserved(url: string): boolean {
  return /^\/flows\/(api|assets)(\/|\?|$)/.test(url);
}

async function sendAsset(asset: Asset, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const encoding = encodingFor(request.headers['accept-encoding']);
  const etag = `"${asset.etag}-${encoding}"`;
  reply.headers({
    // private, because the request had credentials; immutable, because the address changes with the bytes.
    'cache-control': `private, max-age=${ONE_YEAR_SECONDS}, immutable`,
    vary: 'accept-encoding',
    etag,
  });
  if (request.headers['if-none-match'] === etag) return reply.code(304).send();
  if (encoding !== 'identity') reply.header('content-encoding', encoding);
  return reply.type(asset.type).send(await asset.encoded(encoding));
}

function encodingFor(accepted: string | undefined): Encoding {
  const names = (accepted ?? '').split(',').flatMap((part) => {
    const [name = '', ...parameters] = part.split(';').map((piece) => piece.trim().toLowerCase());
    return parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter)) ? [] : [name];
  });
  if (names.includes('br')) return 'br';
  return names.includes('gzip') ? 'gzip' : 'identity';
}

type Theme = 'light' | 'dark' | undefined;

/** Kept in a cookie, so that the page has the chosen colours from its first byte. */
function themeOf({ headers }: FastifyRequest): Theme {
  const [, theme] = /(?:^|;\s*)sluice-theme=(light|dark)(?:;|$)/.exec(headers.cookie ?? '') ?? [];
  return theme === 'light' || theme === 'dark' ? theme : undefined;
}

function shellOf({ version, imports, scripts, styles }: PageAssets): { csp: string; html: (theme: Theme) => string } {
  const urlOf = (path: string) => `/flows/assets/${version}/${path}`;
  const importMap = JSON.stringify({
    imports: Object.fromEntries(Object.entries(imports).map(([name, path]) => [name, urlOf(path)])),
  });
  const hash = createHash('sha256').update(importMap).digest('base64');
  const csp = [
    "default-src 'none'",
    `script-src 'self' 'sha256-${hash}'`,
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
  const head = [
    '<meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="color-scheme" content="light dark">',
    '<title>Sluice</title>',
    `<link rel="icon" type="image/svg+xml" href="${urlOf('styles/sluice.svg')}">`,
    ...styles.map((path) => `<link rel="stylesheet" href="${urlOf(path)}">`),
    `<script type="importmap">${importMap}</script>`,
    ...scripts.map((path) => `<link rel="modulepreload" href="${urlOf(path)}">`),
    `<script type="module" src="${urlOf(scripts[0] ?? '')}"></script>`,
  ].join('\n');
  const body =
    '<div id="page"></div>\n<noscript><p>This page is drawn by JavaScript; the API behind it is at <a href="/flows/api/docs">/flows/api/docs</a>.</p></noscript>';
  return {
    csp,
    html: (theme) =>
      `<!doctype html>\n<html lang="en"${theme === undefined ? '' : ` data-theme="${theme}"`}>\n<head>\n${head}\n</head>\n<body>\n${body}\n</body>\n</html>\n`,
  };
}

type Encoding = 'br' | 'gzip' | 'identity';

/** One file of the page, read when the process starts; each encoding is made once, when first asked for. */
interface Asset {
  readonly type: string;
  readonly etag: string;
  readonly content: Buffer;
  encoded(encoding: Encoding): Promise<Buffer>;
}

interface PageAssets {
  /** By the path below `/flows/assets/VERSION/`; nothing else is served. */
  readonly files: ReadonlyMap<string, Asset>;
  /** Changes with any byte of any file, so that a browser may keep each file for ever. */
  readonly version: string;
  /** Import specifier to path. */
  readonly imports: Readonly<Record<string, string>>;
  /** Scripts that the first script needs, itself first, so that a browser fetches them all at once. */
  readonly scripts: readonly string[];
  readonly styles: readonly string[];
}

const ENTRY = 'main.js';
const TYPES: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
};

/** Statements that import or export from another module; not words in strings, and not dynamic imports. */
const STATIC_IMPORT = /(?:^|[;\n])\s*(?:import|export)\s*(?:[\w*{}\s,$]+from\s*)?["']([^"'\n]+)["']/g;

const require = createRequire(import.meta.url);
const WEB_FOLDER = join(dirname(require.resolve('#package.json')), 'dist/dashboard/web');

const LIBRARIES: Readonly<
  Record<string, { readonly package: string; readonly file: string; readonly suffix?: string }>
> = {
  preact: { package: 'preact', file: 'dist/preact.mjs' },
  'preact/hooks': { package: 'preact', file: 'hooks/dist/hooks.mjs' },
  'preact/jsx-runtime': { package: 'preact', file: 'jsx-runtime/dist/jsxRuntime.mjs' },
  // Its ESM file is not minified and has 36 KB instead of 20; the suffix makes this one a module.
  uplot: { package: 'uplot', file: 'dist/uPlot.iife.min.js', suffix: '\nexport default uPlot;\n' },
  '@dagrejs/dagre': { package: '@dagrejs/dagre', file: 'dist/dagre.esm.js' },
};

const LIBRARY_STYLE = { path: 'vendor/uplot.css', package: 'uplot', file: 'dist/uPlot.min.css' };

/** Reads the built page and its libraries; undefined where the page was not built. */
function readPageAssets(): PageAssets | undefined {
  if (!existsSync(join(WEB_FOLDER, ENTRY))) return undefined;
  const files = new Map<string, Asset>();
  const imports: Record<string, string> = {};
  const folders = packageFolders();
  for (const [name, { package: library, file, suffix = '' }] of Object.entries(LIBRARIES)) {
    const path = `vendor/${name.replace('@', '')}.js`;
    imports[name] = path;
    files.set(path, asset(path, Buffer.concat([readFileSync(join(folders(library), file)), Buffer.from(suffix)])));
  }
  const { path, package: library, file } = LIBRARY_STYLE;
  files.set(path, asset(path, readFileSync(join(folders(library), file))));
  for (const own of ownFiles()) files.set(own, asset(own, readFileSync(join(WEB_FOLDER, own))));
  const digest = createHash('sha256');
  for (const [name, { etag }] of files) digest.update(`${name} ${etag}\n`);
  return {
    files,
    version: digest.digest('hex').slice(0, 16),
    imports,
    scripts: scriptsFrom(ENTRY, { files, imports }),
    styles: [...files.keys()].filter((name) => name.endsWith('.css')),
  };
}

/** Compiled scripts, styles and pictures of the page itself; neither source maps nor types. */
function ownFiles(): string[] {
  const names = readdirSync(WEB_FOLDER, { recursive: true, encoding: 'utf8' }).map((name) =>
    name.replaceAll('\\', '/'),
  );
  return names.filter((name) => Object.hasOwn(TYPES, extensionOf(name))).sort();
}

/** Finds the folders of packages: several packages do not export their files by name. */
function packageFolders(): (name: string) => string {
  return (name) => {
    const places = require.resolve.paths(name) ?? [];
    const found = places.map((place) => join(place, name)).find((folder) => existsSync(join(folder, 'package.json')));
    if (found === undefined) throw new Error(`The package ${name} is not installed; run npm ci`);
    return found;
  };
}

function asset(path: string, raw: Buffer): Asset {
  // Source maps are not served: naming them would only cause a 404 in the browser's tools.
  const content = path.endsWith('.js')
    ? Buffer.from(raw.toString('utf8').replace(/^\/\/# sourceMappingURL=.*$/m, ''))
    : raw;
  const made = new Map<Encoding, Promise<Buffer>>();
  return {
    type: TYPES[extensionOf(path)] ?? 'application/octet-stream',
    etag: createHash('sha256').update(content).digest('base64url').slice(0, 22),
    content,
    encoded(encoding) {
      const known = made.get(encoding) ?? encode(content, encoding);
      made.set(encoding, known);
      return known;
    },
  };
}

// Quality 9: 21 KB for uPlot in 20 ms; 11 saves 1.5 KB of it and takes 100 ms.
function encode(content: Buffer, encoding: Encoding): Promise<Buffer> {
  if (encoding === 'identity') return Promise.resolve(content);
  if (encoding === 'gzip') return promisify(gzip)(content, { level: 9 });
  return promisify(brotliCompress)(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } });
}

/** Follows the static imports of the compiled scripts, breadth first. */
function scriptsFrom(entry: string, { files, imports }: Pick<PageAssets, 'files' | 'imports'>): string[] {
  const found = new Set([entry]);
  for (const path of found) {
    const text = files.get(path)?.content.toString('utf8') ?? '';
    for (const [, specifier = ''] of text.matchAll(STATIC_IMPORT)) {
      const target = specifier.startsWith('.') ? resolvePath(path, specifier) : imports[specifier];
      if (target !== undefined && files.has(target)) found.add(target);
    }
  }
  return [...found];
}

function resolvePath(from: string, specifier: string): string {
  return join(dirname(from), specifier).replaceAll('\\', '/');
}

function extensionOf(path: string): string {
  return path.slice(path.lastIndexOf('.') + 1);
}
