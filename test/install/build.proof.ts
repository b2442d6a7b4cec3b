import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';

const ROOT = resolve(import.meta.dirname, '../..');
const TIME_LIMIT_MS = 120_000;
const HOUR_MS = 3_600_000;

/** The smallest sources of a build: a service that loads one module only when told to. */
const SOURCES = {
  'serve.ts': `
    import { word } from './words.ts';
    export const serve = () => process.stdin.once('data', async () => {
      const { late } = await import('./late.ts');
      console.log(late(word));
      process.exit();
    });
    console.log('up');
    serve();
  `,
  'words.ts': `export const word = () => 'first';`,
  'late.ts': `
    import { word } from './words.ts';
    export const late = (given: () => string) => (given === word ? word() : 'of two builds');
  `,
  'cli.ts': 'export {};',
  // Before the first build, the types of the service do not exist.
  'main.ts': `export const serve: () => unknown = (await import('#service')).serve;`,
  'index.ts': 'export {};',
  'features/rehearsal/testing.ts': 'export {};',
  'commands/program.ts': 'export {};',
  'expressions/order-key.ts': 'export {};',
  'store/sqlite/worker.ts': `export { word } from '../../words.ts';`,
  'dashboard/web/main.tsx': 'export {};',
  'dashboard/web/styles/a.css': 'a {}',
  'dashboard/web/styles/sluice.svg': '<svg/>',
  'features/one/page.css': 'b {}',
};

const CHANGED = {
  'words.ts': `export const another = () => 'second';`,
  'late.ts': `
    import { another } from './words.ts';
    export const late = (given: () => string) => (given === another ? another() : 'of two builds');
  `,
  'serve.ts': SOURCES['serve.ts'].replaceAll('word }', 'another as word }'),
  'store/sqlite/worker.ts': `export { another } from '../../words.ts';`,
};

function checkout() {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-build-'));
  for (const name of ['scripts', 'tsconfig.json', 'package.json', 'package-lock.json'])
    cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const write = (sources: Record<string, string>) => {
    for (const [name, text] of Object.entries(sources)) {
      mkdirSync(dirname(join(folder, 'src', name)), { recursive: true });
      writeFileSync(join(folder, 'src', name), text);
    }
  };
  write(SOURCES);
  cpSync(join(ROOT, 'src/dashboard/web/tsconfig.json'), join(folder, 'src/dashboard/web/tsconfig.json'));
  const path = (name: string) => join(folder, name);
  const build = (...flags: string[]) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [path('scripts/build.mjs'), ...flags], {
      encoding: 'utf8',
    });
    return { status, said: stdout + stderr };
  };
  return { folder, path, write, build };
}

