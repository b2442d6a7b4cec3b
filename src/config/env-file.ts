import { statSync } from 'node:fs';
import { SettingsError } from './settings.ts';

export const ENV_FILE = '.env';

/**
 * Reads variables from a file, as Node's `--env-file` does: variables that are already set take precedence. Without a
 * name, reads `.env` in the working directory if it exists. Yields the name of the file that was read. Throws
 * `SettingsError`.
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
