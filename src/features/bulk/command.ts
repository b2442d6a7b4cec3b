import { setTimeout as wait } from 'node:timers/promises';
import { Command } from 'commander';
import { CommandError, positive, printJson, reporting, withService } from '../../commands/context.ts';
import { doToEach } from '../../commands/each.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import {
  askList,
  clientOf,
  RefusedError,
  type ServiceClient,
  type ServiceOptions,
} from '../../commands/service-client.ts';
import { table } from '../../commands/table.ts';
import { isoTimeOf } from '../../commands/time.ts';
import { print, printError } from '../../telemetry/terminal.ts';
import type { InterventionView } from '../activity/view.ts';
import {
  failedSteps,
  isFiltered,
  RUN,
  RUN_COLUMNS,
  type RunFilterOptions,
  type RunOutline,
  runFilterOf,
  runRow,
  type ServedRun,
  withRunFilter,
} from '../runs/command.ts';

interface ActionOptions extends ServiceOptions, RunFilterOptions {
  readonly limit?: number;
  readonly reason?: string;
  readonly yes?: true;
  readonly json?: true;
}

/** A command on runs. */
interface Action {
  readonly name: 'cancel' | 'retry';
  readonly description: string;
  /** Acts on one run. Throws `RefusedError`. */
  readonly act: (
    client: ServiceClient,
    runId: string,
    reason: string | undefined,
  ) => Promise<{ isDone: boolean; message: string }>;
}

const retryCommand = () =>
  actionCommand({ name: 'retry', description: 'Retry the steps that made runs fail', act: retry });

const cancelCommand = () =>
  actionCommand({ name: 'cancel', description: 'Cancel runs: at once, or when their running steps stop', act: cancel });

function releaseOrderCommand(): Command {
  const command = new Command('release-order')
    .helpGroup(HELP.act)
    .description('Let the next runs of a key start, although these have failed and hold it (serializeOnFailure: stop)')
    .argument('<runs...>', 'ids of runs')
    .option('--reason <text>', 'why; kept in the activity')
    .option('--json', 'print what became of each run');
  return withService(command)
    .addHelpText(
      'after',
      '\nExits with 0 if it is done, with 1 if the service refused it for a run, and with 2 if there is no such run or the\n' +
        'service did not answer.',
    )
    .action(
      reporting(async (ids: string[], options: Pick<ActionOptions, 'json' | 'reason'> & ServiceOptions) => {
        const client = await clientOf(options);
        await doToEach(ids, (id) => releaseOrder(client, id, options.reason), options);
      }),
    );
}

function actionCommand(action: Action): Command {
  const command = new Command(action.name)
    .helpGroup(HELP.act)
    .description(`${action.description}: those that are named, or all that match a filter`)
    .argument('[runs...]', 'ids of runs');
  withRunFilter(command)
    .option('--limit <count>', 'with a filter: how many runs, the newest that match; default: 1000', positive)
    .option('--yes', 'with a filter: do it; without, it says what would be done')
    .option('--reason <text>', 'why; kept in the activity')
    .option('--json', 'print what became of each run, or the plan, or the entry in the activity');
  return withService(command)
    .addHelpText(
      'after',
      '\nA filter is planned first, and exactly the plan is carried out. The service goes on with it if you press Ctrl-C.\n' +
        'Exits with 0 if it is done, with 1 if the service refused it for a run, left runs out, or waits for --yes, and with 2\n' +
        'if there is no such run or the service did not answer.',
    )
    .action(reporting((ids: string[], options: ActionOptions) => doToRuns(action, ids, options)));
}

async function doToRuns(action: Action, ids: readonly string[], options: ActionOptions): Promise<void> {
  const { reason } = options;
  const isMany = isFiltered(options);
  if (isMany === ids.length > 0) {
    throw new CommandError('Give either the ids of runs, or a filter such as --flow or --since');
  }
  const client = await clientOf(options);
  if (isMany) return doToMany(action, client, options);
  await doToEach(ids, (id) => action.act(client, id, reason), options);
}

async function cancel(client: ServiceClient, runId: string, reason: string | undefined) {
  return { isDone: true, message: await commandRun(client, `${runId}/cancel`, reason) };
}

async function releaseOrder(client: ServiceClient, runId: string, reason: string | undefined) {
  return { isDone: true, message: await commandRun(client, `${runId}/release-order`, reason) };
}

const OUTLINE = { run: { status: '' }, graph: {}, steps: [{ stepKey: '', status: '' }] };

