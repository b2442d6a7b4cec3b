import { existsSync } from 'node:fs';
import { Command } from 'commander';
import { readCommandSettings, reporting, withService } from '../../commands/context.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import { ENV_FILE } from '../../config/env-file.ts';
import { processEnvironment } from '../../config/settings.ts';
import { DEFAULT_MANIFESTS } from '../../config/settings-schema.ts';
import { ENFORCEMENT_MODES } from '../../model/manifest.ts';
import { writeNew, writeWebhook } from './write-new.ts';

function makeNew(): Command {
  const command = new Command('new')
    .helpGroup(HELP.daily)
    .description(
      'Write a manifest for a publisher’s webhook, and print what to enter at the publisher; asks on a terminal',
    )
    .option(
      '--publisher <name>',
      'the publisher or the beginning of its name: GitHub, Stripe, … or Generic for your own sender',
    )
    .option('--slug <slug>', 'last part of the URL; default: named after the publisher')
    .option(
      '--key <reference>',
      'where the key is: env:NAME or file:PATH; default: a variable named after the publisher',
    )
    .option('--mode <mode>', `${ENFORCEMENT_MODES.join(', ')}; default: Enforce`)
    .option('--forward <url>', 'first step: send each delivery on to this URL; default: log it')
    .option('--generate-key', `make up the key, where you choose it, and write it to ${ENV_FILE}`)
    .option('--no-generate-key', 'do not ask whether to')
    .option('--name <name>', 'name of the flow; default: named after the publisher')
    .option('--manifests <folder>', 'the folder to write to; default: the manifests folder of the settings')
    .option('--no-deploy', 'do not have a running service deploy the new flow');
  return withService(command)
    .addHelpText(
      'after',
      '\nNever overwrites a file. Exits with 2 if nothing was written. A service that answers deploys the new flow, ' +
        'unless other manifests of its folder have changed too.',
    )
    .action(reporting(writeNew));
}

const FIRST_KEY = 'GITHUB_WEBHOOK_SECRET';

/**
 * Writes a first flow for people who try the service: if neither the default manifest folder nor a database exists, and
 * no setting names others. Yields a message, or undefined if nothing was written. The key is generated, so the flow
 * lets in nobody whom a missing folder would have kept out.
 */
async function writeFirstFlow(envFile = ENV_FILE): Promise<string | undefined> {
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

export const newCommand: CommandPart = { name: 'new', commands: [makeNew], beforeServe: writeFirstFlow };
