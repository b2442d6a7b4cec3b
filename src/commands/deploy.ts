import { Command } from 'commander';
import { formatIssue, type ManifestIssue } from '../manifest/issues.ts';
import type { DeployOutcome, Override } from '../model/finding.ts';
import { print, printError } from '../telemetry/terminal.ts';
import { asJson, type Checked, checkAgainstService, putManifests, readFolder } from './check.ts';
import {
  allowOption,
  CommandError,
  printJson,
  readCommandSettings,
  reporting,
  serviceUrl,
  withService,
} from './context.ts';
import { type CommandPart, HELP } from './part.ts';
import { concludeDeploy, renderDeployed, renderOutcomes } from './render-outcomes.ts';
import { createServiceClient, type ServiceOptions } from './service-client.ts';

interface DeployCommandOptions extends ServiceOptions {
  readonly allow: readonly Override[];
  readonly dryRun?: true;
  readonly json?: true;
}

function deployCommand(): Command {
  const command = new Command('deploy')
    .helpGroup(HELP.daily)
    .description('Deploy a folder of manifests to a running service: all flows at once, except those that are refused')
    .argument('[folder]', 'the folder; default: the manifests folder of the settings')
    .addOption(allowOption('deploy what would be refused'))
    .option('--dry-run', 'show what would happen; change nothing')
    .option('--json', 'print the outcomes as JSON');
  return withService(command)
    .addHelpText(
      'after',
      '\nThe exit code is 0 if everything was deployed, 1 if a flow was refused because of its runs in flight, and 2 if a ' +
        'change would break something or let more in by a webhook, a manifest equals an earlier revision or is invalid, or ' +
        'the service did not answer. If one manifest is invalid, nothing is deployed, and --json prints what check --json does.',
    )
    .action(reporting(deploy));
}

async function deploy(folder: string | undefined, options: DeployCommandOptions): Promise<void> {
  const { outcomes, warnings } = await deployFolder(folder, options).catch((error: unknown) => {
    if (options.json && error instanceof InvalidFolderError) print(asJson(error.checked));
    throw error;
  });
  // Not part of the JSON, which is a list of outcomes.
  if (warnings.length > 0) (options.json ? printError : print)(`${warnings.map(formatIssue).join('\n')}\n\n`);
  const conclusion = concludeDeploy(outcomes, options.allow);
  if (options.json) printJson(outcomes);
  else print(options.dryRun ? renderOutcomes(outcomes, conclusion) : renderDeployed(outcomes));
  process.exitCode = conclusion.code;
}

/** A manifest of the folder is invalid. */
class InvalidFolderError extends CommandError {
  readonly checked: Checked;
  constructor(checked: Checked) {
    super(errorsIn(checked).map(formatIssue).join('\n'));
    this.checked = checked;
  }
}

const errorsIn = ({ issues }: Checked) => issues.filter(({ severity }) => severity === 'error');

/** If any manifest is invalid, nothing changes. */
export async function deployFolder(
  folder: string | undefined,
  { to: given, allow, dryRun, ...credentials }: Omit<DeployCommandOptions, 'json'>,
): Promise<{ readonly outcomes: readonly DeployOutcome[]; readonly warnings: readonly ManifestIssue[] }> {
  const settings = await readCommandSettings(folder);
  const to = given ?? serviceUrl(settings);
  const checked = await checkAgainstService(to, folder, { ...credentials, allow });
  if (errorsIn(checked).length > 0) throw new InvalidFolderError(checked);
  const { issues, outcomes: planned } = checked;
  if (dryRun) return { outcomes: planned, warnings: issues };
  const client = createServiceClient(to, credentials, settings);
  const { manifests } = await readFolder(folder ?? settings.manifests);
  const answer = await putManifests(client, manifests, { allow, isPlan: false, isWholeFolder: true });
  if ('issues' in answer) throw new InvalidFolderError({ ...checked, issues: answer.issues, outcomes: [] });
  return { outcomes: answer.outcomes, warnings: issues };
}

export const deployPart: CommandPart = { name: 'deploy', commands: [deployCommand] };
