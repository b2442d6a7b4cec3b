import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command } from 'commander';
import { CommandError, readCommandSettings, reporting } from '../../commands/context.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import { transportMistakes } from '../../config/database.ts';
import { processEnvironment } from '../../config/settings.ts';
import { maskRefusedUrl } from '../../manifest/mask.ts';
import { writeWhole } from '../../store/durable-files.ts';
import { print, printError } from '../../telemetry/terminal.ts';
import type { CopyReport } from './copy-database.ts';

interface CopyOptions {
  readonly from: string;
  readonly to: string;
  readonly schema?: string;
}

function makeCopy(): Command {
  return new Command('copy')
    .helpGroup(HELP.data)
    .description('Copy a whole database to an empty one, from SQLite to PostgreSQL or back')
    .requiredOption('--from <database>', 'sqlite:PATH or postgres://…')
    .requiredOption('--to <database>', 'the same; created if it does not exist')
    .option('--schema <name>', 'schema in PostgreSQL; default: SLUICE_DATABASE_SCHEMA, as for the service')
    .addHelpText(
      'after',
      '\nStop every service on both databases first. Run the same command again to resume an interrupted copy. At the end ' +
        'it compares all rows of both databases; until then no service can open the copy. The original does not change. ' +
        'Do not start a service on it again: the two databases would not know what the other accepted. ' +
        'A password for PostgreSQL may be in PGPASSWORD. The exit code is 0 if the copy is complete, otherwise 2.',
    )
    .action(reporting(copy));
}

async function copy({ from, to, ...given }: CopyOptions): Promise<void> {
  const schema = given.schema ?? (await readCommandSettings()).databaseSchema;
  const [sourceName, copyName] = [targetOf('--from', from), targetOf('--to', to)];
  if (sourceName === copyName) throw new CommandError('--from and --to name the same database');
  const { copyDatabase, openCopiedDatabase } = await import('./copy-database.ts');
  const started = performance.now();
  try {
    const source = await openCopiedDatabase(sourceName, { schema, isSource: true });
    try {
      const copied = await openCopiedDatabase(copyName, { schema, isSource: false });
      try {
        for (const { name, foreign } of [source, copied]) {
          if (foreign.length > 0)
            printError(`${name} has what Sluice did not make, and is not copied: ${foreign.join(', ')}\n`);
        }
        const rows = await copyDatabase(source, copied, progressLines());
        const seconds = ((performance.now() - started) / 1000).toFixed(1);
        tellKey(from, to);
        print(`${copied.name} has all ${rows} rows of ${source.name}, compared one by one, in ${seconds} s\n`);
      } finally {
        await copied.close();
      }
    } finally {
      await source.close();
    }
  } catch (error) {
    throw new CommandError(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

/** A service on the copy must open secrets that the original sealed, with the key next to its file. */
function tellKey(from: string, to: string): void {
  const [key, other] = [from, to].map((database) => {
    const [, path] = /^sqlite:(.+)$/.exec(database) ?? [];
    return path === undefined ? undefined : resolve(`${path}.key`);
  });
  if (key === undefined || !existsSync(key)) return;
  if (other !== undefined && !existsSync(other)) {
    // Written as durably as the database that needs it.
    writeWhole(other, readFileSync(key, 'utf8'));
    printError(`${other} is the key to secrets in manifests, copied too\n`);
  } else printError(`secrets in manifests are sealed with ${key}: set SLUICE_STORE_KEY=file:${key} for the copy\n`);
}

/** The database in the form that `openCopiedDatabase` takes. */
function targetOf(option: string, text: string): string {
  const [, path] = /^sqlite:(.+)$/.exec(text) ?? [];
  if (path !== undefined && path !== ':memory:') return `sqlite:${resolve(path)}`;
  if (/^postgres(ql)?:\/\//.test(text) && URL.canParse(text)) {
    const [mistake] = transportMistakes(option, text, processEnvironment());
    if (mistake !== undefined) throw new CommandError(mistake);
    return text;
  }
  const accepted = 'expected sqlite:PATH or postgres://…, and no database in memory';
  throw new CommandError(`${option} "${maskRefusedUrl(text)}": ${accepted}`);
}

/** Prints a line for each finished table, and one a second for a table that takes longer. */
function progressLines(): (report: CopyReport) => void {
  let last: CopyReport | undefined;
  let writtenAt = 0;
  const write = ({ phase, table, rows }: CopyReport) => printError(`${phase} ${table}: ${rows} rows\n`);
  return (report) => {
    const isNext = last !== undefined && (last.table !== report.table || last.phase !== report.phase);
    if (last !== undefined && isNext) write(last);
    else if (performance.now() - writtenAt > 1000) {
      write(report);
      writtenAt = performance.now();
    }
    last = report;
  };
}

export const copyCommand: CommandPart = { name: 'copy', commands: [makeCopy] };
