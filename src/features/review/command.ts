import { isUtf8 } from 'node:buffer';
import { readFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { Command } from 'commander';
import { CommandError, positive, printJson, reporting, withService } from '../../commands/context.ts';
import { doToEach } from '../../commands/each.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import {
  clientOf,
  flowIdOf,
  listPath,
  type ServiceClient,
  type ServiceOptions,
} from '../../commands/service-client.ts';
import { table } from '../../commands/table.ts';
import { isoTimeOf, type SpanOptions, withSpan } from '../../commands/time.ts';
import { print, printError } from '../../telemetry/terminal.ts';

interface RedeliverOptions extends ServiceOptions, SpanOptions {
  readonly flow?: string;
  readonly refusedFor?: string;
  readonly filtered?: true;
  readonly limit: number;
  readonly yes?: true;
  readonly force?: true;
  readonly body?: string;
  readonly reason?: string;
  readonly json?: true;
}

/** Result of judging a delivery again. */
interface Redelivery {
  readonly redeliveredFrom: string;
  readonly outcome: 'accepted' | 'would be accepted' | 'accepted before' | 'filtered' | 'refused' | 'not possible';
  /** Why a gate or the flow refused it. */
  readonly reason: string | null;
  readonly message: string;
  readonly runId: string | null;
}

/** The most deliveries that the API takes at once. */
const MOST = 500;

function redeliverCommand(): Command {
  const command = new Command('redeliver')
    .helpGroup(HELP.act)
    .description('Judge refused or filtered deliveries again, as of the time they arrived, and accept those that pass')
    .argument('[deliveries...]', 'ids of deliveries')
    .option('--flow <flow>', 'instead of ids: refused ones of the flow with this id or name')
    .option('--refused-for <code>', 'instead of ids: those with this reason, such as signature_mismatch')
    .option('--filtered', 'with a filter: those that webhookWhen filtered, instead of refused ones');
  withSpan(command)
    .option(
      '--limit <count>',
      `with a filter: how many, the newest that match; at most ${MOST}`,
      (text: string) => Math.min(positive(text), MOST),
      100,
    )
    .option('--yes', 'with a filter: do it; without, it says what would be done')
    .option('--force', 'with ids: accept them even if gates fail; their records say so')
    .option('--body <file>', 'with one id: send this body instead, - for standard input; the record says so')
    .option('--reason <text>', 'why; kept in the activity')
    .option('--json', 'print what became of each, or the answer of the API to a filter');
  return withService(command)
    .addHelpText(
      'after',
      '\nExits with 0 if all are accepted, now or before, with 1 if one was not or a filter waits for --yes, with 2 if there is\n' +
        'no such delivery or the service did not answer. `sluice replay` sends a delivery to another service.',
    )
    .action(reporting(redeliver));
}

async function redeliver(ids: readonly string[], options: RedeliverOptions): Promise<void> {
  const { flow, refusedFor, filtered, since, until, force, body: file, reason } = options;
  const hasFilter = [flow, refusedFor, filtered, since, until].some((given) => given !== undefined);
  if (hasFilter === ids.length > 0) {
    throw new CommandError('Give either the ids of deliveries, or a filter such as --flow or --since');
  }
  if (hasFilter && force) throw new CommandError('--force is for deliveries that are named, one by one');
  if (file !== undefined && ids.length !== 1) throw new CommandError('--body is for one delivery: give its id');
  const client = await clientOf(options);
  if (hasFilter) return redeliverMany(client, options);
  const edited = file === undefined ? {} : await bodyIn(file);
  const said = JSON.stringify({ force, reason, ...edited });
  const redeliverOne = async (id: string) => {
    const { body } = await client.ask({
      method: 'POST',
      path: `/flows/api/webhooks/${id}/redeliver`,
      body: said,
      like: REDELIVERY,
    });
    return { isDone: isAccepted(body as Redelivery), message: textOf(body as Redelivery) };
  };
  await doToEach(ids, redeliverOne, options);
}

/** The body in the API's form: text if possible, else base64. */
async function bodyIn(file: string): Promise<{ body: string; bodyEncoding: 'utf8' | 'base64' }> {
  const bytes = await (file === '-' ? buffer(process.stdin) : readFile(file)).catch((error: Error) => {
    throw new CommandError(`--body ${file}: ${error.message}`);
  });
  const isText = isUtf8(bytes) && !bytes.includes(0);
  const bodyEncoding = isText ? 'utf8' : 'base64';
  return { body: bytes.toString(bodyEncoding), bodyEncoding };
}

const REDELIVERY = { redeliveredFrom: '', outcome: '', message: '' };

interface ManyAnswer {
  readonly items: readonly Redelivery[];
  readonly token: string | null;
}

async function redeliverMany(client: ServiceClient, options: RedeliverOptions): Promise<void> {
  const { flow, refusedFor, filtered, since, until, limit, yes, reason, json } = options;
  const flowId = flow === undefined ? undefined : await flowIdOf(client, flow);
  const span = { since: isoTimeOf(since), until: isoTimeOf(until) };
  const filter = { flowId, reason: refusedFor, filtered, ...span, limit };
  const ask = async (path: string, body: object) =>
    (await client.ask({ method: 'POST', path, body: JSON.stringify(body), like: { items: [REDELIVERY] } }))
      .body as ManyAnswer;
  const plan = await ask(PATH, { ...filter, plan: true });
  const ready = plan.items.filter(({ outcome }) => outcome === 'would be accepted').length;
  const done = yes && ready > 0 ? await ask(listPath(PATH, { reason }), { plan: false, token: plan.token }) : undefined;
  const told = done ?? plan;
  if (json) printJson(told);
  else print(asText(plan.items, told.items));
  if (ready > 0 && done === undefined) printError('Nothing was done; --yes does it\n');
  const left = plan.items.filter(({ redeliveredFrom }) => {
    const ended = done?.items.find((item) => item.redeliveredFrom === redeliveredFrom);
    return ended === undefined || !isAccepted(ended);
  });
  process.exitCode = left.every(isAccepted) ? 0 : 1;
}

const PATH = '/flows/api/webhooks/redeliver';

/** The planned deliveries with their results, or with the plan if there are no results. */
function asText(planned: readonly Redelivery[], ended: readonly Redelivery[]): string {
  if (planned.length === 0) return 'No such delivery matches.\n';
  const rows = planned.map((item) => {
    const { outcome, ...rest } = ended.find((each) => each.redeliveredFrom === item.redeliveredFrom) ?? item;
    return [item.redeliveredFrom, outcome, textOf({ outcome, ...rest })];
  });
  return table(['DELIVERY', 'OUTCOME', 'WHY'], rows);
}

function isAccepted({ outcome, runId }: Redelivery): boolean {
  // A delivery that has a run was accepted when it arrived.
  return outcome === 'accepted' || outcome === 'accepted before' || (outcome === 'not possible' && runId !== null);
}

function textOf(redelivery: Redelivery): string {
  const { outcome, reason, message, runId } = redelivery;
  const isRefused = outcome === 'refused' || outcome === 'not possible';
  if (isRefused && !isAccepted(redelivery)) return reason === null ? message : `${reason}: ${message}`;
  return `${message}${runId === null ? '' : `; its run is ${runId}`}`;
}

export const reviewCommand: CommandPart = { name: 'review', commands: [redeliverCommand] };
