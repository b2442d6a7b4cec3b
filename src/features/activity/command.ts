import { Command, InvalidArgumentError } from 'commander';
import { CommandError, printJson, readCommandSettings, reporting, withService } from '../../commands/context.ts';
import { type PagingOptions, secondOf, withPaging } from '../../commands/lists.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import {
  askList,
  clientOf,
  listPath,
  NoAnswerError,
  type ServiceClient,
  type ServiceOptions,
} from '../../commands/service-client.ts';
import { type SpanOptions, withSpan } from '../../commands/time.ts';
import { databaseTarget } from '../../config/database.ts';
import type { Settings } from '../../config/settings-schema.ts';
import { maskUrl } from '../../manifest/mask.ts';
import { inspectStore } from '../../store/offline.ts';
import { bodySealer } from '../../store/sealed-body.ts';
import type { Inspection } from '../../store/store.ts';
import { print, printError } from '../../telemetry/terminal.ts';
import { activityStore } from './store.ts';
import {
  type ActivityVerdict,
  type ChainPoint,
  type InterventionView,
  interventionView,
  verifyActivity,
} from './view.ts';

interface ListOptions extends ServiceOptions, SpanOptions, PagingOptions {
  readonly actor?: string;
  readonly action?: string;
  readonly target?: string;
}

interface VerifyOptions extends ServiceOptions {
  readonly expect?: ChainPoint;
  readonly json?: true;
}

function makeActivity(): Command {
  const command = new Command('activity')
    .helpGroup(HELP.history)
    .description('List who did what, when and why, newest first, or verify that the list was not changed')
    .option('--actor <name>', 'of this token or user')
    .option('--action <name>', 'of this operation, such as disableFlow')
    .option('--target <id>', 'on this flow, run, delivery or schedule')
    .addCommand(verifyCommand());
  return withService(withPaging(withSpan(command)))
    .addHelpText('after', '\nWithout --to, and if no service answers, it reads the database of the settings.')
    .action(reporting(list));
}

function verifyCommand(): Command {
  return (
    new Command('verify')
      .description(
        'Check the chain of hashes of the activity log; names each row that was changed, removed or inserted',
      )
      .option(
        '--expect <seq:hash>',
        'a row that an earlier check called the newest: it must still be there',
        chainPoint,
      )
      .configureHelp({ showGlobalOptions: true })
      .addHelpText(
        'after',
        '\nWithout --to it reads the database of the settings, with SLUICE_STORE_KEY, whether or not a service runs.\n' +
          'Exits with 0 if the log is whole, with 1 if not, with 2 if it could not be checked.',
      )
      // `--to`, `--json` and the credentials are options of the parent command.
      .action(reporting((_own: object, command: Command) => verify(command.optsWithGlobals<VerifyOptions>())))
  );
}

async function list({ json, ...options }: ListOptions): Promise<void> {
  const settings = await readCommandSettings();
  const items = await listItems(options, settings);
  if (json) printJson(items);
  else print(items.length === 0 ? 'Nothing.\n' : `${items.map(lineOf).join('\n')}\n`);
}

async function listItems(options: Omit<ListOptions, 'json'>, settings: Settings): Promise<readonly InterventionView[]> {
  const { to, since, until, actor, action, target, take } = options;
  const filter = { since, until, actor, action, target, take };
  try {
    const client = await clientOf(options, settings);
    return (await askList(client, listPath('/flows/api/activity', filter), ENTRY)) as InterventionView[];
  } catch (error) {
    if (to !== undefined || !(error instanceof NoAnswerError)) throw error;
    const page = await inspecting(settings, (inspection, name) => {
      printError(`no service answers; read from the database ${name}\n`);
      return inspection.of(activityStore).listInterventions({ ...filter, skip: 0 });
    });
    return page.items.map(interventionView);
  }
}

/** The fields that a line shows, apart from those that may be null. */
const ENTRY = { at: '', actor: '', action: '', outcome: '' };

function lineOf({ at, actor, action, target, outcome, reason }: InterventionView): string {
  const what = target === null ? action : `${action} ${target.type} ${target.id}`;
  const ending = outcome === 'done' ? '' : ` (${outcome})`;
  return `${secondOf(at)}  ${actor}  ${what}${ending}${reason === null ? '' : `: ${reason}`}`;
}

async function verify({ expect, json, ...options }: VerifyOptions): Promise<void> {
  const settings = await readCommandSettings();
  const verdict =
    options.to === undefined
      ? await inspecting(settings, (inspection) => verifyActivity(inspection, expect))
      : await askVerdict(await clientOf(options, settings), expect);
  if (json) printJson(verdict);
  else print(`${verdictLines(verdict).join('\n')}\n`);
  process.exitCode = { whole: 0, broken: 1, unknown: 2 }[verdict.verdict];
}

const VERDICT = { verdict: '', rows: 0, faults: [{ message: '' }] };

async function askVerdict(client: ServiceClient, expected: ChainPoint | undefined): Promise<ActivityVerdict> {
  const query = expected === undefined ? '' : `?expect=${expected.seq}:${expected.hash}`;
  const { body } = await client.ask({ method: 'GET', path: `/flows/api/activity/verify${query}`, like: VERDICT });
  return body as ActivityVerdict;
}

function verdictLines(verdict: ActivityVerdict): string[] {
  const { rows, rowsWithoutKey, rowsOfOtherKeys, removed, newest, faults, moreFaults } = verdict;
  const heads = {
    whole: `The activity log is whole: ${rows} rows.`,
    broken: 'The activity log is not what was written:',
    unknown: `${rowsOfOtherKeys} of ${rows} rows were written with another key, so they cannot be checked; set SLUICE_STORE_KEY to it.`,
  };
  return [
    heads[verdict.verdict],
    ...faults.map(({ message, row }) => {
      if (row === null) return `  ${message}`;
      return `  ${message}; now: ${row.at} ${row.actor} ${row.action} (${row.id})`;
    }),
    ...(moreFaults > 0 ? [`  and ${moreFaults} more`] : []),
    ...(rowsWithoutKey > 0
      ? [`${rowsWithoutKey} rows were written without a key: whoever can write to the database could have made them.`]
      : []),
    ...(removed === null ? [] : [`Retention removed the rows up to ${removed.seq}.`]),
    ...(newest === null ? [] : [`The newest row is ${newest.seq}:${newest.hash}`]),
  ];
}

/** Reads the configured database, whether or not a service uses it. */
async function inspecting<Value>(
  settings: Settings,
  work: (inspection: Inspection, name: string) => Promise<Value>,
): Promise<Value> {
  const database = databaseTarget(settings, process.cwd());
  const sealer = settings.storeKey === undefined ? undefined : bodySealer(settings.storeKey);
  const inspection = await inspectStore(database, sealer?.chainKey).catch((error: unknown) => {
    throw new CommandError(error instanceof Error ? error.message : String(error));
  });
  try {
    return await work(inspection, database.kind === 'sqlite' ? database.path : maskUrl(database.url));
  } finally {
    await inspection.close();
  }
}

function chainPoint(text: string): ChainPoint {
  const [, seq, hash] = /^([1-9]\d{0,14}):([0-9a-f]{64})$/.exec(text) ?? [];
  if (seq === undefined || hash === undefined) {
    throw new InvalidArgumentError('expected what an earlier check printed, such as 412:9f86d0…');
  }
  return { seq: Number(seq), hash };
}

export const activityCommand: CommandPart = { name: 'activity', commands: [makeActivity] };
