import { type Command, InvalidArgumentError, Option } from 'commander';
import type { FindingClass } from '../model/finding.ts';

/** Names classes of findings; a command says what it does with them. */
export function allowOption(description: string): Option {
  return new Option('--allow <class>', `${description}; may be given several times`)
    .argParser((value: string, before: readonly FindingClass[]) => [...before, allowable(value)])
    .default([], 'none');
}

/** Adds the options that say where the service is, and who asks. */
export function withService(command: Command): Command {
  return withCredentials(command.option('--to <url>', 'where the service listens', 'http://127.0.0.1:3000'));
}

/** Adds the options that say who asks. */
export function withCredentials(command: Command): Command {
  return command
    .option('--token <token>', 'bearer token of the service; SLUICE_DASHBOARD_TOKEN where not given')
    .option(
      '--user <name:password>',
      'credentials of the service; SLUICE_DASHBOARD_USER and _PASSWORD where not given',
    );
}

function allowable(value: string): FindingClass {
  if (value === 'caution' || value === 'breaking') return value;
  throw new InvalidArgumentError('expected caution or breaking');
}
