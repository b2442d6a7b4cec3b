import { existsSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { createJiti } from 'jiti';
import { otherKindOf } from '../manifest/read-file.ts';
import { extensionMistakes } from './extension-mistakes.ts';
import type { Extensions } from './extensions.ts';
import { runAs } from './operator-code.ts';
import { SettingsError } from './settings.ts';

/** What a config module says: options of the environment by name, and what only code can say. */
export interface ConfigModule {
  readonly options: Readonly<Record<string, unknown>>;
  readonly extensions: Extensions;
}

const NAMES = ['sluice.config.ts', 'sluice.config.mts', 'sluice.config.js', 'sluice.config.mjs'];
const EXTENSION_NAMES = ['handlers', 'verifiers', 'signatureSpecs', 'payloadStrategies', 'gates'] as const;

/** Loads the module at `path`, or the first of the usual names in `folder`; none at all is an empty config. */
export async function loadConfigModule(path: string | undefined, folder: string): Promise<ConfigModule> {
  const file = path === undefined ? NAMES.map((name) => resolve(folder, name)).find(existsSync) : resolve(folder, path);
  if (file === undefined) return { options: {}, extensions: {} };
  if (!existsSync(file)) throw new SettingsError([`SLUICE_CONFIG: there is no file "${path}"`]);
  // The importer would wait for a pipe until somebody writes into it.
  const kind = otherKindOf(statSync(file));
  if (kind !== undefined) throw new SettingsError([`${file} is ${kind}, not a file`]);
  return splitConfig(await importConfig(file), file);
}

async function importConfig(file: string): Promise<unknown> {
  // `import … from 'sluice'` means this very process' code, wherever the config module lies. Loaded only where there is
  // one: the commands that send or check deliveries need nothing of it.
  const virtualModules = { sluice: await import('../app.ts') };
  try {
    const importer = createJiti(import.meta.url, { virtualModules });
    return await runAs('config module', () => importer.import(file, { default: true }));
  } catch (error) {
    throw new SettingsError([`${file} does not load: ${error instanceof Error ? error.message : String(error)}`]);
  }
}

function splitConfig(config: unknown, file: string): ConfigModule {
  if (typeof config !== 'object' || config === null || Array.isArray(config)) {
    throw new SettingsError([`${file}: the default export is no object; expected { port: 3000, handlers: [...] }`]);
  }
  const options: Record<string, unknown> = { ...config };
  const extensions: Record<string, unknown> = {};
  for (const name of EXTENSION_NAMES) {
    if (name in options) extensions[name] = options[name];
    delete options[name];
  }
  const mistakes = extensionMistakes(extensions);
  if (mistakes.length > 0) throw new SettingsError(mistakes.map((mistake) => `${file}: ${mistake}`));
  return { options, extensions: extensions as Extensions };
}
