import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { HttpError } from '../errors.ts';
import { type Asset, type Encoding, type PageAssets, readPageAssets } from './page-assets.ts';
import type { ApiRoutes } from './services.ts';

const ONE_YEAR_SECONDS = 31_536_000;

/** The page: one HTML shell for every address below `/flows` that is no API, and the files that it loads. */
export const pageRoutes: ApiRoutes = (app) => {
  const assets = readPageAssets();
  const shell = assets === undefined ? undefined : shellOf(assets);

  const sendShell = async (request: FastifyRequest, reply: FastifyReply) => {
    if (isReserved(request.url)) return reply.callNotFound();
    if (shell === undefined) throw new HttpError(404, 'The page is not built here; run npm run build');
    return reply
      .type('text/html; charset=utf-8')
      .header('content-security-policy', shell.csp)
      .send(shell.html(themeOf(request)));
  };
  for (const url of ['/flows', '/flows/*']) app.get(url, { schema: { hide: true } }, sendShell);

  app.get('/flows/assets/:version/*', { schema: { hide: true } }, async (request, reply) => {
    const { version = '', '*': path = '' } = request.params as { version?: string; '*'?: string };
    const asset = version === assets?.version ? assets.files.get(path) : undefined;
    return asset === undefined ? reply.callNotFound() : sendAsset(asset, request, reply);
  });
};

/** What these begin with is never a place of the page: an unknown one is answered as the API answers. */
export function isReserved(url: string): boolean {
  return /^\/flows\/(api|assets)(\/|\?|$)/.test(url);
}

async function sendAsset(asset: Asset, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const encoding = encodingFor(request.headers['accept-encoding']);
  const etag = `"${asset.etag}-${encoding}"`;
  reply.headers({
    // For this browser alone, because it asked with credentials; for ever, because the address changes with the bytes.
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

/** Kept in a cookie, so that the first byte of the page already has the colours that were chosen. */
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
