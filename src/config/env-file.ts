import { statSync } from 'node:fs';
import { SettingsError } from './settings.ts';

const ENV_FILE = '.env';

/**
 * Reads variables from a file, as Node's own `--env-file` does: those that are set already win. Without a name the file
 * `.env` of the working directory is read if there is one. Yields the name of what was read. Throws `SettingsError`.
 */
export function readEnvFile(named?: string): string | undefined {
  // What is there by chance under this name, such as a folder of Python, is none.
  if (named === undefined && statSync(ENV_FILE, { throwIfNoEntry: false })?.isFile() !== true) return undefined;
  const file = named ?? ENV_FILE;
  try {
    process.loadEnvFile(file);
  } catch (error) {
    throw new SettingsError([`${file}: cannot be read: ${error instanceof Error ? error.message : String(error)}`]);
  }
  return file;
}
