import { randomUUID } from 'node:crypto';
import { Command, Option } from 'commander';
import { isProgram } from '../alerts/targets.ts';
import { databaseTarget } from '../config/database.ts';
import { type EnvFile, readEnvFile } from '../config/env-file.ts';
import { describeSettings } from '../config/settings-schema.ts';
import { commandParts } from '../features/command.ts';
import type { Override } from '../model/finding.ts';
import { migrateStore } from '../store/offline.ts';
import { print } from '../telemetry/terminal.ts';
import { version } from '../version.ts';
import { activityCommand } from './activity.ts';
import { checkCommand } from './check.ts';
import { CommandError, openContext, readCommandSettings, reporting } from './context.ts';
import { copyCommand } from './copy.ts';
import { deliveriesCommand } from './deliveries.ts';
import { deployCommand, drainCommand } from './deploy.ts';
import { doctorCommand } from './doctor.ts';
import { writeFirstFlow } from './first-flow.ts';
import { flowsCommand } from './flows.ts';
import { keysCommand } from './keys.ts';
import { listenCommand } from './listen.ts';
import { mcpCommand } from './mcp.ts';
import { newCommand } from './new.ts';
import { redeliverCommand } from './redeliver.ts';
import { replayCommand } from './replay.ts';
import { restoreCommand } from './restore.ts';
import { cancelCommand, releaseOrderCommand, retryCommand } from './run-actions.ts';
import { runsCommand } from './runs.ts';
import { schemaCommand } from './schema.ts';
import { schemesCommand } from './schemes.ts';
import { sendCommand } from './send.ts';
import { signalCommand } from './signal.ts';
import { statusCommand } from './status.ts';
import { disableCommand, enableCommand, holdCommand } from './switch.ts';
import { testCommand } from './test.ts';
import { whyCommand } from './why.ts';

/** Runs the command line. A usage error ends the process with code 2. */
export async function runCommandLine(): Promise<void> {
  const program = commandLine();

  // Usage errors exit with 2, like every other mistake of the user; commander's default is 1.
  for (const command of [program, ...program.commands.flatMap((it) => [it, ...it.commands])]) {
    command.showHelpAfterError('(add --help for what is accepted)');
    command.exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2));
  }
  program.hook('preAction', () => {
    try {
      program.setOptionValue('readFile', readEnvFile(program.opts<{ envFile?: string }>().envFile));
    } catch (error) {
      program.error(error instanceof Error ? error.message : String(error), { exitCode: 2 });
    }
  });
  await program.parseAsync();
}

/** All commands with their options. */
export function commandLine(): Command {
  const program = new Command('sluice')
    .description('Receives webhooks safely and runs durable flows from them.')
    .version(version)
    .option(
      '--env-file <file>',
      'file with variables, for every command; variables that are already set win; default: .env, if it exists',
    )
    .addCommand(serveCommand())
    .addCommand(checkCommand())
    .addCommand(testCommand())
    .addCommand(deployCommand())
    .addCommand(restoreCommand())
    .addCommand(drainCommand())
    .addCommand(holdCommand())
    .addCommand(disableCommand())
    .addCommand(enableCommand())
    .addCommand(flowsCommand())
    .addCommand(statusCommand())
    .addCommand(whyCommand())
    .addCommand(deliveriesCommand())
    .addCommand(runsCommand())
    .addCommand(retryCommand())
    .addCommand(cancelCommand())
    .addCommand(releaseOrderCommand())
    .addCommand(signalCommand())
    .addCommand(redeliverCommand())
    .addCommand(copyCommand())
    .addCommand(newCommand())
    .addCommand(migrateCommand())
    .addCommand(sendCommand())
    .addCommand(listenCommand())
    .addCommand(replayCommand());
  for (const make of commandParts.flatMap(({ commands }) => commands)) program.addCommand(make());
  program
    .addCommand(mcpCommand())
    .addCommand(keysCommand())
    .addCommand(activityCommand())
    .addCommand(doctorCommand())
    .addCommand(alertCommand())
    .addCommand(schemesCommand())
    .addCommand(schemaCommand());
  for (const command of program.commands) command.configureHelp({ showGlobalOptions: true });
  return program;
}

function serveCommand(): Command {
  return (
    new Command('serve')
      .description('Run the service; settings come from the environment and from sluice.config.ts')
      .option('--host <address>', 'address to listen on: SLUICE_HOST')
      .option('-p, --port <port>', 'port to listen on: SLUICE_PORT')
      .option('--manifests <folder>', 'folder of manifests: SLUICE_MANIFESTS')
      .option('--database <url>', 'database: SLUICE_DATABASE_URL')
      .option('--watch', 'deploy changes in the folder of manifests at once')
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
        if (options.manifests === undefined && options.database === undefined) await firstFlow(envFile, readFile);
        const { serve } = await import('../serve.ts');
        await serve({ overrides: variablesOf(options), envFile: readFile, watch, allow: allow && [allow] });
      })
  );
}

