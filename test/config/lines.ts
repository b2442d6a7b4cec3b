import { SettingsError } from '../../src/config/settings.ts';

/** The lines of the `SettingsError` that reading throws; none if it succeeds. */
export function linesOf(read: () => unknown): readonly string[] {
  try {
    read();
  } catch (error) {
    if (error instanceof SettingsError) return error.lines;
    throw error;
  }
  return [];
}
