import { Command } from 'commander';
import { formatIssue } from '../manifest/issues.ts';
import { openContext, reporting } from './context.ts';

export function checkCommand(): Command {
  return new Command('check')
    .description('Check a folder of manifests as a start would; exit code 2 where one cannot be loaded')
    .argument('[folder]', 'the folder; the one of the settings where none is given')
    .option('--json', 'print the issues as JSON')
    .action(reporting(check));
}

async function check(folder: string | undefined, options: { json?: true }): Promise<void> {
  const { flows, issues } = await openContext(folder);
  const errors = issues.filter((issue) => issue.severity === 'error').length;
  if (options.json) process.stdout.write(`${JSON.stringify({ flows: flows.length, issues }, null, 2)}\n`);
  else
    process.stdout.write(`${[...issues.map(formatIssue), summary(flows.length, errors, issues.length)].join('\n')}\n`);
  if (errors > 0) process.exitCode = 2;
}

function summary(flows: number, errors: number, issues: number): string {
  return `${flows} flows can be deployed, ${errors} errors, ${issues - errors} warnings`;
}
