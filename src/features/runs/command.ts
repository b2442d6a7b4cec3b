import { Command } from 'commander';
import { CommandError, printJson, reporting, withService } from '../../commands/context.ts';
import { endingRefusals } from '../../commands/each.ts';
import { listOrNothing, type PagingOptions, secondOf, withPaging } from '../../commands/lists.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import {
  askList,
  clientOf,
  flowIdOf,
  isId,
  listFlows,
  listPath,
  type ServiceClient,
  type ServiceOptions,
} from '../../commands/service-client.ts';
import { table } from '../../commands/table.ts';
import { type SpanOptions, withSpan } from '../../commands/time.ts';
import { type Graph, RUN_STATUSES, type StepStatus } from '../../model/manifest.ts';
import { unhandledFailures, wire } from '../../model/planner.ts';
import { WAIT_KINDS, type WaitKind } from '../../model/run.ts';
import { print, printError } from '../../telemetry/terminal.ts';

/** The options of `withRunFilter`. */
export interface RunFilterOptions extends SpanOptions {
  readonly flow?: string;
  readonly status?: string;
  readonly waiting?: string;
  readonly search?: string;
  readonly key?: string;
  readonly step?: string;
  readonly code?: string;
  readonly host?: string;
  readonly error?: string;
  readonly builtIn?: true;
}

interface RunsOptions extends ServiceOptions, RunFilterOptions, PagingOptions {
  readonly group?: true;
}

/** The fields of a run that commands show. */
export interface ServedRun {
  readonly id: string;
  readonly flowName: string;
  readonly flowVersion: string;
  readonly revision: number;
  readonly status: string;
  readonly triggerKey: string;
  readonly deliveryId: string | null;
  readonly sourceRunId: string | null;
  readonly startedAt: string;
  readonly completedAt: string | null;
  readonly waitingFor: readonly RunWait[];
  readonly failure: {
    readonly stepKey: string;
    readonly code: string;
    readonly message: string;
    readonly handled: boolean;
  } | null;
}

interface RunWait {
  readonly for: WaitKind;
  /** Null if the whole run waits. */
  readonly stepKey: string | null;
  readonly signalName: string | null;
  readonly host: string | null;
  readonly runId: string | null;
  readonly until: string | null;
  /** Why the circuit of the host is open. */
  readonly why: string | null;
  readonly steps: number;
}

/** A run with its graph and the state of its steps: the fields that commands read. */
export interface RunOutline {
  readonly run: ServedRun;
  readonly control: {
    readonly timeoutAt: string | null;
    readonly cancelRequested: boolean;
    readonly cancelReason: string | null;
  };
  readonly graph: Graph;
  readonly steps: readonly {
    readonly stepKey: string;
    readonly status: StepStatus;
    readonly error: { readonly code: string; readonly message: string } | null;
  }[];
}

/** Keys of the failed steps that no later step handles. */
export function failedSteps({ graph, steps }: RunOutline): string[] {
  return unhandledFailures(wire(graph), new Map(steps.map(({ stepKey, status }) => [stepKey, status])));
}

/** Lists the runs of a running service. */
function makeRuns(): Command {
  const command = new Command('runs')
    .helpGroup(HELP.daily)
    .description('List runs by start time, newest first, and what each waits for');
  withPaging(withRunFilter(command)).option('--group', 'count failures by flow, step, code, host and error instead');
  return withService(command).action(reporting(listRuns));
}

/** Adds the filters that run lists and actions on many runs share. */
export function withRunFilter(command: Command): Command {
  const filtered = command
    .option('--flow <flow>', 'of the flow with this id or name')
    .option('--status <status>', `in this status: ${RUN_STATUSES.join(', ')}`)
    .option('--waiting <for>', `in flight, and waiting for this: ${WAIT_KINDS.join(', ')}`)
    .option('--search <text>', 'part of an id, the name of a flow, a trigger or a search key')
    .option('--key <name:value>', 'with this search key, such as order:SO-1010')
    .option('--step <key>', 'in which this step failed')
    .option('--code <code>', 'with a step that failed with this code, such as unexpected_status')
    .option('--host <host>', 'with a step that failed calling this host, such as api.example.com')
    .option('--error <text>', 'with a step whose error contains this; … stands for anything')
    .option('--built-in', 'also those of the flow that sends alerts, which is built in');
  return withSpan(filtered);
}

