import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { brotliDecompress, gzip } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { HttpError } from '../errors.ts';
import { escapeHtml } from '../model/text.ts';
import { actorOf, provenActorOf } from './actors.ts';
import { scopesOf } from './credentials.ts';
import type { ApiRoutes } from './services.ts';
import { patternsFor } from './sight.ts';

const ONE_YEAR_SECONDS = 31_536_000;

/** The page: one HTML shell for every non-API address below `/flows`, and the files that it loads. */
export const pageRoutes: ApiRoutes = (app, { serviceName }) => {
  const assets = pageAssets();
  const shell = assets === undefined ? undefined : shellOf(assets, escapeHtml(serviceName));

  const sendShell = async (request: FastifyRequest, reply: FastifyReply) => {
    if (isReserved(request.url)) return reply.callNotFound();
    if (shell === undefined) throw new HttpError(404, 'The page is not built; run npm run build');
    return reply
      .type('text/html; charset=utf-8')
      .header('content-security-policy', shell.csp)
      .send(
        shell.html({
          theme: themeOf(request),
          session: sessionOf(request),
          scopes: scopesFor(request)?.join(' '),
          limited: patternsFor(request) === undefined ? undefined : 'true',
        }),
      );
  };
  // A client that can see the page is sent to the login here; for any other client this URL looks like any other.
  app.get('/', { schema: { hide: true }, config: { limit: 'none' } }, (_request, reply) =>
    reply.redirect('/flows', 302),
  );
  for (const url of ['/flows', '/flows/*']) {
    app.get(url, { schema: { hide: true }, config: { limit: 'none' } }, sendShell);
  }

  app.get('/flows/assets/:version/*', { schema: { hide: true }, config: { limit: 'none' } }, async (request, reply) => {
    const { version = '', '*': path = '' } = request.params as { version?: string; '*'?: string };
    const asset = version === assets?.version ? assets.files.get(path) : undefined;
    return asset === undefined ? reply.callNotFound() : sendAsset(asset, request, reply);
  });
};

/** Addresses that never belong to the page: unknown ones get the API's answer. */
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

/** Stored in a cookie, so that the page has the chosen colours from its first byte. */
function themeOf({ headers }: FastifyRequest): Theme {
  const [, theme] = /(?:^|;\s*)sluice-theme=(light|dark)(?:;|$)/.exec(headers.cookie ?? '') ?? [];
  return theme === 'light' || theme === 'dark' ? theme : undefined;
}

/** The name of a session's owner, so that the page can offer the logout. */
function sessionOf(request: FastifyRequest): string | undefined {
  const { name, session } = actorOf(request);
  return session === undefined ? undefined : encodeURIComponent(name);
}

/** The scopes for which buttons are shown; undefined for all. */
function scopesFor(request: FastifyRequest): string[] | undefined {
  const actor = provenActorOf(request);
  return actor && scopesOf(actor);
}

function attributeOf(name: string, value: string | undefined): string {
  return value === undefined ? '' : ` data-${name}="${value}"`;
}

interface Shown {
  readonly theme: Theme;
  readonly session: string | undefined;
  readonly scopes: string | undefined;
  /** Set for readers who only see some flows. */
  readonly limited: string | undefined;
}

function shellOf(
  { version, scripts, styles }: PageAssets,
  service: string,
): {
  csp: string;
  html: (shown: Shown) => string;
} {
  const urlOf = (path: string) => `/flows/assets/${version}/${path}`;
  const csp = [
    "default-src 'none'",
    "script-src 'self'",
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
    `<title>${service}</title>`,
    `<meta name="application-name" content="${service}">`,
    `<link rel="icon" type="image/svg+xml" href="${urlOf('sluice.svg')}">`,
    ...styles.map((path) => `<link rel="stylesheet" href="${urlOf(path)}">`),
    ...scripts.slice(1).map((path) => `<link rel="modulepreload" href="${urlOf(path)}">`),
    `<script type="module" src="${urlOf(scripts[0] ?? '')}"></script>`,
  ].join('\n');
  const body =
    '<div id="page"></div>\n<noscript><p>This page is drawn by JavaScript; the API behind it is at <a href="/flows/api/docs">/flows/api/docs</a>.</p></noscript>';
  return {
    csp,
    html: ({ theme, session, scopes, limited }) =>
      `<!doctype html>\n<html lang="en"${attributeOf('theme', theme)}${attributeOf('session', session)}${attributeOf('scopes', scopes)}${attributeOf('limited', limited)}>\n<head>\n${head}\n</head>\n<body>\n${body}\n</body>\n</html>\n`,
  };
}

type Encoding = 'br' | 'gzip' | 'identity';

/** One file of the page, read at the start. The build packs it; other encodings are made at the first request. */
interface Asset {
  readonly type: string;
  readonly etag: string;
  encoded(encoding: Encoding): Promise<Buffer>;
}

interface PageAssets {
  /** By the path below `/flows/assets/VERSION/`; nothing else is served. */
  readonly files: ReadonlyMap<string, Asset>;
  /** Changes with any byte of any file, so that a browser can keep each file for ever. */
  readonly version: string;
  /** The first script, and those that it imports, so that a browser fetches them all at once. */
  readonly scripts: readonly string[];
  readonly styles: readonly string[];
}

const PACKED = '.br';
const TYPES: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
};

const require = createRequire(import.meta.url);
const PAGE_FOLDER = join(dirname(require.resolve('#package.json')), 'dist/page');

/** The built page, read once per process; undefined if it was not built. */
function pageAssets(): PageAssets | undefined {
  read ??= { assets: readPageAssets() };
  return read.assets;
}

let read: { readonly assets: PageAssets | undefined } | undefined;

function readPageAssets(): PageAssets | undefined {
  const scripts = join(PAGE_FOLDER, 'scripts.json');
  if (!existsSync(scripts)) return undefined;
  const names = readdirSync(PAGE_FOLDER).flatMap((file) =>
    file.endsWith(PACKED) ? file.slice(0, -PACKED.length) : [],
  );
  const files = new Map(
    names.sort().map((name) => [name, asset(name, readFileSync(join(PAGE_FOLDER, name + PACKED)))]),
  );
  const digest = createHash('sha256');
  for (const [name, { etag }] of files) digest.update(`${name} ${etag}\n`);
  return {
    files,
    version: digest.digest('hex').slice(0, 16),
    scripts: JSON.parse(readFileSync(scripts, 'utf8')) as string[],
    styles: names.filter((name) => name.endsWith('.css')),
  };
}

function asset(path: string, packed: Buffer): Asset {
  const made = new Map<Encoding, Promise<Buffer>>([['br', Promise.resolve(packed)]]);
  return {
    type: TYPES[extensionOf(path)] ?? 'application/octet-stream',
    etag: createHash('sha256').update(packed).digest('base64url').slice(0, 22),
    encoded(encoding) {
      const known = made.get(encoding) ?? unpack(packed, encoding);
      made.set(encoding, known);
      return known;
    },
  };
}

async function unpack(packed: Buffer, encoding: Encoding): Promise<Buffer> {
  const content = await promisify(brotliDecompress)(packed);
  return encoding === 'gzip' ? promisify(gzip)(content, { level: 9 }) : content;
}

function extensionOf(path: string): string {
  return path.slice(path.lastIndexOf('.') + 1);
}
