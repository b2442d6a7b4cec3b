import { Command } from 'commander';
import { CommandError, reporting, withService } from '../../commands/context.ts';
import { endingRefusals } from '../../commands/each.ts';
import type { CommandPart } from '../../commands/part.ts';
import { clientOf, findFlow, type ServiceOptions } from '../../commands/service-client.ts';
import { isoTimeOf, time } from '../../commands/time.ts';
import { print } from '../../telemetry/terminal.ts';
import { disable, flowCommand, type SwitchOptions } from '../flows/switch-commands.ts';

interface DiscardOptions extends ServiceOptions {
  readonly reason: string;
  readonly before?: number;
}

function makeHold(): Command {
  const command = flowCommand('hold', 'Disable a flow and hold its deliveries: they are accepted, and run later');
  return command.action(
    reporting(endingRefusals((name: string, options: SwitchOptions) => disable(name, { ...options, hold: true }))),
  );
}

function addDiscard(flows: Command): void {
  const discard = new Command('discard-held')
    .description('Discard held deliveries of a flow: their runs never start')
    .argument('<flow>', 'id or name of the flow')
    .requiredOption('--reason <text>', 'why; kept in the activity and with the deliveries')
    .option(
      '--before <time>',
      'only deliveries that were held before this time: 02:00, 30m, 2h, 3d, or ISO 8601',
      time,
    );
  flows
    .description('List or delete the flows of a running service, or discard what one holds')
    .addCommand(withService(discard).action(reporting(discardHeld)));
}

async function discardHeld(name: string, { reason, before, ...options }: DiscardOptions): Promise<void> {
  const client = await clientOf(options);
  const flow = await findFlow(client, name);
  const path = `/flows/api/flows/${flow.id}/held/discard`;
  const body = JSON.stringify({ reason, before: isoTimeOf(before) });
  const { body: answer } = await client.ask({ method: 'POST', path, body });
  const { message, left } = answer as { readonly message?: unknown; readonly left?: unknown };
  if (typeof message !== 'string') throw new CommandError('The answer is not that of a Sluice service');
  print(`${flow.name}: ${message}; ${left} left\n`);
}

export const holdCommand: CommandPart = { name: 'hold', commands: [makeHold], additions: { flows: addDiscard } };
