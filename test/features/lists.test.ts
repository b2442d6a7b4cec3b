import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { serviceParts } from '../../src/features/service.ts';
import { temporaryFolder } from '../temporary.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const FEATURES = join(ROOT, 'src/features');
const LISTS = [
  'service.ts',
  'attention.ts',
  'store.ts',
  'placer.ts',
  'follower.ts',
  'manifest.ts',
  'trigger.ts',
  'reader.ts',
  'trigger-view.ts',
  'step-types.ts',
  'settings.ts',
  'settings-check.ts',
  'metrics.ts',
  'events.ts',
  'plan.ts',
  'changes.ts',
  'access.ts',
  'command.ts',
  'page.ts',
];
const names = readdirSync(FEATURES, { withFileTypes: true }).flatMap((entry) =>
  entry.isDirectory() ? [entry.name] : [],
);

describe('the lists of features', () => {
  let folder: string;
  const written = (list: string, tree: string) => readFileSync(join(folder, tree, 'src/features', list), 'utf8');
  const write = (trees: readonly string[]) => {
    const paths = trees.map((tree) => join(folder, tree));
    execFileSync(process.execPath, [join(ROOT, 'scripts/features.mjs'), ...paths]);
  };
  // One process for all trees: starting one for each took longer than everything else here.
  let without: Record<string, string>;
  beforeAll(() => {
    folder = temporaryFolder('features');
    for (const tree of ['all', ...names]) copyFeatures(join(folder, tree, 'src/features'), tree === 'all');
    for (const name of names) rmSync(join(folder, name, 'src/features', name), { recursive: true });
    write(['all', ...names]);
    without = Object.fromEntries(
      names.map((name) => [name, LISTS.map((list) => written(list, name)).join('\n')] as const),
    );
    for (const name of names) copyFeature(name, join(folder, name, 'src/features'));
    write(names);
  });

  it('are what `npm run features` writes', () => {
    for (const list of LISTS) expect(written(list, 'all'), list).toBe(readFileSync(join(FEATURES, list), 'utf8'));
  });

  it.each(names)('lose %s with its folder, and have it again with it', (name) => {
    expect(without[name]).not.toContain(`'./${name}/`);
    const faces = readdirSync(join(FEATURES, name));
    for (const list of LISTS) {
      const has = faces.some((file) => file === list || file === `${list}x`);
      expect(written(list, name).includes(`'./${name}/`), list).toBe(has);
    }
  });
});

/** Copies the lists, and the names of features' files: one tree gets all files, the others only those with a list. */
function copyFeatures(folder: string, isFull: boolean): void {
  mkdirSync(folder, { recursive: true });
  for (const list of LISTS) copyFileSync(join(FEATURES, list), join(folder, list));
  for (const name of names) copyFeature(name, folder, isFull);
}

function copyFeature(name: string, folder: string, isFull = true): void {
  mkdirSync(join(folder, name));
  for (const file of readdirSync(join(FEATURES, name))) {
    if (isFull || LISTS.includes(file.replace(/x$/, ''))) writeFileSync(join(folder, name, file), '');
  }
}

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

/** The features that the kernel's pages of a delivery and of a run show. */
const KERNEL_USES: Readonly<Record<string, readonly string[]>> = {
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