/** Starts the service of the current build; `late` makes it load its module and returns that module's output. */
async function start(entry: string) {
  const child: ChildProcess = spawn(process.execPath, [entry], { stdio: ['pipe', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill());
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  expect(await once(lines, 'line')).toEqual(['up']);
  return {
    late: async () => {
      child.stdin?.write('\n');
      // Its output may arrive after it has ended, but not after its pipes are closed.
      const [line] = await Promise.race([once(lines, 'line'), once(child, 'close')]);
      return line;
    },
  };
}

describe('a build', { timeout: TIME_LIMIT_MS }, () => {
  let made: ReturnType<typeof checkout>;
  beforeAll(() => {
    made = checkout();
    expect(made.build()).toEqual({ status: 0, said: '' });
    return () => rmSync(made.folder, { recursive: true });
  }, TIME_LIMIT_MS);
  const entry = () => made.path('dist/bundle/service.js');

  it.each(['--start', ''])('%s does nothing where every source is older', (flag) => {
    const before = statSync(entry()).ino;
    expect(made.build(...[flag].filter(Boolean))).toEqual({ status: 0, said: '' });
    expect(statSync(entry()).ino).toBe(before);
  });

  it('leaves what a service that runs has yet to load, and its own later', async () => {
    const running = await start(entry());
    made.write(CHANGED);
    expect(made.build()).toEqual({ status: 0, said: '' });
    // A second build, which finds the files that the first one replaced.
    made.write({ 'cli.ts': 'export const again = 1;' });
    expect(made.build()).toEqual({ status: 0, said: '' });
    expect(await running.late()).toBe('first');
    expect(await (await start(entry())).late()).toBe('second');
  });

  it('that fails leaves the former one, and says why', async () => {
    made.write({ 'cli.ts': 'export const wrong: number = "a word";' });
    const before = statSync(entry()).ino;
    expect(made.build()).toEqual({ status: expect.any(Number), said: expect.stringContaining('TS2322') });
    expect(made.build('--start').status).not.toBe(0);
    expect(statSync(entry()).ino).toBe(before);
    made.write({ 'cli.ts': 'export {};' });
    expect(made.build()).toEqual({ status: 0, said: '' });
  });

  it.each(["import('yaml')", "import('light-my-request')"])(
    'fails where a source has %s, which it leaves out',
    (code) => {
      made.write({ 'index.ts': `export const late = (): Promise<unknown> => ${code};` });
      const said = expect.stringMatching(/src\/index\.ts imports [\w-]+, which package-parts\.mjs leaves out/);
      expect(made.build()).toEqual({ status: expect.any(Number), said });
      expect(made.build().status).not.toBe(0);
      made.write({ 'index.ts': SOURCES['index.ts'] });
      expect(made.build()).toEqual({ status: 0, said: '' });
    },
  );

  it('sees a source that was deleted, and removes its module but no part of a bundle that may be loaded', () => {
    made.write({ 'gone.ts': 'export const gone = 1;' });
    made.build();
    expect(readdirSync(made.path('dist'))).toContain('gone.js');
    const bundled = readdirSync(made.path('dist/bundle'));
    rmSync(made.path('src/gone.ts'));
    expect(made.build()).toEqual({ status: 0, said: '' });
    expect(readdirSync(made.path('dist'))).not.toContain('gone.js');
    expect(readdirSync(made.path('dist/bundle'))).toEqual(expect.arrayContaining(bundled));
  });

  it('leaves nothing of its work next to dist/, also of one that was killed', () => {
    const { pid } = spawnSync(process.execPath, ['-e', '']);
    mkdirSync(made.path(`.dist-${pid}`));
    made.write({ 'cli.ts': 'export const later = 1;' });
    expect(made.build()).toEqual({ status: 0, said: '' });
    expect(readdirSync(made.folder).filter((name) => name.startsWith('.dist-'))).toEqual([]);
  });

  it('gives a package the parts of the present bundle alone, and removes those replaced for long', () => {
    const parts = () => readdirSync(made.path('dist/bundle')).filter((name) => name.endsWith('.js'));
    const listed = spawnSync('npm', ['pack', '--dry-run', '--ignore-scripts', '--json'], {
      cwd: made.folder,
      encoding: 'utf8',
    });
    const [{ files }] = JSON.parse(listed.stdout) as [{ files: { path: string }[] }];
    const packed = files.flatMap(({ path }) => /^dist\/bundle\/(.*\.js)$/.exec(path)?.[1] ?? []);
    expect(packed).toContain('service.js');
    const former = parts().filter((name) => !packed.includes(name));
    expect(
      former.some((name) => /["'`]first["'`]/.test(readFileSync(join(made.path('dist/bundle'), name), 'utf8'))),
    ).toBe(true);
    const longAgo = (Date.now() - 24 * 60 * HOUR_MS) / 1000;
    for (const name of former) utimesSync(join(made.path('dist/bundle'), name), longAgo, longAgo);
    made.write({ 'cli.ts': 'export const another = 1;' });
    expect(made.build()).toEqual({ status: 0, said: '' });
    expect(parts().filter((name) => former.includes(name))).toEqual([]);
  });
});