/** What keeps it from being written keeps the service from starting too, which says so. */
async function firstFlow(envFile: string | undefined, readFile: EnvFile | undefined): Promise<void> {
  const told = await writeFirstFlow(envFile).catch(() => undefined);
  if (told === undefined) return;
  readFile?.readAgain();
  print(`${told}\n`);
}

interface ServeOptions {
  readonly host?: string;
  readonly port?: string;
  readonly manifests?: string;
  readonly database?: string;
  /** The name of the file of variables, where it is not the usual one. */
  readonly envFile?: string;
  /** The file of variables, which was read before. */
  readonly readFile?: EnvFile;
  readonly watch?: boolean;
  readonly allow?: Override;
}

/** Options of the command as the variables that they replace, so that they are checked and refused like those. */
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

function migrateCommand(): Command {
  return new Command('migrate')
    .description('Bring the schema of the PostgreSQL database up to date')
    .option('--grant <role>', 'grant this role what a service needs, but no right to change the schema')
    .addHelpText(
      'after',
      '\nUses the database of SLUICE_DATABASE_DIRECT_URL, or else of SLUICE_DATABASE_URL. A service migrates when it starts,\n' +
        'if its role may. If it may not, run this as the owner of the schema before you start a new release.',
    )
    .action(reporting(runMigrate));
}

async function runMigrate({ grant }: { grant?: string }): Promise<void> {
  const target = databaseTarget(await readCommandSettings(), process.cwd());
  if (target.kind === 'sqlite') {
    throw new CommandError(
      'SLUICE_DATABASE_URL is a SQLite file, which the service brings up to date when it starts; expected postgres://…',
    );
  }
  const ran = await migrateStore(target, grant).catch((error: unknown) => {
    throw new CommandError(`The database was not changed: ${error instanceof Error ? error.message : String(error)}`);
  });
  const done = ran.length === 0 ? 'The schema is up to date.' : `Ran ${ran.join(', ')}. The schema is up to date.`;
  print(`${done}\n${grant === undefined ? '' : `The role ${grant} may run the service.\n`}`);
}

/** What concerns those who are told of failures. */
function alertCommand(): Command {
  return new Command('alert')
    .description('Test the alert targets of SLUICE_ALERTS')
    .addCommand(
      new Command('test')
        .description('Send a test message to each target, or to one, and print the answer')
        .argument('[name]', 'name of a target; default: all')
        .action(reporting(testAlerts)),
    );
}

/** Sends from here and not through the service, so that the file can be tried before the service has it. */
async function testAlerts(name: string | undefined): Promise<void> {
  const { settings, extensions } = await openContext();
  const targets = (settings.alerts?.targets ?? []).filter((target) => name === undefined || target.name === name);
  if (targets.length === 0) {
    const names = settings.alerts?.targets.map((target) => target.name).join(', ') ?? '';
    throw new CommandError(
      settings.alerts === undefined
        ? 'SLUICE_ALERTS is not set: failures are not reported'
        : `SLUICE_ALERTS has no such target; it has ${names === '' ? 'none' : names}`,
    );
  }
  const results = await Promise.all(
    targets.map(async (target) => {
      const dedupKey = `test:${randomUUID()}`;
      const since = new Date().toISOString();
      const alert = { kind: 'test', severity: 'warning', flow: null, trigger: null, since, dedupKey } as const;
      const send = (status: 'firing' | 'resolved') =>
        extensions.sendAlert({
          target: target.name,
          message: {
            text: `${isProgram(target) ? '' : `${settings.serviceName}: `}test message for the target ${target.name}`,
            link: settings.alerts?.pageUrl,
            lines: [],
            more: 0,
            alert: { ...alert, status },
          },
          idempotencyKey: `${dedupKey}:${status}`,
          now: () => Date.now(),
          signal: new AbortController().signal,
        });
      const fired = await send('firing');
      // Else what it opened stays open.
      const result = fired.kind === 'succeeded' && isProgram(target) ? await send('resolved') : fired;
      const { status = null, answer = '' } = ('output' in result && result.output ? result.output : {}) as {
        status?: number | null;
        answer?: string;
      };
      const came = [status, answer].filter((part) => part !== null && part !== '').join(' ');
      const isDelivered = result.kind === 'succeeded';
      const why = result.kind === 'failed' ? `not delivered: ${result.message}` : 'delivered';
      print(`${target.name} (${target.type}): ${why}${came === '' ? '' : ` (answer: ${came})`}\n`);
      return isDelivered;
    }),
  );
  if (results.includes(false)) process.exitCode = 1;
}
