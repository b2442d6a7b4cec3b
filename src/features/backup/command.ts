import { existsSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command } from 'commander';
import { CommandError, readCommandSettings, reporting } from '../../commands/context.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import { databaseTarget } from '../../config/database.ts';
import { backupStore, inspectStore } from '../../store/offline.ts';
import { print } from '../../telemetry/terminal.ts';

function makeBackup(): Command {
  return new Command('backup')
    .helpGroup(HELP.data)
    .description('Copy the SQLite database to a file, while the service runs, and check the copy')
    .argument('<file>', 'the copy; it must not exist')
    .addHelpText(
      'after',
      '\nA PostgreSQL database is backed up by pg_dump. The exit code is 0 if the copy is whole, otherwise 2.',
    )
    .action(reporting(backup));
}

async function backup(file: string): Promise<void> {
  const settings = await readCommandSettings();
  const database = databaseTarget(settings, process.cwd());
  if (database.kind !== 'sqlite') {
    throw new CommandError(
      `The database is PostgreSQL: back it up by pg_dump --schema=${settings.databaseSchema} --format=custom --file=${file} DATABASE, and ` +
        'keep SLUICE_STORE_KEY, without which sealed secrets cannot be read',
    );
  }
  const target = resolve(file);
  if (database.path === ':memory:') throw new CommandError('The database is in memory: there is no file to copy');
  if (!existsSync(database.path)) throw new CommandError(`The database ${database.path} does not exist`);
  if (existsSync(target)) throw new CommandError(`${file} exists; a backup replaces nothing`);
  const unfinished = `${target}.part`;
  try {
    // Created before any byte is written: nobody else can read the database from it.
    writeFileSync(unfinished, '', { mode: 0o600, flag: 'wx' });
    const pages = await backupStore(database.path, unfinished);
    const inspection = await inspectStore({ kind: 'sqlite', path: unfinished });
    await inspection.close();
    for (const left of ['-wal', '-shm']) rmSync(unfinished + left, { force: true });
    renameSync(unfinished, target);
    print(
      `${file} is a whole copy of ${database.path} (${pages} pages), and opens.\n${keyNeeded(database.path, settings.storeKey)}\n`,
    );
  } catch (error) {
    for (const left of ['', '-wal', '-shm', '-journal']) rmSync(unfinished + left, { force: true });
    throw new CommandError(`No backup was made: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function keyNeeded(path: string, storeKey: string | undefined): string {
  const beside = existsSync(`${path}.key`) ? [`the file ${path}.key`] : [];
  const needed = [...(storeKey === undefined ? [] : ['the value of SLUICE_STORE_KEY']), ...beside];
  return needed.length === 0
    ? 'Nothing in it is sealed with a key.'
    : `It needs ${needed.join(' and ')} of this time: keep it, but not in the same place.`;
}

export const backupCommand: CommandPart = { name: 'backup', commands: [makeBackup] };
