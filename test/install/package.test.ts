import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { resolve } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';

const ROOT = resolve(import.meta.dirname, '../..');
const { dependencies, scripts } = JSON.parse(readFileSync(resolve(ROOT, 'package.json'), 'utf8')) as {
  dependencies: Record<string, string>;
  scripts: Record<string, string>;
};

/** Static imports and re-exports, dynamic imports, and imported types. */
const SPECIFIER = /(?:\b(?:from|import)\s*["']|\bimport\s*\(\s*["'`])(#?[@\w.][\w@./-]*)["'`]/g;
const COMMENT_LINE = /^\s*(\/\/|\*|\/\*).*$/gm;

const textOf = (file: string) => readFileSync(resolve(ROOT, file), 'utf8').replace(COMMENT_LINE, '');

describe('the package', () => {
  let files: string[];
  beforeAll(() => {
    const listed = execFileSync('npm', ['pack', '--dry-run', '--ignore-scripts', '--json'], {
      cwd: ROOT,
      stdio: ['ignore', 'pipe', 'ignore'],
      encoding: 'utf8',
    });
    files = (JSON.parse(listed) as [{ files: { path: string }[] }])[0].files.map(({ path }) => path);
  });

  it('holds the build, the schema of manifests and what says what it is, and nothing else', () => {
    const others = files.filter((file) => !file.startsWith('dist/'));
    expect(others.sort()).toEqual(['LICENSE', 'README.md', 'manifests/manifest.schema.json', 'package.json']);
    const kinds = new Set(
      files.filter((file) => file.startsWith('dist/')).map((file) => /(\.d)?\.\w+$/.exec(file)?.[0]),
    );
    expect([...kinds].sort()).toEqual(['.br', '.d.ts', '.js', '.json', '.txt']);
  });

  it('holds every file that package.json points to', () => {
    const { exports, imports, bin } = JSON.parse(readFileSync(resolve(ROOT, 'package.json'), 'utf8'));
    const named = JSON.stringify([exports, imports, bin]).match(/dist\/[^"]+/g) ?? [];
    expect(named.length).toBeGreaterThan(5);
    expect(named.filter((file) => !files.includes(file))).toEqual([]);
  });

  it('has no script that an install of it runs or warns of', () => {
    expect(Object.keys(scripts).filter((name) => /^(pre|post)?(install|prepare)$/.test(name))).toEqual([]);
  });

  it('imports no package that it does not depend on, in code and in types', () => {
    const code = files.filter((file) => /^dist\/.*\.(js|d\.ts)$/.test(file));
    const imported = new Map<string, string>();
    for (const file of code) {
      for (const [, name = ''] of textOf(file).matchAll(SPECIFIER)) {
        if (/^[.#]/.test(name) || isBuiltin(name)) continue;
        imported.set(name.split('/', name.startsWith('@') ? 2 : 1).join('/'), file);
      }
    }
    // graphile-config has `my-plugin` and `my-preset` in its error messages.
    const examples = ['my-plugin', 'my-preset'];
    expect([...imported.keys()].filter((name) => !examples.includes(name)).sort()).toEqual(Object.keys(dependencies));
    // Packages installed with it are not in the bundle too.
    const bundled: { name: string }[] = JSON.parse(readFileSync(resolve(ROOT, 'dist/bundled.json'), 'utf8'));
    expect(bundled.filter(({ name }) => name in dependencies)).toEqual([]);
  });
});
