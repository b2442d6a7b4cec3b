import { Command } from 'commander';
import { formatIssue } from '../manifest/issues.ts';
import type { DeployOutcome, FindingClass } from '../model/finding.ts';
import { checkAgainstService, putManifests, readFolder } from './check.ts';
import { allowOption, CommandError, readCommandSettings, reporting, withService } from './context.ts';
import { renderDeployed, renderOutcomes } from './render-outcomes.ts';
import { type Credentials, createServiceClient } from './service-client.ts';

export interface ServiceOptions extends Credentials {
  readonly to: string;
}

interface DeployCommandOptions extends ServiceOptions {
  readonly allow: readonly FindingClass[];
  readonly dryRun?: true;
  readonly json?: true;
}

export function deployCommand(): Command {
  const command = new Command('deploy')
    .description('Deploy a folder of manifests to a running service: all flows at once, except those that are refused')
    .argument('[folder]', 'the folder; default: the one of the settings')
    .addOption(allowOption('deploy in spite of cautions, or of breaking changes'))
    .option('--dry-run', 'show what would happen; change nothing')
    .option('--json', 'print the outcomes as JSON');
  return withService(command)
    .addHelpText(
      'after',
      '\nThe exit code is 0 where everything is deployed, 1 where a flow is refused for its runs in flight, 2 where a ' +
        'change would break something, a manifest is invalid or the service cannot be asked. Where one manifest is ' +
        'invalid nothing is deployed.',
    )
    .action(reporting(deploy));
}

async function deploy(folder: string | undefined, options: DeployCommandOptions): Promise<void> {
  const outcomes = await deployFolder(folder, options);
  const render = options.dryRun ? renderOutcomes(outcomes, options.allow) : renderDeployed(outcomes);
  process.stdout.write(options.json ? `${JSON.stringify(outcomes, null, 2)}\n` : render);
  process.exitCode = deployExitCode(outcomes);
}

/** 0 where nothing is refused, 1 where cautions alone are to blame, else 2. */
export function deployExitCode(outcomes: readonly DeployOutcome[]): 0 | 1 | 2 {
  const refused = outcomes.filter(({ action }) => action === 'refused');
  if (refused.length === 0) return 0;
  return refused.every((outcome) => outcome.class === 'caution') ? 1 : 2;
}

/** Where any manifest is invalid nothing changes. */
export async function deployFolder(
  folder: string | undefined,
  { to, allow, dryRun, ...credentials }: Omit<DeployCommandOptions, 'json'>,
): Promise<readonly DeployOutcome[]> {
  const { issues, outcomes: planned } = await checkAgainstService(to, folder, { ...credentials, allow });
  const errors = issues.filter(({ severity }) => severity === 'error');
  if (errors.length > 0) throw new CommandError(errors.map(formatIssue).join('\n'));
  if (dryRun) return planned;
  const settings = await readCommandSettings(folder);
  const client = createServiceClient(to, credentials, settings);
  const { manifests } = await readFolder(folder ?? settings.manifests);
  const answer = await putManifests(client, manifests, { allow, isPlan: false, isWholeFolder: true });
  if ('issues' in answer) throw new CommandError(answer.issues.map(formatIssue).join('\n'));
  return answer.outcomes;
}
