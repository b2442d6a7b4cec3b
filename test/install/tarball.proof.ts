import { type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, statSync } from 'node:fs';
import { cp, readFile, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { packageName } from '../../src/version.ts';
import { eventually, getJson } from '../e2e/service.ts';
import { temporaryFolder } from '../temporary.ts';
import { startRegistry } from './registry.ts';
import { serveWith } from './serve.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const KEY = 'a key of the test, long enough';
/** 28 MB of it are better-sqlite3, with SQLite's source and a binary for each platform; 7 MB are the package. */
const INSTALLED_BYTES = 39_000_000;
const PACKED_BYTES = 1_600_000;

/** A user's environment: a home with npm's settings, and empty folders. */
let home: string;
let project: string;
let registry: Awaited<ReturnType<typeof startRegistry>>;

/** From the process's environment: network settings, but nothing of the npm that runs the test. */
const given = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(npm_|SLUICE_|NODE_ENV)/i.test(name)),
);

const env = (): Record<string, string> => ({
  ...(given as Record<string, string>),
  HOME: home,
  // npm and its child processes use the Node that runs the test.
  PATH: [dirname(process.execPath), process.env.PATH].join(delimiter),
  // Not shared: npx caches by name, and each run has a different package.
  npm_config_cache: join(home, 'cache'),
  npm_config_update_notifier: 'false',
  npm_config_yes: 'true',
  SLUICE_PORT: '0',
  GREET_KEY: KEY,
});

async function run(command: string, args: readonly string[], options: SpawnOptions = {}) {
  const child = spawn(command, args, { cwd: project, env: env(), ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  expect(code, `${command} ${args.join(' ')}\n${stdout}\n${stderr}`).toBe(0);
  return { stdout, stderr };
}

function folder(name: string): string {
  mkdirSync(join(home, name));
  return join(home, name);
}

const sizeOf = (at: string): number =>
  readdirSync(at, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((bytes, entry) => bytes + statSync(join(entry.parentPath, entry.name)).size, 0);

describe('the package, published and installed in folders of their own', () => {
  beforeAll(async () => {
    home = temporaryFolder('home');
    project = folder('project');
    registry = await startRegistry();
    const [scope] = packageName.split('/');
    const usual = await readFile(join(homedir(), '.npmrc'), 'utf8').catch(() => '');
    const host = registry.url.replace('http:', '');
    await writeFile(join(home, '.npmrc'), `${usual}\n${scope}:registry=${registry.url}\n${host}/:_authToken=any\n`);
    const packing = ['pack', '--json', '--pack-destination', home];
    const [{ filename, size }] = JSON.parse((await run('npm', packing, { cwd: ROOT })).stdout);
    expect(size).toBeLessThan(PACKED_BYTES);
    await run('npm', ['publish', join(home, filename), '--registry', registry.url, '--provenance=false']);
  }, 300_000);
  afterAll(async () => {
    registry.close();
  });

  it('npx serves in an empty folder, and its send finds the flow that is written there', async () => {
    const cwd = folder('empty');
    const { url, lines, stop } = await serveWith(['npx', '-y', packageName, 'serve'], { cwd, env: env() });
    const [, proposed = ''] = /^ {2}(npx .+ send github --to .+)$/m.exec(lines.join('\n')) ?? [];
    const [npx = '', ...args] = proposed.split(' ');
    expect((await run(npx, args, { cwd })).stdout).toMatch(/^200 /);
    const runs = () => getJson<{ status: string }[]>(`${url}/flows/api/runs`);
    await eventually(runs, ([first]) => first?.status === 'Succeeded');
    // npx ends with an exit code of its own.
    await stop();
    expect(lines.at(-1)).toContain('"msg":"stopped"');
  });

  it('installs without a warning, and with nothing that it does not need', async () => {
    await writeFile(join(project, 'package.json'), JSON.stringify({ name: 'consumer', private: true, type: 'module' }));
    const { stderr } = await run('npm', ['install', packageName, '--no-audit', '--no-fund']);
    expect(stderr).toBe('');
    const modules = join(project, 'node_modules');
    const installed = readdirSync(modules).filter((name) => !name.startsWith('.'));
    expect(installed.sort()).toEqual(['@sluicehq', 'better-sqlite3', 'jiti', 'node-addon-api'].sort());
    expect(sizeOf(modules)).toBeLessThan(INSTALLED_BYTES);
    const sbom = JSON.parse(await readFile(join(modules, packageName, 'dist/sbom.cdx.json'), 'utf8'));
    const { stdout } = await run('npx', ['sluice', '--version', '--json']);
    const listed = new Set(
      sbom.components.map(({ group, name }: { group?: string; name: string }) => (group ? `${group}/${name}` : name)),
    );
    expect(Object.keys(JSON.parse(stdout).bundled).filter((name) => !listed.has(name))).toEqual([]);
  });

  it.each([
    ['typescript', 'node_modules/typescript'],
    ['typescript-5', 'test/oracles/node_modules/typescript-5'],
  ])('has types that a strict %s accepts', async (_, compiler) => {
    await cp(join(import.meta.dirname, 'consumer'), project, { recursive: true });
    const compilerOptions = {
      target: 'ES2023',
      lib: ['ES2023'],
      module: 'NodeNext',
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      skipLibCheck: false,
      types: ['node'],
      typeRoots: [join(ROOT, 'node_modules/@types')],
      outDir: 'out',
    };
    await writeFile(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }));
    await run(process.execPath, [join(ROOT, compiler, 'bin/tsc'), '-p', project]);
  });

  it('runs flows and the service from code', async () => {
    await run(process.execPath, ['out/use-package.js']);
  });

  it('serves with a config module, takes a signed delivery, and sends the page', async () => {
    const command = [process.execPath, `node_modules/${packageName}/dist/cli.js`, 'serve'] as const;
    const { url, stop } = await serveWith([...command], { cwd: project, env: env() });
    expect((await run('npx', ['--no', 'sluice', 'send', 'greet', '--to', url])).stdout).toMatch(/^200 /);
    const runs = () => getJson<{ status: string }[]>(`${url}/flows/api/runs`);
    await eventually(runs, ([first]) => first?.status === 'Succeeded');

    const page = await (await fetch(`${url}/flows`)).text();
    const files = [...page.matchAll(/"(\/flows\/assets\/[^"]+)"/g)].map(([, path]) => path);
    expect(files.length).toBeGreaterThanOrEqual(3);
    for (const path of files) expect((await fetch(`${url}${path}`)).status, path).toBe(200);
    expect(await stop()).toEqual([0, null]);
  });

  it('npx sluice new writes a flow of the project, which check and serve take', async () => {
    const { stdout } = await run('npx', ['--no', 'sluice', 'new', '--publisher', 'GitHub', '--generate-key']);
    expect(stdout).toContain('  npx sluice send github');
    expect((await run('npx', ['--no', 'sluice', 'check'])).stdout).toContain('2 flows can be deployed, 0 errors');
    const command = [process.execPath, `node_modules/${packageName}/dist/main.js`] as const;
    const { url, stop } = await serveWith([...command], { cwd: project, env: env() });
    expect((await run('npx', ['--no', 'sluice', 'send', 'github', '--to', url])).stdout).toMatch(/^200 /);
    expect(await stop()).toEqual([0, null]);
  });
});
