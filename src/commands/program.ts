import { Command } from 'commander';
import { version } from '../version.ts';
import { checkCommand } from './check.ts';
import { deployCommand } from './deploy.ts';
import { drainCommand } from './drain.ts';
import { schemaCommand } from './schema.ts';
import { schemesCommand } from './schemes.ts';
import { sendCommand } from './send.ts';
import { serveCommand } from './serve.ts';

/** Runs what was typed. A mistake in it ends the process with code 2. */
export async function runCommandLine(): Promise<void> {
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
}