/** The filter in the API's format; times are in milliseconds. */
export async function runFilterOf(client: ServiceClient, options: RunFilterOptions) {
  const { flow, status, waiting, search, key, step, code, host, error, builtIn, since, until } = options;
  const flowId = flow === undefined ? undefined : await flowIdOf(client, flow);
  const cause = { step, code, host, error };
  return { flowId, status, waiting, search, searchKeys: key, ...cause, includeBuiltIn: builtIn, since, until };
}

/** Whether any option narrows the selection of runs. */
export function isFiltered(options: RunFilterOptions): boolean {
  const { flow, status, waiting, search, key, step, code, host, error, since, until } = options;
  const given = [flow, status, waiting, search, key, step, code, host, error, since, until];
  return given.some((each) => each !== undefined);
}

/** The fields of each run that commands need. */
export const RUN = { id: '', startedAt: '', status: '', flowName: '', waitingFor: [] };

async function listRuns(options: RunsOptions): Promise<void> {
  const client = await clientOf(options);
  const filter = await runFilterOf(client, options);
  if (options.group) return listFailures(client, filter, options);
  const runs = await askList(client, listPath('/flows/api/runs', { ...filter, take: options.take }), RUN);
  if (options.json) return printJson(runs);
  print(listOrNothing(RUN_COLUMNS, (runs as ServedRun[]).map(runRow), options.take));
}

interface ServedFailures {
  readonly groups: readonly {
    readonly flowId: string;
    readonly step: string;
    readonly code: string;
    readonly host: string | null;
    readonly error: string;
    readonly count: number;
    readonly firstAt: string;
    readonly lastAt: string;
    readonly trend: readonly number[];
  }[];
  readonly searchedUntil?: string;
}

const FAILURES = {
  groups: [{ flowId: '', step: '', code: '', error: '', count: 0, firstAt: '', lastAt: '', trend: [0] }],
};

async function listFailures(
  client: ServiceClient,
  filter: Awaited<ReturnType<typeof runFilterOf>>,
  { json, take }: RunsOptions,
): Promise<void> {
  const { body } = await client.ask({
    method: 'GET',
    path: listPath('/flows/api/runs/failures', filter),
    like: FAILURES,
  });
  if (json) return printJson(body);
  const { groups, searchedUntil } = body as ServedFailures;
  if (groups.length === 0) return print('Nothing.\n');
  const names = new Map((await listFlows(client, true)).map(({ id, name }) => [id, name]));
  const rows = groups
    .slice(0, take)
    .map(({ flowId, step, code, host, error, count, firstAt, lastAt, trend }) => [
      String(count),
      sparkline(trend),
      secondOf(firstAt),
      secondOf(lastAt),
      names.get(flowId) ?? flowId,
      step,
      code,
      host ?? '-',
      error,
    ]);
  print(table(['RUNS', 'TREND', 'FIRST', 'LAST', 'FLOW', 'STEP', 'CODE', 'HOST', 'ERROR'], rows));
  if (groups.length > take) printError(`the ${take} most frequent of ${groups.length}; --take shows more\n`);
  if (searchedUntil !== undefined)
    printError(`the newest 10 000 failures alone, of runs since ${secondOf(searchedUntil)}\n`);
}

const BARS = '▁▂▃▄▅▆▇█';

/** Numbers as bars; a zero becomes a space. */
function sparkline(numbers: readonly number[]): string {
  const most = Math.max(...numbers);
  return numbers
    .map((number) => (number === 0 ? ' ' : (BARS[Math.ceil((number / most) * BARS.length) - 1] ?? '')))
    .join('');
}

export const RUN_COLUMNS = ['RUN', 'STARTED', 'STATUS', 'FLOW', 'WHY'];

