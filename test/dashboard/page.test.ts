import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { startDashboard, type TestDashboard, useDashboard } from './fixture.ts';

/** The most that all scripts together may weigh on the wire. */
const MAX_SCRIPT_BYTES = 120 * 1024;
const MAX_EDITOR_BYTES = 140 * 1024;

const dashboard = useDashboard();
let shell: string;

beforeAll(async () => {
  shell = (await dashboard.app.inject('/flows')).body;
});

const addresses = (pattern: RegExp) => [...shell.matchAll(pattern)].map(([, url = '']) => url);
const loaded = () => [...new Set(addresses(/<(?:link rel="modulepreload" href|script type="module" src)="([^"]+)"/g))];
/** Includes scripts that another script loads when needed. */
const scripts = () => [...loaded(), ...LATER.map(siblingOf)];
const LATER = ['dagre.esm.js'];
/** Loaded only by the form that deploys a manifest. */
const EDITOR = 'manifest-editor.js';
const siblingOf = (name: string) => (loaded()[0] ?? '').replace(/[^/]*$/, name);
const styles = () => addresses(/<link rel="stylesheet" href="([^"]+)"/g);
const get = (url: string, headers: Record<string, string> = {}) => dashboard.app.inject({ url, headers });

describe('the shell', () => {
  it('says what the service is called, as text', async () => {
    const named = await startDashboard({ serviceName: '"shop" <prod>' });
    const { body } = await named.app.inject('/flows');
    await named.close();
    expect(body).toContain('<title>&#34;shop&#34; &#60;prod&#62;</title>');
    expect(body).toContain('<meta name="application-name" content="&#34;shop&#34; &#60;prod&#62;">');
  });

  it.each(['/flows', '/flows/', '/flows/deliveries/x', '/flows/nothing/like/this', '/flows/apis', '/flows?a=%00'])(
    'is served at %s',
    async (url) => {
      const response = await get(url);
      expect(response.statusCode).toBe(200);
      expect(response.headers['content-type']).toBe('text/html; charset=utf-8');
      expect(response.headers['cache-control']).toBe('no-store');
      expect(response.body).toBe(shell);
    },
  );

  it.each(['/flows/api/nothing', '/flows/api', '/flows/api/webhook/x', '/flows/assets', '/flows/assets/x/main.js'])(
    'is not served at %s, which is no place of the page',
    async (url) => {
      const response = await get(url);
      expect(response.statusCode).toBe(404);
      expect(response.json()).toMatchObject({ statusCode: 404, error: 'Not Found' });
    },
  );

  it.each(['/flows', '/flows/', '/flows/deliveries/x'])('is only read: nothing can be posted to %s', async (url) => {
    const response = await dashboard.app.inject({ method: 'POST', url });
    expect(response.statusCode).toBe(405);
    expect(String(response.headers.allow).split(', ').sort()).toEqual(['GET', 'HEAD']);
  });

  it.each(['/flows/api/nothing', '/flows/api', '/flows/assets', '/flows/assets/x/main.js'])(
    'is not at %s for other methods either',
    async (url) => {
      expect((await dashboard.app.inject({ method: 'POST', url })).statusCode).toBe(404);
    },
  );

  it('allows its own files and nothing else', async () => {
    const { headers } = await get('/flows');
    expect(headers['content-security-policy']).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    );
    expect(shell).not.toMatch(/style=|\son\w+=|<style|https?:/);
    expect(shell).not.toMatch(/<script(?! type="module" src=)/);
  });

  it('names few files, so that rows appear soon on a slow way', () => {
    expect(loaded().length + styles().length).toBeLessThan(5);
  });

  it.each([
    ['sluice-theme=dark', '<html lang="en" data-theme="dark">'],
    ['a=b; sluice-theme=light', '<html lang="en" data-theme="light">'],
    ['sluice-theme="><script>', '<html lang="en">'],
    ['not-sluice-theme=dark', '<html lang="en">'],
  ])('with the cookie %s begins with %s', async (cookie, html) => {
    expect((await get('/flows', { cookie })).body).toContain(html);
  });
});

describe('the address of the service alone', () => {
  it('leads to the page', async () => {
    const { statusCode, headers } = await get('/');
    expect([statusCode, headers.location]).toEqual([302, '/flows']);
  });
});