/** Like the service's bulk action: done if at least one of the steps can be retried. */
async function retry(client: ServiceClient, runId: string, reason: string | undefined) {
  const { body } = await client.ask({ method: 'GET', path: `/flows/api/runs/${runId}/outline`, like: OUTLINE });
  const outline = body as RunOutline;
  const { status } = outline.run;
  const stepKeys = status === 'Running' ? [] : failedSteps(outline);
  const done: string[] = [];
  let refusal = `The run is ${status}; only a run that failed can be retried`;
  for (const stepKey of stepKeys) {
    try {
      done.push(await commandRun(client, `${runId}/steps/${encodeURIComponent(stepKey)}/retry`, reason));
    } catch (error) {
      if (!(error instanceof RefusedError) || !error.isRule) throw error;
      refusal = error.why;
    }
  }
  return done.length > 0 ? { isDone: true, message: done.join('; ') } : { isDone: false, message: refusal };
}

async function commandRun(client: ServiceClient, what: string, reason: string | undefined): Promise<string> {
  const path = `/flows/api/runs/${what}`;
  const { body } = await client.ask({ method: 'POST', path, body: JSON.stringify({ reason }), like: { message: '' } });
  return (body as { readonly message: string }).message;
}

/** The plan of the service. */
interface Plan {
  readonly total: number;
  readonly looked: number;
  readonly ready: number;
  readonly leftOut: readonly { readonly message: string; readonly count: number; readonly example: string }[];
  readonly sample: readonly ServedRun[];
  readonly token: string;
}

const PLAN = {
  ...{ total: 0, looked: 0, ready: 0, leftOut: [{ message: '', count: 0 }], token: '' },
  sample: [RUN],
};

async function doToMany({ name }: Action, client: ServiceClient, options: ActionOptions): Promise<void> {
  const { limit, reason, yes, json } = options;
  const path = `/flows/api/runs/${name}`;
  const { since, until, ...filter } = await runFilterOf(client, options);
  const asked = { ...filter, since: isoTimeOf(since), until: isoTimeOf(until), limit };
  const { body } = await client.ask({ method: 'POST', path, body: JSON.stringify(asked), like: PLAN });
  const plan = body as Plan;
  if (!json) print(planText(name, plan));
  if (yes !== true || plan.ready === 0) {
    if (json) printJson(plan);
    if (plan.ready > 0) printError(`Nothing was done; --yes does it\n`);
    process.exitCode = plan.ready + plan.leftOut.length > 0 ? 1 : 0;
    return;
  }
  const sent = JSON.stringify({ plan: false, token: plan.token, reason });
  const { interventionId } = (await client.ask({ method: 'POST', path, body: sent, like: { interventionId: '' } }))
    .body as {
    interventionId: string;
  };
  const ended = await waitUntilEnded(client, interventionId);
  const { done = '0', leftOut = '0' } = ended.details;
  if (json) printJson(ended);
  else print(`${ended.outcome}: ${progress(ended)}\n`);
  process.exitCode = ended.outcome === 'done' && leftOut === '0' && done === String(plan.ready) ? 0 : 1;
}

function planText(name: Action['name'], { total, looked, ready, leftOut, sample }: Plan): string {
  const beyond = total > looked ? `, the newest ${looked} of which it looked at` : '';
  const head = `${total} ${total === 1 ? 'run matches' : 'runs match'}${beyond}; ${name} is for ${ready}\n`;
  const others = leftOut.map(({ message, count, example }) => `left out: ${count}, such as ${example}: ${message}\n`);
  const more = ready > sample.length ? `and ${ready - sample.length} more\n` : '';
  return [head, ...others, ...(sample.length === 0 ? [] : [table(RUN_COLUMNS, sample.map(runRow)), more])].join('');
}

const POLL_MS = 500;
const ENTRY = { outcome: '', details: {} };

/** Reports progress on standard error. */
async function waitUntilEnded(client: ServiceClient, interventionId: string): Promise<InterventionView> {
  for (let told = ''; ; await wait(POLL_MS)) {
    const [entry] = (await askList(client, `/flows/api/activity?id=${interventionId}`, ENTRY)) as InterventionView[];
    if (entry === undefined) throw new CommandError(`The activity has no entry ${interventionId}`);
    if (entry.outcome !== 'unknown') return entry;
    const line = progress(entry);
    if (line !== told) printError(`${line}\n`);
    told = line;
  }
}

function progress({ details: { planned = '?', done = '0', leftOut = '0' } }: InterventionView): string {
  return `${done} of ${planned}${leftOut === '0' ? '' : `, left out: ${leftOut}`}`;
}

export const bulkCommand: CommandPart = { name: 'bulk', commands: [retryCommand, cancelCommand, releaseOrderCommand] };
