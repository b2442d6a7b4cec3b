#!/usr/bin/env node
import { Command } from 'commander';
import { checkCommand } from './commands/check.ts';
import { deployCommand } from './commands/deploy.ts';
import { drainCommand } from './commands/drain.ts';
import { schemaCommand } from './commands/schema.ts';
import { schemesCommand } from './commands/schemes.ts';
import { sendCommand } from './commands/send.ts';
import { serveCommand } from './commands/serve.ts';
import { version } from './version.ts';

const program = new Command('sluice')
  .description('Receives webhooks safely and runs durable flows from them.')
  .version(version)
  .addCommand(serveCommand())
  .addCommand(checkCommand())
  .addCommand(deployCommand())
  .addCommand(drainCommand())
  .addCommand(sendCommand())
  .addCommand(schemesCommand())
  .addCommand(schemaCommand());

// What was typed wrong ends in 2, as every other mistake of whoever typed it; commander says 1.
for (const command of [program, ...program.commands]) {
  command.showHelpAfterError('(add --help for what is accepted)');
  command.exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2));
}
await program.parseAsync();