export function runRow(run: ServedRun): string[] {
  return [run.id, secondOf(run.startedAt), run.status, run.flowName, whyOf(run)];
}

/** What a run in flight waits for, or where an ended run failed; empty if neither. */
function whyOf({ waitingFor, failure }: ServedRun): string {
  if (failure === null) return waitingFor.map(waitText).join('; ');
  const { stepKey, code, message, handled } = failure;
  // The message comes first, without the error code: the run id leaves little room.
  return `${message || code} (${stepKey}${handled ? ', handled' : ''})`;
}

/** For each kind of wait: what the step does now, and what it does at the set time, if any; worded as on the page. */
const WAITS: Readonly<Record<WaitKind, readonly [does: (wait: RunWait) => string, next: string]>> = {
  signal: [({ signalName }) => `waits for the signal ${signalName ?? '?'}`, 'gives up'],
  delay: [() => 'waits', 'continues'],
  retry: [() => 'failed', 'retries'],
  poll: [() => 'waits', 'polls again'],
  host: [({ host }) => `waits for its turn at ${host ?? 'a host'}`, 'continues at the latest'],
  secret: [() => 'waits for a secret', 'looks again'],
  run: [({ runId }) => `waits for the run ${runId ?? '?'}`, 'checks again'],
  order: [({ runId }) => `waits for its turn behind the run ${runId ?? '?'}`, ''],
  coalesce: [() => 'waits for more deliveries', 'starts'],
  slot: [() => 'waits for a free slot', 'was due'],
};

/** Describes a wait in words, with its step. */
export function waitText(wait: RunWait): string {
  const { stepKey, until, why, steps } = wait;
  const [does, next] = WAITS[wait.for];
  const others = steps > 1 ? ` and ${steps - 1} more` : '';
  return `${stepKey === null ? 'the run' : `${stepKey}${others}`} ${does(wait)}${until === null ? '' : `, ${why === null ? next : 'which is tried again'} ${secondOf(until)}`}${why === null ? '' : `: ${why}`}`;
}

interface SignalOptions extends ServiceOptions {
  readonly reason?: string;
  readonly json?: true;
}

/** Answer of the API. */
interface DeliveredSignal {
  readonly delivered: boolean;
  readonly stepKey: string | null;
}

function signalCommand(): Command {
  const command = new Command('signal')
    .helpGroup(HELP.act)
    .description('Send a signal to a run, such as the approval that one of its steps waits for')
    .argument('<run>', 'id of the run')
    .argument('<name>', 'name of the signal')
    .argument('[body]', 'JSON, such as \'{"approved": true}\'; the output of the step; default: null')
    .option('--reason <text>', 'why; kept in the activity')
    .option('--json', 'print the answer of the API');
  return withService(command)
    .addHelpText(
      'after',
      '\nExits with 0 if the run has the signal, with 1 if the run ended or has it already, with 2 if there is no such run, if\n' +
        'none of its steps waits for that name, or if the service did not answer.',
    )
    .action(reporting(endingRefusals(signal)));
}

type Given = [runId: string, name: string, body: string | undefined, options: SignalOptions];

async function signal(...[runId, name, body, options]: Given): Promise<void> {
  if (!isId(runId)) throw new CommandError(`"${runId}" is not an id`);
  if (body !== undefined && !isJson(body)) throw new CommandError(`"${body}" is not JSON; quote it for the shell`);
  const client = await clientOf(options);
  const path = listPath(`/flows/api/runs/${runId}/signals/${encodeURIComponent(name)}`, { reason: options.reason });
  const asked = { method: 'POST', path, like: { delivered: true }, ...(body === undefined ? {} : { body }) } as const;
  const answer = (await client.ask(asked)).body;
  if (options.json) return printJson(answer);
  const { delivered, stepKey } = answer as DeliveredSignal;
  print(
    delivered ? `step ${stepKey} has it and goes on\n` : 'no step waits for it yet; the first one that does gets it\n',
  );
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

export const runsCommand: CommandPart = { name: 'runs', commands: [makeRuns, signalCommand] };
