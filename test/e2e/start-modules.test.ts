import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it, test } from 'vitest';
import { temporaryFolder } from '../temporary.ts';
import { createWorkspace, githubManifest, startService, type Workspace } from './service.ts';

const LISTER = pathToFileURL(resolve(import.meta.dirname, 'list-modules.mjs')).href;
/** Each file costs start time; before bundling, the service loaded 913. */
const MOST_FILES = 70;

describe('a start, and the first deliveries', () => {
  let workspace: Workspace;
  let loaded: string[];
  beforeAll(async () => {
    workspace = await createWorkspace();
    await workspace.writeManifest('push.json', githubManifest());
    const file = join(workspace.folder, 'modules.json');
    const service = await startService(workspace, { NODE_OPTIONS: `--import=${LISTER}`, MODULES_FILE: file });
    const answer = await fetch(`${service.url}/flows/api/webhook/push`, { method: 'POST', body: '{}' });
    expect(answer.status).toBe(200);
    await service.stop('SIGTERM');
    loaded = JSON.parse(await readFile(file, 'utf8'));
  });

  /** A file of the bundle counts as its source modules. */
  async function modulesIn(name: string): Promise<string[]> {
    const map = /^file:.*\/dist\/bundle\/.*\.js$/.test(name) ? `${fileURLToPath(name)}.map` : '';
    return existsSync(map) ? JSON.parse(await readFile(map, 'utf8')).sources : [name];
  }

  it(`load at most ${MOST_FILES} files`, () => {
    const files = loaded.filter((name) => name.startsWith('file:'));
    expect(files.length, files.join('\n')).toBeLessThanOrEqual(MOST_FILES);
    expect(files.some((file) => file.endsWith('/dist/bundle/service.js'))).toBe(true);
  });

  it.each([
    ['the HTTP client of steps', /\/node_modules\/undici\//],
    ["Node's own HTTP client", /^node:internal\/deps\/undici/],
    ['what makes the OpenAPI document', /\/node_modules\/@fastify\/swagger\//],
    ['the loader of TypeScript', /\/jiti\//],
    ['the driver of PostgreSQL', /\/node_modules\/pg\//],
    ['the jobs of replicas', /\/node_modules\/graphile-worker\//],
    ['the tracing SDK', /\/node_modules\/@opentelemetry\/sdk/],
    ['the mailer', /\/node_modules\/nodemailer\//],
  ])('do not load %s', async (_, pattern) => {
    const modules = (await Promise.all(loaded.map(modulesIn))).flat();
    expect(modules.some((name) => name.includes('/node_modules/fastify/'))).toBe(true);
    expect(modules.filter((name) => pattern.test(name))).toEqual([]);
  });
});

test("the command line, which starts the service too, does not load Node's own HTTP client", async () => {
  const folder = temporaryFolder('modules');
  const env = { ...process.env, MODULES_FILE: join(folder, 'modules.json') };
  const cli = resolve(import.meta.dirname, '../../dist/cli.js');
  await promisify(execFile)(process.execPath, [`--import=${LISTER}`, cli, '--help'], { cwd: folder, env });
  const loaded: string[] = JSON.parse(await readFile(env.MODULES_FILE, 'utf8'));
  expect(loaded).toContain('node:net');
  expect(loaded.filter((name) => name.startsWith('node:internal/deps/undici'))).toEqual([]);
});

test('the threads of SQLite load no expressions', async () => {
  const bundle = resolve(import.meta.dirname, '../../dist/bundle');
  const files = new Set(['sqlite-worker.js']);
  for (const file of files) {
    const code = await readFile(join(bundle, file), 'utf8');
    for (const [, name = ''] of code.matchAll(/(?:from|import)\s*"\.\/([^"]+)"/g)) files.add(name);
  }
  const maps = await Promise.all([...files].map((file) => readFile(join(bundle, `${file}.map`), 'utf8')));
  const modules = maps.flatMap((map): string[] => JSON.parse(map).sources);
  expect(modules.some((name) => name.endsWith('/src/store/sqlite/worker.ts'))).toBe(true);
  expect(modules.filter((name) => /\/src\/expressions\/|\/cel-js\//.test(name))).toEqual([]);
});
