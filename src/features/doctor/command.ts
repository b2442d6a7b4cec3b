import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Command } from 'commander';
import { CommandError, printJson, readCommandSettings, reporting } from '../../commands/context.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import { type DatabaseTarget, databaseTarget, maskedPlace } from '../../config/database.ts';
import { fewOpenFiles, openFileLimit } from '../../config/open-files.ts';
import { isLoopbackHost, settingsWarnings } from '../../config/settings.ts';
import type { Settings } from '../../config/settings-schema.ts';
import { ACTIVITY_DAYS, DAY_MS } from '../../model/clock.ts';
import { examineStore } from '../../store/offline.ts';
import type { DueKind, Examination, ExaminedContents } from '../../store/store.ts';
import { print } from '../../telemetry/terminal.ts';
import { LONG_LOG_BYTES } from './attention.ts';

/** The result of one check, and whether somebody should look closer. */
interface Check {
  readonly check: string;
  readonly status: 'ok' | 'warning' | 'error';
  readonly message: string;
}

interface DoctorOptions {
  readonly quick?: true;
  readonly json?: true;
}

function makeDoctor(): Command {
  return new Command('doctor')
    .helpGroup(HELP.data)
    .description(
      'Look at the database and the settings: damage, sizes, what waits, what retention deletes, disk, limits',
    )
    .option('--quick', 'leave out what reads the whole database: damage, and sizes of tables')
    .option('--json', 'print the checks as JSON')
    .addHelpText(
      'after',
      '\nReads the database of the settings, whether or not a service runs, and changes nothing. ' +
        'Exits with 0 if all is well, with 1 if something is not, with 2 if it could not look.',
    )
    .action(reporting(doctor));
}

async function doctor({ quick, json }: DoctorOptions): Promise<void> {
  const settings = await readCommandSettings();
  const database = databaseTarget(settings, process.cwd());
  const now = Date.now();
  const request = { before: deletedBefore(settings, now), isQuick: quick === true };
  const examined = await examineStore(database, request).catch((error: unknown) => {
    throw new CommandError(error instanceof Error ? error.message : String(error));
  });
  const checks = [
    ...databaseChecks(examined, maskedPlace(settings).place),
    ...(examined.contents === null ? [UNREAD] : contentChecks(examined.contents, now)),
    ...(await diskChecks(database)),
    openFilesCheck(),
    ...settingsChecks(settings),
  ];
  if (json) printJson(checks);
  else print(`${checks.map(lineOf).join('\n')}\n`);
  process.exitCode = checks.every(({ status }) => status === 'ok') ? 0 : 1;
}

const lineOf = ({ status, check, message }: Check) => `${status.padEnd(7)}  ${check.padEnd(15)}  ${message}`;

/** The limits by which the service would delete rows. */
function deletedBefore(settings: Settings, now: number): Record<DueKind, number> {
  return {
    nonces: now,
    runs: now - settings.runRetentionDays * DAY_MS,
    deliveries: now - settings.deliveryRetentionDays * DAY_MS,
    activity: now - ACTIVITY_DAYS * DAY_MS,
  };
}

const LARGEST = 5;

function databaseChecks(
  { damage, schemaVersion, schema, fileBytes, walBytes, tables }: Examination,
  place: string,
): Check[] {
  const log = walBytes === null ? '' : `, its write-ahead log ${sizeOf(walBytes)}`;
  const isLong = (walBytes ?? 0) > LONG_LOG_BYTES;
  const largest = (tables ?? []).slice(0, LARGEST).map(({ name, bytes }) => `${name} ${sizeOf(bytes)}`);
  return [
    ...damageChecks(damage, place),
    ...schemaChecks(schema, schemaVersion),
    {
      check: 'size',
      status: isLong ? 'warning' : 'ok',
      message: `${sizeOf(fileBytes)}${log}${isLong ? ': something reads the database for long' : ''}`,
    },
    { check: 'tables', status: 'ok', message: tables === null ? 'were not measured' : largest.join(', ') },
  ];
}

const CURE = 'keep the files for a rescue and restore a backup, see docs/recovery.md';

function damageChecks(damage: Examination['damage'], place: string): Check[] {
  if (damage === null) return [{ check: 'database', status: 'ok', message: `${place}; damage was not looked for` }];
  if (damage.length === 0) return [{ check: 'database', status: 'ok', message: `${place} is whole` }];
  const lines = [`${place} is damaged: ${CURE}`, ...damage];
  return lines.map((message) => ({ check: 'database', status: 'error', message }));
}