describe('the files of the page', () => {
  it('are all there, of the right type, and are kept for ever under an address that changes with them', async () => {
    for (const url of [...scripts(), ...styles(), ...addresses(/<link rel="icon"[^>]* href="([^"]+)"/g)]) {
      const { statusCode, headers } = await get(url);
      expect([url, statusCode]).toEqual([url, 200]);
      expect(headers['content-type']).toMatch(
        url.endsWith('.js') ? /^text\/javascript/ : url.endsWith('.css') ? /^text\/css/ : /^image\/svg\+xml/,
      );
      expect(headers['cache-control']).toBe('private, max-age=31536000, immutable');
      expect(headers['x-content-type-options']).toBe('nosniff');
    }
  });

  it('name only files that exist', async () => {
    const known = new Set([...scripts(), siblingOf(EDITOR)]);
    for (const url of known) {
      const { body } = await get(url);
      const named = body.matchAll(/(?:\bfrom|\bimport|\bimport\()\s*["'`]([^"'`\n]+\.js)["'`]/g);
      for (const [, specifier = ''] of named) {
        const target = new URL(specifier, `http://host${url}`).pathname;
        expect([url, specifier, known.has(target)]).toEqual([url, specifier, true]);
      }
    }
  });

  it.each([
    ['br', 'br', brotliDecompressSync],
    ['gzip, deflate, br', 'br', brotliDecompressSync],
    ['gzip', 'gzip', gunzipSync],
    ['br;q=0, gzip;q=0.5', 'gzip', gunzipSync],
    ['', undefined, (body: Buffer) => body],
  ] as const)('with Accept-Encoding: %s come as %s and are the same', async (accepted, encoding, decode) => {
    const url = scripts()[0] ?? '';
    const plain = await get(url, { 'accept-encoding': 'identity' });
    const encoded = await get(url, { 'accept-encoding': accepted });
    expect(encoded.headers['content-encoding']).toBe(encoding);
    expect(encoded.headers.vary).toBe('accept-encoding');
    expect(decode(encoded.rawPayload).toString()).toBe(plain.body);
  });

  it('are not sent again to a browser that has them', async () => {
    const url = scripts()[0] ?? '';
    const first = await get(url, { 'accept-encoding': 'br' });
    const again = await get(url, { 'accept-encoding': 'br', 'if-none-match': String(first.headers.etag) });
    expect(again.statusCode).toBe(304);
    expect(again.body).toBe('');
    expect((await get(url, { 'accept-encoding': 'br', 'if-none-match': '"other"' })).statusCode).toBe(200);
  });

  it.each([
    '../../../package.json',
    '..%2f..%2f..%2fpackage.json',
    '%2e%2e/%2e%2e/app.js',
    'main.js/../../../../app.js',
    '/etc/passwd',
    '.tsbuildinfo',
    'main.js%00',
    '__proto__',
  ])('are a closed list: %s is not served', async (path) => {
    const folder = scripts()[0]?.replace(/[^/]*$/, '') ?? '';
    const response = await get(`${folder}${path}`);
    expect([200, 404]).toContain(response.statusCode);
    // The client may resolve the path to a place of the page first; it is never a file.
    expect(response.headers['content-type']).toMatch(/^(application\/json|text\/html)/);
    expect(response.body).not.toContain('"dependencies"');
  });

  it.each([
    // Browsers take Brotli only from localhost and over TLS, so the page must be light without it too.
    ['gzip', 'what it loads at once', () => loaded()],
    ['br', 'all there is, the layout of graphs included', () => scripts()],
  ] as const)('weigh, as %s, less than the page may: %s', async (encoding, _what, chosen) => {
    let total = 0;
    for (const url of chosen()) total += (await get(url, { 'accept-encoding': encoding })).rawPayload.byteLength;
    expect(total).toBeGreaterThan(20_000);
    expect(total).toBeLessThan(MAX_SCRIPT_BYTES);
  });
});

it('the editor of manifests weighs, as gzip, less than it may', async () => {
  const { rawPayload } = await get(siblingOf(EDITOR), { 'accept-encoding': 'gzip' });
  expect(rawPayload.byteLength).toBeGreaterThan(20_000);
  expect(rawPayload.byteLength).toBeLessThan(MAX_EDITOR_BYTES);
});

describe('where the dashboard has credentials', () => {
  let guarded: TestDashboard;
  const authorization = `Basic ${Buffer.from('ops:right').toString('base64')}`;
  beforeAll(async () => {
    guarded = await startDashboard({ access: { kind: 'credentials', basic: { user: 'ops', password: 'right' } } });
  });

  it.each(['/flows', '/flows/deliveries', '/flows/assets/x/main.js'])(
    '%s asks for them as the API does',
    async (url) => {
      const response = await guarded.app.inject(url);
      expect(response.statusCode).toBe(401);
      expect(String(response.headers['www-authenticate'])).toMatch(/^Basic realm="Sluice"/);
      expect(response.json()).toMatchObject({ reason: 'unauthorized' });
    },
  );

  it('shows the page and its files only with credentials', async () => {
    const page = await guarded.app.inject({ url: '/flows', headers: { authorization } });
    expect(page.statusCode).toBe(200);
    const file = await guarded.app.inject({ url: scripts()[0] ?? '', headers: { authorization } });
    expect(file.statusCode).toBe(200);
    expect((await guarded.app.inject(scripts()[0] ?? '')).statusCode).toBe(401);
  });
});
