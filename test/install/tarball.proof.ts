import { type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { eventually, getJson } from '../e2e/service.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const KEY = 'a key of the test, long enough';

/** A project of a user: nothing of it is in the checkout. */
let project: string;

async function run(command: string, args: readonly string[], options: SpawnOptions = {}) {
  // npm and what it starts use the Node that runs the test.
  const PATH = [dirname(process.execPath), process.env.PATH].join(delimiter);
  const env = { HOME: process.env.HOME ?? project, PATH, GREET_KEY: KEY };
  const child = spawn(command, args, { cwd: project, env, ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  expect(code, `${command} ${args.join(' ')}\n${stdout}\n${stderr}`).toBe(0);
  return stdout;
}

/** A lock file of the versions that the checkout has, without its devDependencies: `npm ci` takes them from npm's cache. */
async function writeProject(tarball: string): Promise<void> {
  const { name, dependencies, bin, version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));
  const lock = JSON.parse(await readFile(join(ROOT, 'package-lock.json'), 'utf8'));
  const others = Object.entries<{ dev?: boolean; devOptional?: boolean }>(lock.packages).filter(
    ([path, { dev, devOptional }]) => path !== '' && dev !== true && devOptional !== true,
  );
  const root = { name: 'consumer', dependencies: { [name]: `file:${tarball}` } };
  const packages = {
    '': root,
    [`node_modules/${name}`]: { version, resolved: `file:${tarball}`, dependencies, bin },
    ...Object.fromEntries(others),
  };
  await writeFile(join(project, 'package.json'), JSON.stringify({ ...root, private: true, type: 'module' }));
  await writeFile(
    join(project, 'package-lock.json'),
    JSON.stringify({ name: 'consumer', lockfileVersion: 3, requires: true, packages }),
  );
}

describe('the packed package, installed in another folder', () => {
  beforeAll(async () => {
    project = await mkdtemp(join(tmpdir(), 'sluice-'));
    const packed = await run('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', project], {
      cwd: ROOT,
    });
    await writeProject(JSON.parse(packed)[0].filename);
    await run('npm', ['ci', '--prefer-offline', '--no-audit', '--no-fund']);
    await cp(join(import.meta.dirname, 'consumer'), project, { recursive: true });
  }, 300_000);
  afterAll(() => rm(project, { recursive: true, force: true }));

  it('has types that a strict compiler accepts, and runs flows and the service from code', async () => {
    const compilerOptions = {
      target: 'ES2023',
      lib: ['ES2023'],
      module: 'NodeNext',
      strict: true,
      exactOptionalPropertyTypes: true,
      skipLibCheck: false,
      types: ['node'],
      typeRoots: [join(ROOT, 'node_modules/@types')],
      outDir: 'out',
    };
    await writeFile(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }));
    await run(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', project]);
    await run(process.execPath, ['out/use-package.js']);
  });

  it('serves with a config module, takes a signed delivery, and sends the page', async () => {
    const child = spawn(process.execPath, ['node_modules/@sluicehq/sluice/dist/cli.js', 'serve'], {
      cwd: project,
      env: { GREET_KEY: KEY, SLUICE_PORT: '0' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const hasExited = once(child, 'exit');
    onTestFinished(() => void child.kill('SIGKILL'));
    const url = await new Promise<string>((found, failed) => {
      createInterface({ input: child.stdout }).on('line', (line) => {
        const [, address] = /^Sluice listens on (\S+)$/.exec(line) ?? [];
        if (address !== undefined) found(address);
      });
      void hasExited.then(([code]) => failed(new Error(`serve ended with ${code}`)));
    });
    expect(await run('npx', ['--no', 'sluice', 'send', 'greet', '--to', url])).toMatch(/^200 /);
    const runs = () => getJson<{ status: string }[]>(`${url}/flows/api/runs`);
    await eventually(runs, ([first]) => first?.status === 'Succeeded');

    const page = await (await fetch(`${url}/flows`)).text();
    const files = [...page.matchAll(/"(\/flows\/assets\/[^"]+)"/g)].map(([, path]) => path);
    expect(files.length).toBeGreaterThanOrEqual(3);
    for (const path of files) expect((await fetch(`${url}${path}`)).status, path).toBe(200);

    child.kill('SIGTERM');
    expect(await hasExited).toEqual([0, null]);
  });
});
