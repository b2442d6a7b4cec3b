import type { Parts } from './app-parts.ts';
import { credentialsOf, listCredentials } from './config/credentials.ts';
import { readSettings, SettingsError } from './config/settings.ts';
import type { Settings } from './config/settings-schema.ts';
import type { DashboardServices } from './dashboard/services.ts';

/** Removed credentials are revoked even when no credential is left. */
export function noteCredentials({ store, clock }: Parts, logins: DashboardServices['logins']): Promise<void> {
  return logins?.note() ?? store.noteCredentials({ credentials: [], now: clock.ledger() });
}

/**
 * Revokes removed credentials at once. A mistake leaves the previous credentials and alert targets in force; yields one
 * line per mistake, without secrets.
 */
export function readSettingsAgain(
  { options, logger }: Parts,
  { logins, onSettings }: Pick<DashboardServices, 'logins'> & { readonly onSettings: (settings: Settings) => void },
): readonly string[] {
  const told: string[] = [];
  try {
    options.readVariables?.();
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    told.push(...error.lines.map((line) => `${line}; the former variables stay in force`));
    logger.error({ lines: error.lines }, 'the variables could not be read again; they stay as they were');
  }
  try {
    // The address that the service listens on stays. If no credential is left, logins are no longer possible.
    const environment = { ...options.environment, SLUICE_HOST: '127.0.0.1' };
    const settings = readSettings(environment, options.settings);
    onSettings(settings);
    // A dashboard without credentials stays open: its routes ask for none.
    if (logins === undefined) return told;
    const credentials = credentialsOf(settings);
    logins.credentials.replace(credentials);
    logins.note().catch((error: unknown) => {
      logger.error(
        { err: error },
        'which credentials are in force was not stored; sessions of one that comes back go on',
      );
    });
    logger.info(
      { credentials: listCredentials(credentials).length },
      'the credentials of the dashboard were read again',
    );
  } catch (error) {
    const lines = error instanceof SettingsError ? error.lines : undefined;
    const mistakes = lines ?? ['the settings could not be read again'];
    told.push(...mistakes.map((line) => `${line}; the former settings and credentials stay in force`));
    logger.error(
      { err: error, lines },
      'the settings could not be read again; the former credentials and targets of alerts stay in force',
    );
  }
  return told;
}
