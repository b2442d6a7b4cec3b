import { Command } from 'commander';
import { CommandError, printJson, reporting, withService } from '../../commands/context.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import { clientOf, findFlow, listFlows, type ServiceOptions } from '../../commands/service-client.ts';
import { table } from '../../commands/table.ts';
import { print } from '../../telemetry/terminal.ts';
import { makeDrain } from './drain-command.ts';
import { switchCommands } from './switch-commands.ts';

interface ListOptions extends ServiceOptions {
  readonly json?: true;
}

interface DeleteOptions extends ServiceOptions {
  readonly reason?: string;
}

/** Commands on the flows of a running service. */
function makeFlows(): Command {
  const list = new Command('list')
    .description('List the deployed flows')
    .option('--json', 'print the answer of the API');
  const remove = new Command('delete')
    .description('Delete a flow: its schedules end, its slugs are free, and its runs in flight finish')
    .argument('<flow>', 'id or name of the flow')
    .option('--reason <text>', 'why; kept in the activity');
  return new Command('flows')
    .helpGroup(HELP.flows)
    .description('List or delete the flows of a running service')
    .addCommand(withService(list).action(reporting(listAll)))
    .addCommand(
      withService(remove)
        .addHelpText(
          'after',
          '\nWhat is stored of the flow stays readable until retention removes it. A deploy brings the flow back. Refused while a\n' +
            'manifest of the folder of the service has it, other flows start it, or deliveries of it are held.',
        )
        .action(reporting(deleteFlow)),
    );
}

async function listAll(options: ListOptions): Promise<void> {
  const client = await clientOf(options);
  const flows = await listFlows(client);
  if (options.json) return printJson(flows);
  const stateOf = ({ isEnabled, drainingSince }: (typeof flows)[number]) =>
    isEnabled ? (drainingSince === null ? 'enabled' : 'draining') : 'disabled';
  const rows: string[][] = [];
  for (const flow of flows) {
    const hour = rows.length < MOST_WITH_FIGURES ? await lastHourOf(flow.id, client) : ['', '', ''];
    rows.push([flow.id, flow.name, flow.version, String(flow.revision), stateOf(flow), ...hour]);
  }
  print(table(['ID', 'NAME', 'VERSION', 'REVISION', 'STATE', 'DELIVERIES/H', 'REFUSED/H', 'P95'], rows));
}

/** Each flow takes separate requests. */
const MOST_WITH_FIGURES = 100;

/** Deliveries of the last hour, how many of them were refused, and durations of the flow's runs. */
async function lastHourOf(flowId: string, client: Awaited<ReturnType<typeof clientOf>>): Promise<string[]> {
  const ask = async (path: string) =>
    (await client.ask({ method: 'GET', path: `/flows/api/${path}&flowId=${flowId}` })).body;
  const { total, rejected } = Object(await ask('webhooks/stats?hours=1'));
  const { buckets } = Object(await ask('runs/timeseries?bucket=hour&hours=2'));
  const durations = (Array.isArray(buckets) ? buckets : []).map(({ p95DurationMs }) => Number(p95DurationMs ?? -1));
  const p95 = Math.max(-1, ...durations);
  return [String(total ?? ''), String(rejected ?? ''), p95 < 0 ? '' : `${p95} ms`];
}

async function deleteFlow(name: string, { reason, ...options }: DeleteOptions): Promise<void> {
  const client = await clientOf(options);
  const flow = await findFlow(client, name);
  const query = reason === undefined ? '' : `?reason=${encodeURIComponent(reason)}`;
  const { body } = await client.ask({ method: 'DELETE', path: `/flows/api/flows/${flow.id}${query}` });
  const { runsInFlight } = body as { readonly runsInFlight?: unknown };
  if (typeof runsInFlight !== 'number') throw new CommandError('The answer is not that of a Sluice service');
  const going = runsInFlight === 0 ? '' : `; ${runsInFlight} of its runs are in flight and finish`;
  print(`${flow.name} (${flow.id}) is deleted${going}\n`);
}

export const flowsCommand: CommandPart = { name: 'flows', commands: [makeDrain, ...switchCommands, makeFlows] };
