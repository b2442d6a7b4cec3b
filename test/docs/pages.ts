import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

export const ROOT = resolve(import.meta.dirname, '../..');

/** Every page for users, by its path in the repository. */
export const PAGES = [
  'README.md',
  'SECURITY.md',
  ...['docs', 'examples'].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name)),
  ),
]
  .filter((name) => name.endsWith('.md') && !name.startsWith('docs/adr/'))
  .map((name) => ({ name, text: readFileSync(join(ROOT, name), 'utf8') }));
