import { beforeAll, expect, it } from 'vitest';
import type { SluiceApp } from '../../src/app.ts';
import { buildApp } from '../database.ts';
import { PAGES, ROOT } from './pages.ts';

interface Call {
  readonly method: string;
  readonly path: string;
  readonly query: readonly string[];
}

interface Operation {
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
}

function callOf(method: string, url: string): Call {
  const [path = '', query = ''] = url.replace(/[.:]$/, '').split('?');
  return { method, path, query: query === '' ? [] : query.split('&').map((pair) => pair.split('=')[0] ?? '') };
}

/** The page's calls: those named as `GET /path`, and those of its curl commands. */
function callsOf(text: string): Call[] {
  const named = text.matchAll(/\b(GET|POST|PUT|PATCH|DELETE) (\/(?:flows|health|metrics)[^\s`'"),]*)/g);
  const commands = [...text.matchAll(/\bcurl .*/g)].flatMap(([command]) => {
    const [, url] = /http:\/\/127\.0\.0\.1:3000(\/[^\s'"`]*)/.exec(command) ?? [];
    const [, method = / -d /.test(command) ? 'POST' : 'GET'] = /-X (\w+)/.exec(command) ?? [];
    return url === undefined ? [] : [callOf(method, url)];
  });
  return [...[...named].map(([, method = '', url = '']) => callOf(method, url)), ...commands];
}

let app: SluiceApp;
let paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
beforeAll(async () => {
  const settings = { databaseUrl: 'sqlite::memory:' };
  app = await buildApp({ settings, folder: ROOT });
  paths = (await app.fastify.inject('/flows/api/openapi.json')).json().paths;
});

/** The API's description lists neither itself nor the page's endpoints. */
const UNLISTED = ['/flows/api/openapi.json', '/flows/api/docs', '/flows/login', '/flows/logout'];

function problemOf({ method, path, query }: Call): string | undefined {
  if (UNLISTED.includes(path)) return undefined;
  const fits = (template: string) => {
    const [wanted, given] = [template.split('/'), path.split('/')];
    return wanted.length === given.length && wanted.every((part, at) => part === given[at] || part.startsWith('{'));
  };
  const operations = Object.keys(paths)
    .filter(fits)
    .flatMap((template) => paths[template]?.[method.toLowerCase()] ?? []);
  if (operations.length === 0) return `${method} ${path} is not in the API`;
  const known = operations.flatMap(({ parameters = [] }) => parameters.map(({ name }) => name));
  const unknown = query.filter((name) => !known.includes(name));
  return unknown.length === 0 ? undefined : `${method} ${path} has no ${unknown.join(', ')}`;
}

it.each(PAGES)('$name names operations and parameters that the API has', ({ text }) => {
  expect(callsOf(text).flatMap((call) => problemOf(call) ?? [])).toEqual([]);
});

it('finds the operations that pages name', () => {
  const all = PAGES.flatMap(({ text }) => callsOf(text));
  expect(all.length).toBeGreaterThan(60);
  expect(problemOf({ method: 'GET', path: '/flows/api/nothing', query: [] })).toContain('is not in the API');
  expect(problemOf({ method: 'GET', path: '/flows/api/runs', query: ['sort'] })).toContain('has no sort');
});
