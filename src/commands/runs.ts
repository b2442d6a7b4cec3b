import { Command } from 'commander';
import { type Graph, RUN_STATUSES, type StepStatus } from '../model/manifest.ts';
import { unhandledFailures, wire } from '../model/planner.ts';
import { WAIT_KINDS, type WaitKind } from '../model/run.ts';
import { print } from '../telemetry/terminal.ts';
import { printJson, reporting, withService } from './context.ts';
import { listOrNothing, type PagingOptions, secondOf, withPaging } from './lists.ts';
import { askList, clientOf, flowIdOf, listPath, type ServiceClient, type ServiceOptions } from './service-client.ts';
import { type SpanOptions, withSpan } from './time.ts';

/** The options of `withRunFilter`. */
export interface RunFilterOptions extends SpanOptions {
  readonly flow?: string;
  readonly status?: string;
  readonly waiting?: string;
  readonly search?: string;
  readonly key?: string;
}

interface RunsOptions extends ServiceOptions, RunFilterOptions, PagingOptions {}

/** A run, as far as commands show it. */
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
  readonly stepKey: string;
  readonly signalName: string | null;
  readonly host: string | null;
  readonly runId: string | null;
  readonly until: string | null;
  /** Why the circuit of the host is open. */
  readonly why: string | null;
  readonly steps: number;
}

/** A run with its graph and the state of its steps, as far as commands read it. */
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

/** Keys of the failed steps that no later step handled. */
export function failedSteps({ graph, steps }: RunOutline): string[] {
  return unhandledFailures(wire(graph), new Map(steps.map(({ stepKey, status }) => [stepKey, status])));
}

/** The runs of a running service. */
export function runsCommand(): Command {
  const command = new Command('runs').description('List runs by start time, newest first, and what each waits for');
  return withService(withPaging(withRunFilter(command))).action(reporting(listRuns));
}

/** Adds the filters that lists of runs, and actions on many of them, have. */
export function withRunFilter(command: Command): Command {
  const filtered = command
    .option('--flow <flow>', 'of the flow with this id or name')
    .option('--status <status>', `in this status: ${RUN_STATUSES.join(', ')}`)
    .option('--waiting <for>', `in flight, and waiting for this: ${WAIT_KINDS.join(', ')}`)
    .option('--search <text>', 'part of an id, the name of a flow, a trigger or a search key')
    .option('--key <name:value>', 'with this search key, such as order:SO-1010');
  return withSpan(filtered);
}

/** The filter as the API takes it; times are milliseconds. */
export async function runFilterOf(client: ServiceClient, options: RunFilterOptions) {
  const { flow, status, waiting, search, key, since, until } = options;
  const flowId = flow === undefined ? undefined : await flowIdOf(client, flow);
  return { flowId, status, waiting, search, searchKeys: key, since, until };
}

async function listRuns(options: RunsOptions): Promise<void> {
  const client = await clientOf(options);
  const filter = await runFilterOf(client, options);
  const runs = await askList(client, listPath('/flows/api/runs', { ...filter, take: options.take }));
  if (options.json) return printJson(runs);
  print(listOrNothing(RUN_COLUMNS, (runs as ServedRun[]).map(runRow), options.take));
}

export const RUN_COLUMNS = ['RUN', 'STARTED', 'STATUS', 'FLOW', 'WHY'];

export function runRow(run: ServedRun): string[] {
  return [run.id, secondOf(run.startedAt), run.status, run.flowName, whyOf(run)];
}

/** What a run in flight waits for, or where an ended one failed; empty if neither. */
function whyOf({ waitingFor, failure }: ServedRun): string {
  if (failure === null) return waitingFor.map(waitText).join('; ');
  const { stepKey, code, message, handled } = failure;
  // Without its code: the id leaves little room.
  return `${stepKey}${handled ? ' (handled)' : ''}: ${message || code}`;
}

/** What a step does meanwhile, and what it does at the time that is set, if one is; as the page has it. */
const WAITS: Readonly<Record<WaitKind, readonly [does: (wait: RunWait) => string, next: string]>> = {
  signal: [({ signalName }) => `waits for the signal ${signalName ?? '?'}`, 'gives up'],
  delay: [() => 'waits', 'continues'],
  retry: [() => 'failed', 'retries'],
  poll: [() => 'waits', 'polls again'],
  host: [({ host }) => `waits for its turn at ${host ?? 'a host'}`, 'continues at the latest'],
  secret: [() => 'waits for a secret', 'looks again'],
  run: [({ runId }) => `waits for the run ${runId ?? '?'}`, 'checks again'],
  slot: [() => 'waits for a free slot', 'was due'],
};

/** A wait in words, with its step. */
export function waitText(wait: RunWait): string {
  const { stepKey, until, why, steps } = wait;
  const [does, next] = WAITS[wait.for];
  const others = steps > 1 ? ` and ${steps - 1} more` : '';
  return `${stepKey}${others} ${does(wait)}${until === null ? '' : `, ${why === null ? next : 'which is tried again'} ${secondOf(until)}`}${why === null ? '' : `: ${why}`}`;
}
