import { Command } from 'commander';
import { printJson, reporting, withService } from '../../commands/context.ts';
import { endingRefusals } from '../../commands/each.ts';
import { HELP } from '../../commands/part.ts';
import { clientOf, findFlow, type ServedFlow, type ServiceOptions } from '../../commands/service-client.ts';
import { print } from '../../telemetry/terminal.ts';

export interface SwitchOptions extends ServiceOptions {
  /** False with `--no-hold`. */
  readonly hold?: boolean;
  readonly reason?: string;
  readonly json?: true;
}

/** A flow after it was switched. */
interface SwitchedFlow extends ServedFlow {
  readonly triggers: readonly (ServedFlow['triggers'][number] & { readonly holdsDeliveries?: boolean })[];
}

const EXIT_CODES =
  '\nExits with 0 if it is done, also if it was before, with 1 if the service refused it, with 2 if there is no such flow or\n' +
  'the service did not answer.';

function disableCommand(): Command {
  return flowCommand('disable', 'Stop a flow from starting runs; its runs in flight continue')
    .option('--hold', 'accept deliveries meanwhile, and start their runs when the flow is enabled')
    .option('--no-hold', 'refuse deliveries meanwhile; without either, the triggers of the flow say')
    .action(reporting(endingRefusals(disable)));
}

function enableCommand(): Command {
  return flowCommand('enable', 'Let a flow start runs again, those of its held deliveries first').action(
    reporting(endingRefusals(enable)),
  );
}

export function flowCommand(name: string, description: string): Command {
  const command = new Command(name)
    .helpGroup(HELP.flows)
    .description(description)
    .argument('<flow>', 'id or name of the flow')
    .option('--reason <text>', 'why; kept in the activity')
    .option('--json', 'print the answer of the API');
  return withService(command).addHelpText('after', EXIT_CODES);
}

const SWITCHED = { id: '', name: '', triggers: [{}] };

export async function disable(name: string, { hold, reason, json, ...options }: SwitchOptions): Promise<void> {
  const client = await clientOf(options);
  const { id } = await findFlow(client, name);
  const path = `/flows/api/flows/${id}/disable`;
  const { body } = await client.ask({ method: 'POST', path, body: JSON.stringify({ hold, reason }), like: SWITCHED });
  if (json) printJson(body);
  else print(`${disabledText(body as SwitchedFlow)}\n`);
}

function disabledText({ id, name, triggers, held }: SwitchedFlow): string {
  const holding = new Set(triggers.flatMap(({ holdsDeliveries }) => holdsDeliveries ?? []));
  const some = holding.size > 1 ? '; deliveries are held by some of its triggers and refused by others' : '';
  const all = holding.size === 1 ? `; its deliveries are ${holding.has(true) ? 'held' : 'refused'}` : '';
  return `${name} (${id}) is disabled${some}${all}${held === 0 ? '' : `; ${held} held already`}`;
}

async function enable(name: string, { reason, json, ...options }: SwitchOptions): Promise<void> {
  const client = await clientOf(options);
  const { id, held } = await findFlow(client, name);
  const path = `/flows/api/flows/${id}/enable`;
  const { body } = await client.ask({ method: 'POST', path, body: JSON.stringify({ reason }), like: SWITCHED });
  if (json) return printJson(body);
  const flow = body as SwitchedFlow;
  const isDraining = flow.drainingSince !== null;
  const release = held === 0 || isDraining ? '' : `; the runs of ${held} held deliveries start first`;
  const drain = isDraining ? `; it is still drained, until \`sluice drain ${id} --resume\`` : '';
  print(`${flow.name} (${id}) is enabled${release}${drain}\n`);
}

export const switchCommands = [disableCommand, enableCommand];
