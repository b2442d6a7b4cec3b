import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { HandlerTable } from '../../flows/handlers/index.ts';
import type { ManifestIssue } from '../../manifest/issues.ts';
import { type LoadedFlow, listFiles, MAX_MANIFEST_BYTES } from '../../manifest/load.ts';
import { readManifest } from '../../manifest/parse.ts';
import { readTextFile, whyUnread } from '../../manifest/read-file.ts';
import { readSavedTest } from './saved-test.ts';

const NOT_READ = 'is not read in a test';

/** Reads a manifest without reading secrets, whether they exist or not. Undefined if it has another error. */
export function readTestedFlow(
  text: string,
  file: string,
  handlers: HandlerTable,
): { readonly flow: LoadedFlow | undefined; readonly errors: readonly ManifestIssue[] } {
  const rules = { handlers, readSecret: () => ({ error: NOT_READ }), strict: false, checks: [], sealsSecrets: true };
  const { flow, issues } = readManifest(text, file, rules);
  const errors = issues.filter(({ severity, message }) => severity === 'error' && !message.includes(NOT_READ));
  return { flow: errors.length === 0 ? flow : undefined, errors };
}

/** The flows of a manifest folder, and the errors of manifests that cannot be read. */
export async function readTestedFlows(
  folder: string,
  handlers: HandlerTable,
): Promise<{ readonly flows: readonly LoadedFlow[]; readonly issues: readonly ManifestIssue[] }> {
  const files = await listFiles(folder);
  if ('error' in files) return { flows: [], issues: [files.error] };
  const flows: LoadedFlow[] = [];
  const issues: ManifestIssue[] = [];
  for (const file of files.names) {
    try {
      const { flow, errors } = readTestedFlow(await readTextFile(file, MAX_MANIFEST_BYTES), file, handlers);
      issues.push(...errors);
      if (flow !== undefined) flows.push(flow);
    } catch (error) {
      issues.push({ severity: 'error', file, path: '', message: whyUnread(error) });
    }
  }
  return { flows, issues };
}

/** A run can have large answers, and so can its test. */
const MAX_TEST_BYTES = 256 * 1024 * 1024;

export async function readTestFile(path: string): Promise<ReturnType<typeof readSavedTest>> {
  return readSavedTest(await readTextFile(path, MAX_TEST_BYTES));
}

/** All `*.test.json` in and below a folder, by name; skips `node_modules`, names with a leading dot, and links. */
export async function findTestFiles(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  const found = await Promise.all(
    entries.map(async (entry) => {
      const { name } = entry;
      const path = join(folder, name);
      if (entry.isFile()) return name.endsWith('.test.json') ? [path] : [];
      if (!entry.isDirectory() || name === 'node_modules' || name.startsWith('.')) return [];
      // A folder that cannot be read is assumed to have no tests.
      return findTestFiles(path).catch(() => []);
    }),
  );
  return found.flat().sort();
}
