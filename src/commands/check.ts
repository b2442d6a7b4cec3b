import { Command } from 'commander';
import { formatIssue, type ManifestIssue } from '../manifest/issues.ts';
import type { DeployOutcome, FindingClass } from '../model/finding.ts';
import { checkAgainstDatabase } from './check-database.ts';
import { checkAgainstService } from './check-service.ts';
import { reporting } from './context.ts';
import { allowOption, withCredentials } from './options.ts';
import { exitCodeOf, renderOutcomes } from './render-outcomes.ts';

/** What a folder of manifests would do to what is deployed. */
export interface Checked {
  readonly issues: readonly ManifestIssue[];
  /** Manifests without an error. */
  readonly flows: number;
  /** Empty where nothing was compared with. */
  readonly outcomes: readonly DeployOutcome[];
  readonly notInFolder: readonly { readonly id: string; readonly name: string }[];
  /** What the manifests were compared with, in words. */
  readonly against: string;
}

export interface CheckOptions {
  readonly against?: string;
  readonly json?: true;
  readonly allow: readonly FindingClass[];
  readonly user?: string;
  readonly token?: string;
}

export function checkCommand(): Command {
  const command = new Command('check')
    .description('Check a folder of manifests as a start would, and say what deploying it would do')
    .argument('[folder]', 'the folder; the one of the settings where none is given')
    .option('--against <target>', 'URL of a service, or sqlite:PATH; the database of the settings where not given')
    .option('--json', 'print issues and outcomes as JSON')
    .addOption(allowOption('count cautions, or what breaks, as allowed'));
  return withCredentials(command)
    .addHelpText(
      'after',
      '\nThe exit code is 0 where all is safe, 1 where there is a caution, 2 where something breaks, cannot be loaded or ' +
        'cannot be asked.',
    )
    .action(reporting(check));
}

async function check(folder: string | undefined, options: CheckOptions): Promise<void> {
  const { against } = options;
  const isService = against !== undefined && /^https?:/i.test(against);
  const checked = isService
    ? await checkAgainstService(against, folder, options)
    : await checkAgainstDatabase(folder, options);
  const errors = checked.issues.filter(({ severity }) => severity === 'error').length;
  process.stdout.write(options.json ? asJson(checked) : asText(checked, errors, options.allow));
  process.exitCode = errors > 0 ? 2 : exitCodeOf(checked.outcomes, options.allow);
}

function asJson({ flows, issues, outcomes, notInFolder, against }: Checked): string {
  return `${JSON.stringify({ against, flows, issues, outcomes, notInFolder }, null, 2)}\n`;
}

function asText(checked: Checked, errors: number, allow: readonly FindingClass[]): string {
  const { issues, flows, outcomes, notInFolder, against } = checked;
  const summary = `${flows} flows can be deployed, ${errors} errors, ${issues.length - errors} warnings`;
  const gone = notInFolder.map(({ id, name }) => `deployed, and not in the folder: ${name} (${id}); it stays as it is`);
  const plan = outcomes.length === 0 ? [] : [renderOutcomes(outcomes, allow).trimEnd()];
  return `${[[...issues.map(formatIssue), `${summary}; compared with ${against}`].join('\n'), ...gone, ...plan].join('\n\n')}\n`;
}
