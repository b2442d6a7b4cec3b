import { Command } from 'commander';
import { databaseTarget } from '../config/database.ts';
import { migrateStore } from '../store/offline.ts';
import { CommandError, readCommandSettings, reporting } from './context.ts';

export function migrateCommand(): Command {
  return new Command('migrate')
    .description('Bring the schema of the PostgreSQL database up to date')
    .option('--grant <role>', 'give this role what a service needs, and no right to change the schema')
    .addHelpText(
      'after',
      '\nThe database is the one of SLUICE_DATABASE_DIRECT_URL, else of SLUICE_DATABASE_URL. A service migrates when it\n' +
        'starts, if its role may. Where it may not, run this as the owner of the schema before a new release starts.',
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
  process.stdout.write(`${done}\n${grant === undefined ? '' : `The role ${grant} may run the service.\n`}`);
}
