import { Command, Option } from 'commander';
import { type EnvFile, readEnvFile } from '../config/env-file.ts';
import { describeSettings } from '../config/settings-schema.ts';
import { commandParts } from '../features/command.ts';
import type { Override } from '../model/finding.ts';
import { endWithoutOutput, print, printError } from '../telemetry/terminal.ts';
import { describeVersions, version } from '../version.ts';
import { printJson } from './context.ts';
import { HELP } from './part.ts';

/** Runs the command line. A usage error ends the process with code 2. */
export async function runCommandLine(): Promise<void> {
  const keepRunning = endWithoutOutput();
  const [flag = '', ...rest] = process.argv.slice(2);
  // Not an option of the program, which would capture it from the commands.
  if (['-V', '--version'].includes(flag) && rest.join() === '--json') return printJson(describeVersions());
  const program = commandLine();

  // Usage errors exit with 2, like every other mistake of the user; commander's default is 1.
  for (const command of [program, ...program.commands.flatMap((it) => [it, ...it.commands])]) {
    command.showHelpAfterError('(add --help for what is accepted)');
    command.exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2));
  }
  program.hook('preAction', (_, command) => {
    // The service stops in its own way.
    if (command.name() === 'serve') keepRunning();
    try {
      program.setOptionValue('readFile', readEnvFile(program.opts<{ envFile?: string }>().envFile));
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      if (command.name() !== 'serve') program.error(message, { exitCode: 2 });
      // As every wrong setting ends a start.
      printError(`${message}\n`);
      process.exit(1);
    }
  });
  await program.parseAsync();
}

/** All commands with their options. */
export function commandLine(): Command {
  const program = new Command('sluice')
    .description('Receives webhooks safely and runs durable flows from them.')
    .version(version, '-V, --version', 'output the version; with --json, also those of what the package contains')
    .option(
      '--env-file <file>',
      'file with variables, for every command; variables that are already set win; default: .env, if it exists',
    )
    .configureHelp({
      // One line each; the command's own help has the rest.
      subcommandTerm: (command) => command.name(),
      subcommandDescription: (command) => command.description().split(/[;:,(]/)[0] ?? '',
    })
    .addHelpText('after', '\n`sluice COMMAND --help` says what a command takes.')
    .addCommand(serveCommand());
  for (const make of commandParts.flatMap(({ commands = [] }) => commands)) program.addCommand(make());
  for (const [name, addTo] of commandParts.flatMap(({ additions = {} }) => Object.entries(additions))) {
    const command = program.commands.find((each) => each.name() === name);
    if (command !== undefined) addTo(command);
  }
  for (const command of program.commands) command.configureHelp({ showGlobalOptions: true });
  return program;
}

function serveCommand(): Command {
  return (
    new Command('serve')
      .helpGroup(HELP.daily)
      .description('Run the service; settings come from the environment and from sluice.config.ts')
      .option('--host <address>', 'address to listen on: SLUICE_HOST')
      .option('-p, --port <port>', 'port to listen on: SLUICE_PORT')
      .option('--manifests <folder>', 'folder of manifests: SLUICE_MANIFESTS')
      .option('--database <url>', 'database: SLUICE_DATABASE_URL')
      .option('--watch', 'deploy changes in the folder of manifests within seconds, and read a changed .env again')
      .addOption(
        new Option(
          '--allow <what>',
          'deploy manifests of the folder although more deliveries would pass, for as long as the process runs',
        ).choices(['access'] satisfies Override[]),
      )
      .addHelpText('after', settingsHelp)
      // Loaded only here: the service's own rooms cost every other command 0.2 s.
      .action(async (_options: object, command: Command) => {
        const { readFile, envFile, watch, allow, ...options } = command.optsWithGlobals<ServeOptions>();
        if (options.manifests === undefined && options.database === undefined) await prepareServe(envFile, readFile);
        const { serve } = await import('../serve.ts');
        await serve({ overrides: variablesOf(options), envFile: readFile, watch, allow: allow && [allow] });
      })
  );
}

/** A failing feature does not prevent the start, which reports its own errors. */
async function prepareServe(envFile: string | undefined, readFile: EnvFile | undefined): Promise<void> {
  for (const { beforeServe } of commandParts) {
    const told = await beforeServe?.(envFile).catch(() => undefined);
    if (told === undefined) continue;
    readFile?.readAgain();
    print(`${told}\n`);
  }
}

interface ServeOptions {
  readonly host?: string;
  readonly port?: string;
  readonly manifests?: string;
  readonly database?: string;
  /** The name of the variables file, if it is not the default. */
  readonly envFile?: string;
  /** The variables file, which was already read. */
  readonly readFile?: EnvFile;
  readonly watch?: boolean;
  readonly allow?: Override;
}

/** The command's options as the variables that they replace, so that they get the same checks. */
function variablesOf({
  host,
  port,
  manifests,
  database,
}: Omit<ServeOptions, 'readFile' | 'envFile' | 'watch' | 'allow'>): Record<string, string> {
  const given = {
    SLUICE_HOST: host,
    SLUICE_PORT: port,
    SLUICE_MANIFESTS: manifests,
    SLUICE_DATABASE_URL: database,
  };
  return Object.fromEntries(Object.entries(given).filter((entry): entry is [string, string] => entry[1] !== undefined));
}

function settingsHelp(): string {
  const rows = describeSettings().map(({ variable, accepts, meaning, default: byDefault }) => {
    const shown = byDefault === undefined ? accepts : `${accepts}; ${byDefault} by default`;
    return `  ${variable}\n      ${meaning.replaceAll('`', '')}\n      Accepts ${shown}.`;
  });
  return `\nSettings (environment variables):\n${rows.join('\n')}\n  SLUICE_CONFIG\n      Path of a config module.\n`;
}
