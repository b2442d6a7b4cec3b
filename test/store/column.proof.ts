import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { createWorkspace, getJson, githubManifest, startService } from '../e2e/service.ts';
import { temporaryFolder } from '../temporary.ts';

const ROOT = resolve(import.meta.dirname, '../..');

interface Edit {
  readonly file: string;
  /** The line before the added one. */
  readonly after: string;
  readonly line: string;
  /** Whether the compiler does not notice if it is missing. */
  readonly isMissed: boolean;
}

// The recipe in CONTRIBUTING.md: a delivery's country, from a proxy's header.
const EDITS: readonly Edit[] = [
  {
    file: 'src/model/delivery.ts',
    after: '  readonly usedPreviousKey: boolean;',
    line: '  readonly country: string | null;',
    isMissed: true,
  },
  {
    file: 'src/webhooks/record.ts',
    after: '    usedPreviousKey: judgement.evidence.usedPreviousKey ?? false,',
    line: "    country: delivery.headers['x-country'] ?? null,",
    isMissed: true,
  },
  {
    file: 'src/store/tables.ts',
    after: "      redelivered_from: 'id',",
    line: "      country: 'text',",
    isMissed: true,
  },
  {
    file: 'src/store/migrations/0001-tables.ts',
    after: '    redelivered_from uuid,',
    line: '    country text,',
    isMissed: false,
  },
  {
    file: 'src/store/new-rows.ts',
    after: '    redelivered_from: record.redeliveredFrom ?? null,',
    line: '    country: record.country,',
    isMissed: true,
  },
  {
    file: 'src/features/deliveries/service.ts',
    after: '    usedPreviousKey: z.boolean(),',
    line: "    country: z.string().nullable().describe('The country that a proxy named.'),",
    isMissed: false,
  },
];

let tree: string;
beforeAll(() => {
  tree = temporaryFolder('column');
  for (const name of ['src', 'scripts', 'docs', 'dist', 'package.json', 'package-lock.json', 'tsconfig.json']) {
    cpSync(join(ROOT, name), join(tree, name), { recursive: true, filter: (path) => !path.includes('compile-cache') });
  }
  symlinkSync(join(ROOT, 'node_modules'), join(tree, 'node_modules'));
});

/** Applies the recipe to the copy, except for one file. */
function follow(recipe: readonly Edit[]): void {
  for (const { file, after, line } of EDITS) {
    const text = readFileSync(join(ROOT, file), 'utf8');
    expect(text.split(`${after}\n`), file).toHaveLength(2);
    const isEdited = recipe.some((edit) => edit.file === file);
    writeFileSync(join(tree, file), isEdited ? text.replace(`${after}\n`, () => `${after}\n${line}\n`) : text);
  }
}

/** The compiler's output for the copy. */
function compile(): string {
  const { stdout } = spawnSync(process.execPath, ['node_modules/typescript/bin/tsc', '--noEmit', '-p', '.'], {
    cwd: tree,
    encoding: 'utf8',
  });
  return stdout;
}

test.each(EDITS.filter(({ isMissed }) => isMissed))('a column of deliveries does not compile without $file', (left) => {
  follow(EDITS.filter((edit) => edit !== left));
  expect(compile()).toMatch(/error TS.*country/);
});

test('a column of deliveries is stored and shown after six files of one line each', async () => {
  follow(EDITS);
  execFileSync(process.execPath, ['scripts/build.mjs'], { cwd: tree });
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', githubManifest());
  const { url, stop } = await startService(workspace, {}, tree);
  onTestFinished(() => void stop('SIGKILL'));
  await fetch(`${url}/flows/api/webhook/push`, { method: 'POST', headers: { 'x-country': 'CH' }, body: '{}' });
  expect(await getJson(`${url}/flows/api/webhooks/recent`)).toMatchObject([{ country: 'CH' }]);
});
