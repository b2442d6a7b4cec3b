import { setTimeout as wait } from 'node:timers/promises';
import { Command } from 'commander';
import { reporting, withService } from '../../commands/context.ts';
import { deployFolder } from '../../commands/deploy.ts';
import { HELP } from '../../commands/part.ts';
import { concludeDeploy, renderDeployed } from '../../commands/render-outcomes.ts';
import { clientOf, findFlow, type ServiceClient, type ServiceOptions } from '../../commands/service-client.ts';
import { print, printError } from '../../telemetry/terminal.ts';

interface DrainOptions extends ServiceOptions {
  readonly wait?: true;
  readonly deploy?: string;
  readonly resume?: true;
  /** False with `--no-hold`. */
  readonly hold?: boolean;
  readonly reason?: string;
}

/** The part of the service's answer about a drain that this command uses. */
interface Drain {
  readonly flowId: string;
  readonly flowName: string;
  readonly done: boolean;
  readonly runsInFlight: number;
  readonly held: number;
  readonly callersInFlight: number;
  readonly callers: readonly { readonly id: string; readonly flowName: string }[];
  readonly runs: readonly {
    readonly id: string;
    readonly steps: Readonly<Record<string, { readonly status: string; readonly waiting: boolean }>>;
  }[];
}

const DRAIN = {
  ...{ flowId: '', flowName: '', done: true, runsInFlight: 0, callersInFlight: 0 },
  callers: [{ id: '', flowName: '' }],
  runs: [{ id: '', steps: {} }],
};

const POLL_MS = 500;
const NAMED_RUNS = 3;

export function makeDrain(): Command {
  const command = new Command('drain')
    .helpGroup(HELP.flows)
    .description('Drain a flow: its runs finish, and no trigger starts another run until you resume it')
    .argument('<flow>', 'id or name of the flow')
    .option('--wait', 'wait until no run is in flight')
    .option('--deploy <folder>', 'wait, then deploy this folder of manifests')
    .option('--resume', 'end the drain: at once, or after --wait or --deploy')
    .option('--hold', 'accept deliveries meanwhile, and start their runs when the drain ends')
    .option('--no-hold', 'refuse deliveries meanwhile; without either, the triggers of the flow say')
    .option('--reason <text>', 'why; kept in the activity');
  return withService(command)
    .addHelpText(
      'after',
      '\nPrints progress to standard error. Ctrl-C ends the command but not the drain: run it again, or run it with only ' +
        '--resume to end the drain. If the deploy is refused, the flow stays drained. Exit codes are those of `sluice deploy`.',
    )
    .action(reporting(drain));
}

async function drain(name: string, options: DrainOptions): Promise<void> {
  const client = await clientOf(options);
  const { deploy: folder, hold, reason, ...service } = options;
  // Checked first: a folder that cannot be deployed must not stop a flow.
  if (folder !== undefined) await deployFolder(folder, { ...service, allow: ['caution'], dryRun: true });
  const flow = await findFlow(client, name);
  const path = `/flows/api/flows/${flow.id}/drain`;
  if (options.resume && !options.wait && folder === undefined) return resume(client, path, reason);
  let state = await ask(client, path, { method: 'POST', said: { hold, reason } });
  tell(`${flow.name} is drained: no trigger starts a run`);
  if (options.wait || folder !== undefined) state = await waitUntilDone(client, path, state);
  else tell(progress(state));
  if (folder !== undefined) {
    const { outcomes } = await deployFolder(folder, { ...service, allow: [] });
    print(renderDeployed(outcomes));
    process.exitCode = concludeDeploy(outcomes, []).code;
    if (process.exitCode !== 0) {
      tell(`the deploy was refused; ${flow.name} stays drained until \`sluice drain ${flow.id} --resume\``);
      return;
    }
  }
  if (options.resume) await resume(client, path, reason);
}

async function resume(client: ServiceClient, path: string, reason: string | undefined): Promise<void> {
  const { flowName, held } = await ask(client, path, { method: 'DELETE', said: { reason } });
  tell(`${flowName} starts runs again${held === 0 ? '' : `, those of ${held} held deliveries first`}`);
}

async function waitUntilDone(client: ServiceClient, path: string, first: Drain): Promise<Drain> {
  const interrupted = () => {
    tell(`interrupted: ${first.flowName} stays drained until \`sluice drain ${first.flowId} --resume\``);
    process.exit(130);
  };
  process.once('SIGINT', interrupted);
  try {
    let told = '';
    let state = first;
    for (;;) {
      const line = progress(state);
      if (line !== told) tell(line);
      told = line;
      if (state.done) return state;
      await wait(POLL_MS);
      state = await ask(client, path);
    }
  } finally {
    process.off('SIGINT', interrupted);
  }
}

function progress({ done, runsInFlight, runs, callersInFlight, callers }: Drain): string {
  if (done) return 'no run is in flight';
  const named = runs.slice(0, NAMED_RUNS).map(({ id, steps }) => {
    const open = Object.entries(steps).filter(([, { status }]) => status === 'Pending' || status === 'Running');
    const where = open.map(([key, { waiting }]) => `${waiting ? 'waits in' : 'is in'} ${key}`).join(', ');
    return `${id} ${where === '' ? 'is between steps' : where}`;
  });
  const calling = callers.slice(0, NAMED_RUNS).map(({ id, flowName }) => `${id} of ${flowName}`);
  const parts = [
    ...(runsInFlight > 0 ? [`${runsInFlight} in flight: ${withMore(named, runsInFlight)}`] : []),
    ...(callersInFlight > 0 ? [`${callersInFlight} may still start it: ${withMore(calling, callersInFlight)}`] : []),
  ];
  return parts.join('; ');
}

function withMore(named: readonly string[], count: number): string {
  return [...named, ...(count > named.length ? [`${count - named.length} more`] : [])].join('; ');
}

async function ask(client: ServiceClient, path: string, command: DrainCommand = { method: 'GET' }): Promise<Drain> {
  const { method, said } = command;
  return (await client.ask({ method, path, like: DRAIN, ...(said && { body: JSON.stringify(said) }) })).body as Drain;
}

interface DrainCommand {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** The body of the request, without undefined fields. */
  readonly said?: { readonly hold?: boolean | undefined; readonly reason?: string | undefined };
}

function tell(line: string): void {
  printError(`${line}\n`);
}
