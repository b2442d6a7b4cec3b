import { randomBytes } from 'node:crypto';
import { existsSync, linkSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
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
  if (file.trim() === '') throw new CommandError('<file>: is empty; expected the path of the copy');
  const target = resolve(file);
  if (database.path === ':memory:') throw new CommandError('The database is in memory: there is no file to copy');
  if (!existsSync(database.path)) throw new CommandError(`The database ${database.path} does not exist`);
  if (existsSync(target)) throw new CommandError(`${file} exists; a backup replaces nothing`);
  // Named by the database, and not by the copy, if no service of this release could open it.
  await openAndClose(database.path);
  const unfinished = `${target}.${process.pid}-${randomBytes(4).toString('hex')}.part`;
  try {
    removeAbandoned(target);
    // Created before any byte is written: nobody else can read the database from it.
    writeFileSync(unfinished, '', { mode: 0o600, flag: 'wx' });
    const pages = await backupStore(database.path, unfinished);
    await openAndClose(unfinished);
    for (const left of ['-wal', '-shm']) rmSync(unfinished + left, { force: true });
    publish(unfinished, target, file);
    print(
      `${file} is a whole copy of ${database.path} (${pages} pages), and opens.\n${keyNeeded(database.path, settings.storeKey)}\n`,
    );
  } catch (error) {
    for (const left of PARTS) rmSync(unfinished + left, { force: true });
    throw new CommandError(`No backup was made: ${error instanceof Error ? error.message : String(error)}`);
  }
}

async function openAndClose(path: string): Promise<void> {
  const inspection = await inspectStore({ kind: 'sqlite', path }).catch((error: unknown) => {
    throw new CommandError(`No backup was made: ${error instanceof Error ? error.message : String(error)}`);
  });
  await inspection.close();
}

const PARTS = ['', '-wal', '-shm', '-journal'] as const;

/** Removes the unfinished copies of backups to this file that were killed. */
function removeAbandoned(target: string): void {
  const start = `${basename(target)}.`;
  for (const name of readdirSync(dirname(target))) {
    const [, pid] =
      (name.startsWith(start) && /^(\d+)-[0-9a-f]{8}\.part(?:-\w+)?$/.exec(name.slice(start.length))) || [];
    if (pid !== undefined && !isRunning(Number(pid))) rmSync(join(dirname(target), name), { force: true });
  }
}

/** This process has no copy yet: a copy with its id is that of an earlier process. */
function isRunning(pid: number): boolean {
  try {
    return pid !== process.pid && process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Gives the copy its name, unless another backup was faster. */
function publish(unfinished: string, target: string, file: string): void {
  try {
    linkSync(unfinished, target);
  } catch {
    // Some file systems have no links.
    if (existsSync(target)) throw new Error(`${file} exists; a backup replaces nothing`);
    renameSync(unfinished, target);
  }
  rmSync(unfinished, { force: true });
}

function keyNeeded(path: string, storeKey: string | undefined): string {
  const beside = existsSync(`${path}.key`) ? [`the file ${path}.key`] : [];
  const needed = [...(storeKey === undefined ? [] : ['the value of SLUICE_STORE_KEY']), ...beside];
  return needed.length === 0
    ? 'Nothing in it is sealed with a key.'
    : `It needs ${needed.join(' and ')} of this time: keep it, but not in the same place.`;
}

export const backupCommand: CommandPart = { name: 'backup', commands: [makeBackup] };
