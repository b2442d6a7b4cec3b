import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { serviceParts } from '../../src/features/service.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const FEATURES = join(ROOT, 'src/features');
const LISTS = ['service.ts', 'attention.ts', 'store.ts', 'plan.ts', 'command.ts', 'page.ts'];
const names = readdirSync(FEATURES, { withFileTypes: true }).flatMap((entry) =>
  entry.isDirectory() ? [entry.name] : [],
);

describe('the lists of features', () => {
  let tree: string;
  const text = (list: string, root = tree) => readFileSync(join(root, 'src/features', list), 'utf8');
  const write = () => execFileSync(process.execPath, [join(ROOT, 'scripts/features.mjs'), tree]);
  beforeEach(() => {
    tree = mkdtempSync(join(tmpdir(), 'sluice-features-'));
    cpSync(FEATURES, join(tree, 'src/features'), { recursive: true });
  });
  afterEach(() => rmSync(tree, { recursive: true, force: true }));

  it('are what `npm run features` writes', () => {
    write();
    for (const list of LISTS) expect(text(list), list).toBe(text(list, ROOT));
  });

  it.each(names)('lose %s with its folder, and have it again with it', (name) => {
    const folder = join(tree, 'src/features', name);
    rmSync(folder, { recursive: true });
    write();
    for (const list of LISTS) expect(text(list), list).not.toContain(`'./${name}/`);
    cpSync(join(FEATURES, name), folder, { recursive: true });
    write();
    const faces = readdirSync(folder);
    for (const list of LISTS) {
      const has = faces.some((file) => file === list || file === `${list}x`);
      expect(text(list).includes(`'./${name}/`), list).toBe(has);
    }
  });
});

describe.each(names)('the feature %s', (name) => {
  const files = readdirSync(join(FEATURES, name));
  const readme = readFileSync(join(FEATURES, name, 'README.md'), 'utf8');

  it('has a README of at most 15 lines that says what it needs', () => {
    expect(readme.split('\n').length).toBeLessThanOrEqual(16);
    expect(readme).toMatch(new RegExp(`^# ${name}\n`));
    expect(readme).toMatch(/^- Needs: \S/m);
  });

  it('imports no other feature than it needs', () => {
    const needs = /^- Needs: (.*)\.$/m.exec(readme)?.[1]?.split(', ') ?? [];
    const imported = files
      .filter((file) => /\.tsx?$/.test(file))
      .flatMap((file) => [...readFileSync(join(FEATURES, name, file), 'utf8').matchAll(/from '\.\.\/([\w-]+)\//g)])
      .map(([, other]) => other);
    expect(needs).toEqual(expect.arrayContaining(imported));
  });
});

/** What the package's `testing` is made of, and what the kernel's pages of a delivery and of a run show. */
const KERNEL_USES: Readonly<Record<string, readonly string[]>> = {
  'testing.ts': ['rehearsal'],
  'dashboard/web/api-types.ts': ['deliveries', 'deploys', 'flows', 'review', 'revisions', 'runs', 'schemes'],
};

it('no file outside of a feature imports it but the lists, not even a type', () => {
  const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' });
  const kernel = sources.filter((file) => /\.tsx?$/.test(file) && !file.startsWith('features/'));
  const found = kernel.flatMap((file) => {
    const text = readFileSync(join(ROOT, 'src', file), 'utf8');
    const imported = [...text.matchAll(/from '[^']*features\/([\w-]+)\//g)].flatMap(([, name = '']) => name);
    return imported.filter((name) => KERNEL_USES[file]?.includes(name) !== true).map((name) => `${file}: ${name}`);
  });
  expect(found).toEqual([]);
});

it('two parts of the service never have one name', () => {
  const all = serviceParts.map(({ name }) => name);
  expect(all).toEqual([...new Set(all)]);
});
