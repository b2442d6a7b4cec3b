import { Command } from 'commander';
import { describeSettings } from '../config/settings-schema.ts';

export function serveCommand(): Command {
  return (
    new Command('serve')
      .description('Run the service; settings come from the environment and from sluice.config.ts')
      .addHelpText('after', settingsHelp)
      // Loaded only here: the service's own rooms cost every other command 0.2 s.
      .action(async () => (await import('../serve.ts')).serve())
  );
}

function settingsHelp(): string {
  const rows = describeSettings().map(({ variable, accepts }) => `  ${variable.padEnd(38)} ${accepts}`);
  return `\nSettings (environment variables):\n${rows.join('\n')}\n  ${'SLUICE_CONFIG'.padEnd(38)} the path of a config module\n`;
}
