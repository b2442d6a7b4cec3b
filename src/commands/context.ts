import { writeFile } from 'node:fs/promises';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { loadConfigModule } from '../config/config-module.ts';
import { type PreparedExtensions, prepareExtensions } from '../config/extensions.ts';
import { configPath, processEnvironment, readSettings, SettingsError } from '../config/settings.ts';
import type { Settings } from '../config/settings-schema.ts';
import { ManifestsError, StoreUnavailableError } from '../errors.ts';
import type { ManifestIssue } from '../manifest/issues.ts';
import { type LoadedFlow, loadManifests } from '../manifest/load.ts';
import { OVERRIDES, type Override } from '../model/finding.ts';
import { type BodySealer, bodySealer } from '../store/sealed-body.ts';
import { print, printError } from '../telemetry/terminal.ts';
import { createKeyNames } from '../webhooks/key-names.ts';

/** The input of a command: the settings, extensions and manifests that the service would use. */
export interface CommandContext {
  readonly settings: Settings;
  readonly extensions: PreparedExtensions;
  readonly flows: readonly LoadedFlow[];
  readonly issues: readonly ManifestIssue[];
}

/** Only the settings, for a command that leaves the manifests to a service. */
export async function readCommandSettings(folder?: string): Promise<Settings> {
  refuseBlank(folder);
  const environment = processEnvironment();
  const { options } = await loadConfigModule(configPath(environment), process.cwd());
  return readSettings(environment, folder === undefined ? options : { ...options, manifests: folder });
}

/** Reads the given folder, or the one that the settings name. */
export async function openContext(folder?: string): Promise<CommandContext> {
  refuseBlank(folder);
  const environment = processEnvironment();
  const { options, extensions: given } = await loadConfigModule(configPath(environment), process.cwd());
  const settings = readSettings(environment, folder === undefined ? options : { ...options, manifests: folder });
  const clock = { now: () => Date.now(), monotonic: () => performance.now() };
  const nameKey = createKeyNames(digestUnder(settings.storeKey));
  const preparing = { settings, extensions: given, environment, clock, nameKey, folder: process.cwd() };
  const extensions = prepareExtensions(preparing);
  const loaded = await loadManifests(folder ?? settings.manifests, extensions.rules.folder);
  return { settings, extensions, ...loaded };
}

/** Such as an unset variable: the folder of the settings may not have been meant. */
function refuseBlank(folder: string | undefined): void {
  if (folder?.trim() !== '') return;
  throw new CommandError('the folder of manifests is an empty text; give its path, or leave it out');
}

/** Deriving the key takes 100 ms, so it waits for the first name. */
function digestUnder(storeKey: string | undefined): ((text: string) => string) | undefined {
  if (storeKey === undefined) return undefined;
  let sealer: BodySealer | undefined;
  return (text) => {
    sealer ??= bodySealer(storeKey);
    return sealer.digest(text);
  };
}

/** A mistake of the user: only the message is printed, without a stack. */
export class CommandError extends Error {}

/** Runs a command's action. A mistake of the user prints its message and exits with 2; other errors show a stack. */
export function reporting<Args extends unknown[]>(action: (...args: Args) => Promise<void>) {
  return async (...args: Args): Promise<void> => {
    try {
      await action(...args);
    } catch (error) {
      if (!isExpected(error)) throw error;
      printError(`${error.message}\n`);
      process.exitCode = 2;
    }
  };
}

function isExpected(error: unknown): error is Error {
  return [CommandError, SettingsError, ManifestsError, StoreUnavailableError].some((kind) => error instanceof kind);
}

/** Writes a file that an option names. Throws `CommandError`. */
export async function writeOutput(file: string, content: string): Promise<void> {
  await writeFile(file, content).catch((error: Error) => {
    throw new CommandError(`${file === '' ? '""' : file} cannot be written: ${error.message}`);
  });
}

/** Prints the output of `--json`. */
export function printJson(value: unknown): void {
  print(`${JSON.stringify(value, null, 2)}\n`);
}

/** The option `--allow`; the description says what the command does with it. */
export function allowOption(description: string): Option {
  return new Option('--allow <what>', `${description}: ${OVERRIDES.join(', ')}, or several separated by commas`)
    .argParser((value: string, before: readonly Override[]) => [...before, ...value.split(',').map(allowable)])
    .default([], 'none');
}

/** Parses an option that is an integer from 1. */
export function positive(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('expected an integer from 1');
  return Number(text);
}

/** Adds the options for the service's address and the credentials. */
export function withService(command: Command): Command {
  return withCredentials(command.option('--to <url>', TO));
}

/** Description of `--to` for each command that talks to a service. */
export const TO = 'URL of the service; default: host and port of the settings';

/** The address of a service with these settings on this machine. */
export function serviceUrl({ host, port }: Pick<Settings, 'host' | 'port'>): string {
  if (port === 0) throw new CommandError('SLUICE_PORT is 0, so the service uses any free port; give its URL with --to');
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`;
}

/** Adds the options for the credentials. */
export function withCredentials(command: Command): Command {
  return command
    .option(
      '--token <token>',
      'bearer token of the service; default, for the service of the settings alone: SLUICE_DASHBOARD_TOKEN',
    )
    .option(
      '--user <name:password>',
      'credentials of the service; default, likewise: SLUICE_DASHBOARD_USER and _PASSWORD',
    );
}

function allowable(value: string): Override {
  const found = OVERRIDES.find((name) => name === value.trim());
  if (found !== undefined) return found;
  throw new InvalidArgumentError(`expected one of ${OVERRIDES.join(', ')}`);
}
