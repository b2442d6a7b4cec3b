import { Command } from 'commander';
import { allowOption, positive, printJson, reporting, withService } from '../../commands/context.ts';
import { endingRefusals } from '../../commands/each.ts';
import { type CommandPart, HELP } from '../../commands/part.ts';
import { concludeDeploy, renderDeployed, renderOutcomes } from '../../commands/render-outcomes.ts';
import {
  clientOf,
  flowIdOf,
  listPath,
  RefusedError,
  type ServiceClient,
  type ServiceOptions,
} from '../../commands/service-client.ts';
import { isObject } from '../../manifest/json-text.ts';
import type { DeployOutcome, Override } from '../../model/finding.ts';
import { print, printError } from '../../telemetry/terminal.ts';

interface RestoreOptions extends ServiceOptions {
  readonly allow: readonly Override[];
  readonly dryRun?: true;
  readonly reason?: string;
  readonly json?: true;
}

function restoreCommand(): Command {
  const command = new Command('restore')
    .helpGroup(HELP.flows)
    .description('Go back to an earlier revision of a flow: its manifest is deployed as a new revision')
    .argument('<flow>', 'name of the flow, or its id, which may be that of a flow that was deleted')
    .argument('<revision>', 'number of the revision', positive)
    .addOption(allowOption('restore what would be refused'))
    .option('--dry-run', 'show what would happen; change nothing')
    .option('--reason <text>', 'why; kept with the revision and in the activity')
    .option('--json', 'print the answer of the API');
  return withService(command)
    .addHelpText(
      'after',
      '\nThe findings are those of `sluice deploy`, and so are the exit codes; 1 also says that the revision is in force.',
    )
    .action(reporting(endingRefusals(restore)));
}

async function restore(name: string, revision: number, options: RestoreOptions): Promise<void> {
  const { allow, dryRun, reason, json } = options;
  const client = await clientOf(options);
  const flowId = await flowIdOf(client, name);
  const given = { allow: allow.join(',') || undefined, dryRun };
  const path = listPath(`/flows/api/flows/${flowId}/revisions/${revision}/restore`, given);
  const outcome = await askOutcome(client, path, reason);
  // Giving the number of the revision shows that a rollback is intended.
  const allowed: readonly Override[] = [...allow, 'rollback'];
  const conclusion = concludeDeploy([outcome], allowed);
  if (json) printJson(outcome);
  else print(dryRun ? renderOutcomes([outcome], conclusion) : renderDeployed([outcome]));
  for (const warning of outcome.warnings) printError(`${warning}\n`);
  process.exitCode = conclusion.code;
}

const OUTCOME = { action: '', findings: [], warnings: [] };

type Restored = DeployOutcome & { readonly warnings: readonly string[] };

/** A refused deploy has an outcome, too. Throws `RefusedError` for others, such as that the revision is in force. */
async function askOutcome(client: ServiceClient, path: string, reason: string | undefined): Promise<Restored> {
  try {
    return (await client.ask({ method: 'POST', path, body: JSON.stringify({ reason }), like: OUTCOME }))
      .body as Restored;
  } catch (error) {
    if (error instanceof RefusedError && isObject(error.answer) && error.answer.action === 'refused') {
      return error.answer as unknown as Restored;
    }
    throw error;
  }
}

export const revisionsCommand: CommandPart = { name: 'revisions', commands: [restoreCommand] };
