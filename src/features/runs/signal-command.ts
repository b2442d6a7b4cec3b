import { Command } from 'commander';
import { CommandError, printJson, reporting, withService } from '../../commands/context.ts';
import { endingRefusals } from '../../commands/each.ts';
import { HELP } from '../../commands/part.ts';
import { clientOf, isId, listPath, type ServiceOptions } from '../../commands/service-client.ts';
import { print } from '../../telemetry/terminal.ts';

interface SignalOptions extends ServiceOptions {
  readonly reason?: string;
  readonly json?: true;
}

/** The answer of the API. */
interface DeliveredSignal {
  readonly delivered: boolean;
  readonly stepKey: string | null;
}

export function signalCommand(): Command {
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
  const answer = (await client.ask({ method: 'POST', path, ...(body === undefined ? {} : { body }) })).body;
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
