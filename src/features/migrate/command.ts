import { Command } from 'commander';
import { CommandError, readCommandSettings, reporting } from '../../commands/context.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import { databaseTarget } from '../../config/database.ts';
import { migrateStore } from '../../store/offline.ts';
import { print } from '../../telemetry/terminal.ts';

function makeMigrate(): Command {
  return new Command('migrate')
    .helpGroup(HELP.data)
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

export const migrateCommand: CommandPart = { name: 'migrate', commands: [makeMigrate] };
