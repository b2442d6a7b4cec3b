import { Command } from 'commander';
import { allowOption, CommandError, reporting, withService } from '../../commands/context.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import { concludeDeploy, renderDeployed } from '../../commands/render-outcomes.ts';
import { clientOf, type ServiceClient, type ServiceOptions } from '../../commands/service-client.ts';
import type { DeployOutcome, Override } from '../../model/finding.ts';
import { print } from '../../telemetry/terminal.ts';

interface ReloadOptions extends ServiceOptions {
  readonly allow: readonly Override[];
}

interface Reloaded {
  readonly outcomes: readonly DeployOutcome[];
  readonly unreadable: readonly { readonly file: string; readonly flowId: string | null; readonly why: string }[];
  readonly warnings: readonly string[];
}

/** Makes a service read its folder again, or plan that; an answer with the status 400 has only a message. */
export async function askReload(
  client: ServiceClient,
  { allow = [], isPlan }: { readonly allow?: readonly Override[]; readonly isPlan: boolean },
): Promise<{ readonly status: number; readonly body: Partial<Reloaded> & { readonly message?: string } }> {
  const path = `/flows/api/flows/reload?dryRun=${isPlan}${allow.length === 0 ? '' : `&allow=${allow.join(',')}`}`;
  const { status, body } = await client.ask({ method: 'POST', path, body: '{}', accepts: [400, 409] });
  return { status, body: Object(body) };
}

function makeReload(): Command {
  const command = new Command('reload')
    .helpGroup(HELP.flows)
    .description('Have a running service read its manifests, its .env and its secrets again, as SIGHUP does')
    .addOption(allowOption('deploy what would be refused'));
  return withService(command)
    .addHelpText(
      'after',
      '\nThe exit code is 0 if everything was read and deployed, otherwise as that of deploy, and 2 if something could not be read.',
    )
    .action(reporting(reload));
}

async function reload({ allow, ...options }: ReloadOptions): Promise<void> {
  const client = await clientOf(options);
  const { status, body } = await askReload(client, { allow, isPlan: false });
  const { outcomes, unreadable, warnings, message } = body;
  if (status === 400 || outcomes === undefined || unreadable === undefined) {
    throw new CommandError(message ?? 'The answer is not that of a Sluice service');
  }
  const lines = [...(warnings ?? []), ...unreadable.map(({ file, why }) => `error ${file} was not deployed: ${why}`)];
  print(`${[...lines, renderDeployed(outcomes)].join('\n')}\n`);
  // The service reports settings that it could not read among its warnings.
  const isUnread = unreadable.length > 0 || lines.some((line) => line.startsWith('error '));
  process.exitCode = isUnread ? 2 : concludeDeploy(outcomes, allow).code;
}

export const deploysCommand: CommandPart = { name: 'deploys', commands: [makeReload] };
