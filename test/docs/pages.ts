import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

export const ROOT = resolve(import.meta.dirname, '../..');

/** Every page for users, by its path in the repository. */
export const PAGES = [
  'README.md',
  'SECURITY.md',
  ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' }).map((name) => join('docs', name)),
]
  .filter((name) => name.endsWith('.md') && !name.startsWith('docs/adr/'))
  .map((name) => ({ name, text: readFileSync(join(ROOT, name), 'utf8') }));