function schemaChecks(schema: Examination['schema'], version: number): Check[] {
  const { lacks, foreign } = schema ?? { lacks: [], foreign: [] };
  const found: Check[] = [
    ...lacks.map(
      (line): Check => ({ check: 'schema', status: 'error', message: `${line}: undo that, or restore a backup` }),
    ),
    ...foreign.map((name): Check => {
      return {
        check: 'schema',
        status: 'warning',
        message: `the ${name} is not of Sluice: it may change or slow what is written`,
      };
    }),
  ];
  const compared = schema === null ? '; it cannot be read' : ', as its migrations make it';
  return found.length > 0
    ? found
    : [{ check: 'schema', status: 'ok', message: `version ${version}, that of this release${compared}` }];
}

const UNREAD: Check = {
  check: 'contents',
  status: 'error',
  message: 'runs, held deliveries and what retention deletes cannot be read',
};

/** A delivery held for longer is probably forgotten, not waited for. */
const LONG_HELD_DAYS = 7;
/** While a service runs, it deletes expired rows within this time. */
const LATE_PURGE_MS = 120_000;

function contentChecks(contents: ExaminedContents, now: number): Check[] {
  const { oldestRun, oldestHeld, oldestNonceEnd, due, mostDue } = contents;
  const isHeldLong = oldestHeld !== null && now - oldestHeld.at > LONG_HELD_DAYS * DAY_MS;
  const lateMs = now - (oldestNonceEnd ?? now);
  const counts = Object.entries(due).map(([kind, rows]) => `${rows === mostDue ? 'at least ' : ''}${rows} ${kind}`);
  const late =
    lateMs > LATE_PURGE_MS
      ? `; a nonce ended ${ageOf(lateMs)} ago: no service removes old rows, or its clock differs`
      : '';
  return [
    {
      check: 'oldest run',
      status: 'ok',
      message:
        oldestRun === null
          ? 'no run is in flight'
          : `${oldestRun.id} of ${oldestRun.flowName} has been in flight for ${ageOf(now - oldestRun.startedAt)}`,
    },
    {
      check: 'held deliveries',
      status: isHeldLong ? 'warning' : 'ok',
      message:
        oldestHeld === null
          ? 'none'
          : `the oldest, ${oldestHeld.deliveryId} of flow ${oldestHeld.flowId}, has waited for ${ageOf(now - oldestHeld.at)}`,
    },
    {
      check: 'retention',
      status: late === '' ? 'ok' : 'warning',
      message: `deletes next: ${counts.join(', ')}${late}`,
    },
  ];
}

/** Below this, a commit can fail at any time; below the other, it will. */
const LITTLE_ROOM_BYTES = 1024 ** 3;
const NO_ROOM_BYTES = 64 * 1024 ** 2;

/** Only for SQLite: PostgreSQL does not report the disk of its server. */
async function diskChecks(database: DatabaseTarget): Promise<Check[]> {
  if (database.kind === 'postgres') return [];
  const { bavail, bsize } = await statfs(dirname(database.path));
  const free = bavail * bsize;
  const status = free < NO_ROOM_BYTES ? 'error' : free < LITTLE_ROOM_BYTES ? 'warning' : 'ok';
  return [{ check: 'disk', status, message: `${sizeOf(free)} free where the database is` }];
}

function openFilesCheck(): Check {
  const limit = openFileLimit();
  const few = fewOpenFiles(limit);
  if (few !== undefined) return { check: 'open files', status: 'warning', message: few };
  return { check: 'open files', status: 'ok', message: limit === null ? 'no limit is known' : `ulimit -n is ${limit}` };
}

function settingsChecks(settings: Settings): Check[] {
  const dangers = [
    ...settingsWarnings(settings).map((line) => line.replace(/^warning /, '')),
    ...(settings.enforcementMode === 'Off' && !isLoopbackHost(settings.host)
      ? ['SLUICE_ENFORCEMENT_MODE: Off accepts deliveries that fail their gates, and others can reach this host']
      : []),
    ...(settings.storeKey === undefined && !isLoopbackHost(settings.host)
      ? ['SLUICE_STORE_KEY: is not set, so refused bodies are stored in plain text and the activity log proves less']
      : []),
  ];
  if (dangers.length === 0) return [{ check: 'settings', status: 'ok', message: 'none is dangerous' }];
  return dangers.map((message) => ({ check: 'settings', status: 'warning', message }));
}

function sizeOf(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  const value = bytes / 1024 ** power;
  return `${value >= 100 || power === 0 ? Math.round(value) : value.toFixed(1)} ${units[power]}`;
}

function ageOf(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [days, hours, minutes] = [Math.floor(seconds / 86_400), Math.floor(seconds / 3600), Math.floor(seconds / 60)];
  if (days >= 2) return `${days} days`;
  if (hours >= 2) return `${hours} h`;
  return minutes >= 2 ? `${minutes} min` : `${seconds} s`;
}

export const doctorCommand: CommandPart = { name: 'doctor', commands: [makeDoctor] };
