import { existsSync } from 'node:fs';
import { readCommandSettings } from '../../commands/context.ts';
import { ENV_FILE } from '../../config/env-file.ts';
import { processEnvironment } from '../../config/settings.ts';
import { DEFAULT_MANIFESTS } from '../../config/settings-schema.ts';
import { writeWebhook } from './write-new.ts';

const FIRST_KEY = 'GITHUB_WEBHOOK_SECRET';

/**
 * Writes a first flow where somebody tries the service: neither the usual folder of manifests nor a database is there, and no setting
 * names another. Yields what to say of it, or undefined where nothing was written. Its key is made up, so nothing is let in that
 * a missing folder would have kept out.
 */
export async function writeFirstFlow(envFile = ENV_FILE): Promise<string | undefined> {
  const environment = processEnvironment();
  if (existsSync(DEFAULT_MANIFESTS) || environment.SLUICE_MANIFESTS !== undefined) return undefined;
  const { manifests, databaseUrl } = await readCommandSettings();
  const [, database] = /^sqlite:(.+)$/.exec(databaseUrl) ?? [];
  if (manifests !== DEFAULT_MANIFESTS || database === undefined || existsSync(database)) return undefined;
  const generateKey = environment[FIRST_KEY] === undefined;
  const given = { publisher: 'GitHub', key: `env:${FIRST_KEY}`, generateKey };
  const { file, keyFile } = await writeWebhook(given, { envFile, person: undefined });
  return `There were no manifests: wrote ${file}, a first flow${keyFile === undefined ? '' : `, and its key to ${keyFile}`}`;
}
